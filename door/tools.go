package door

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// anyObject is the schema of a tool that has none, which the specification requires.
var anyObject = json.RawMessage(`{"type":"object"}`)

// listTools answers tools/list.
func (c *connection) listTools(_ context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	part, next, err := page(c.client.Tools(), func(t *mcpvisor.Tool) key { return key{t.Server, t.OriginalName} }, p.Cursor, c.opts.pageSize)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListToolsResult{NextCursor: next, Tools: make([]*mcp.Tool, 0, len(part))}
	result.CacheScope = cacheScope
	for _, t := range part {
		tool := *t.Definition
		tool.Name = t.Alias
		if tool.InputSchema == nil {
			tool.InputSchema = anyObject
		}
		result.Tools = append(result.Tools, &tool)
	}
	return result, nil
}

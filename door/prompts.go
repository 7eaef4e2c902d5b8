package door

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// listPrompts answers prompts/list.
func (c *connection) listPrompts(_ context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	part, next, err := page(c.client.Prompts(), func(t *mcpvisor.Prompt) key { return key{t.Server, t.OriginalName} }, p.Cursor, c.opts.pageSize)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListPromptsResult{NextCursor: next, Prompts: make([]*mcp.Prompt, 0, len(part))}
	result.CacheScope = cacheScope
	for _, t := range part {
		prompt := *t.Definition
		prompt.Name = mcpvisor.Alias(t.Server, t.OriginalName)
		result.Prompts = append(result.Prompts, &prompt)
	}
	return result, nil
}

// getPrompt answers prompts/get.
func (c *connection) getPrompt(ctx context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	server, name, ok := c.findPrompt(p.Name)
	if !ok {
		return nil, unknownPrompt(p.Name)
	}
	result, err := c.client.GetPrompt(ctx, server, name, p.Arguments, c.callOptions(p.Meta.ProgressToken)...)
	if err != nil {
		return nil, c.protocolError(p.Name, err)
	}
	return result, nil
}

// findPrompt finds the server of a prompt, and the server's own name for it, by alias or
// qualified name. It need not be listed, because the server may be down.
func (c *connection) findPrompt(name string) (server, own string, ok bool) {
	if server, own, ok = mcpvisor.SplitName(name); ok {
		return server, own, true
	}
	if server, own, ok = mcpvisor.SplitAlias(name); ok {
		return server, own, true
	}
	for _, prompts := range [][]mcpvisor.Prompt{c.client.Prompts(), c.memory.prompts()} {
		for _, p := range prompts {
			if mcpvisor.Alias(p.Server, p.OriginalName) == name {
				return p.Server, p.OriginalName, true
			}
		}
	}
	return "", "", false
}

func unknownPrompt(name string) *jsonrpc.Error {
	return invalidParams("unknown prompt " + quote(name) + "; prompts/list has the names")
}

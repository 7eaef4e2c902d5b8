package facade

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// ReadResource reads a resource of a server by its URI. The URI need not be listed: it
// may be the expansion of a template (MCP, server, resources: resources/read). Errors
// as for [Client.CallTool], ErrUnknownTool excepted.
func (c *Client) ReadResource(ctx context.Context, server, uri string, opts ...CallOption) (*mcp.ReadResourceResult, error) {
	op := "read " + server + " " + uri
	var q tracked
	defer q.abandon()
	r, err := c.sendTo(ctx, &q, server, transport.Request{Method: "resources/read", Target: uri}, map[string]any{"uri": uri}, opts)
	if err != nil {
		return nil, withOp(q.end(c, err), op)
	}
	result, err := decodeResult(ctx, &r, "contents", func(whole, part *mcp.ReadResourceResult) {
		whole.Contents = append(whole.Contents, part.Contents...)
	})
	return result, withOp(q.end(c, err), op)
}

// GetPrompt gets a prompt of a server by the server's own name for it, with its
// arguments (MCP, server, prompts: prompts/get). Errors as for [Client.CallTool],
// ErrUnknownTool excepted.
func (c *Client) GetPrompt(ctx context.Context, server, name string, args map[string]string, opts ...CallOption) (*mcp.GetPromptResult, error) {
	op := "prompt " + mcpvisor.Qualify(server, name)
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	var q tracked
	defer q.abandon()
	r, err := c.sendTo(ctx, &q, server, transport.Request{Method: "prompts/get", Target: name}, params, opts)
	if err != nil {
		return nil, withOp(q.end(c, err), op)
	}
	result, err := decodeResult(ctx, &r, "messages", func(whole, part *mcp.GetPromptResult) {
		whole.Messages = append(whole.Messages, part.Messages...)
	})
	return result, withOp(q.end(c, err), op)
}

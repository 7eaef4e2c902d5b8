package facade

import (
	"context"
	"encoding/json"
	"fmt"

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
	return result, withOp(q.end(c, withRawHint(err, "ReadResourceRaw")), op)
}

// ReadResourceRaw is [Client.ReadResource] that returns the result as the server sent it,
// undecoded: the JSON of an mcp.ReadResourceResult. Members that the go-sdk does not know
// survive.
func (c *Client) ReadResourceRaw(ctx context.Context, server, uri string, opts ...CallOption) (json.RawMessage, error) {
	r := transport.Request{Method: "resources/read", Target: uri}
	return c.sendRaw(ctx, server, r, map[string]any{"uri": uri}, "read "+server+" "+uri, opts)
}

// sendRaw sends a request and returns its result undecoded. op is for the error.
func (c *Client) sendRaw(ctx context.Context, server string, r transport.Request, params any, op string, opts []CallOption) (json.RawMessage, error) {
	var q tracked
	defer q.abandon()
	got, err := c.sendTo(ctx, &q, server, r, params, opts)
	if q.end(c, err) != nil {
		return nil, withOp(err, op)
	}
	got.share.Release()
	return got.raw, nil
}

// promptParams are the params of prompts/get.
func promptParams(name string, args map[string]string) map[string]any {
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	return params
}

// GetPrompt gets a prompt by its qualified name, as in "fs/summarize" ([mcpvisor.Prompt].Name),
// with its arguments (MCP, server, prompts: prompts/get). The prompt need not be listed.
// Errors as for [Client.CallTool], ErrUnknownTool excepted; a name without a server gives
// ErrInvalid.
func (c *Client) GetPrompt(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (*mcp.GetPromptResult, error) {
	op := "prompt " + prompt
	server, name, err := splitPrompt(prompt)
	if err != nil {
		return nil, withOp(err, op)
	}
	var q tracked
	defer q.abandon()
	r, err := c.sendTo(ctx, &q, server, transport.Request{Method: "prompts/get", Target: name}, promptParams(name, args), opts)
	if err != nil {
		return nil, withOp(q.end(c, err), op)
	}
	result, err := decodeResult(ctx, &r, "messages", func(whole, part *mcp.GetPromptResult) {
		whole.Messages = append(whole.Messages, part.Messages...)
	})
	return result, withOp(q.end(c, withRawHint(err, "GetPromptRaw")), op)
}

// GetPromptRaw is [Client.GetPrompt] that returns the result as the server sent it,
// undecoded: the JSON of an mcp.GetPromptResult. Members that the go-sdk does not know
// survive.
func (c *Client) GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (json.RawMessage, error) {
	op := "prompt " + prompt
	server, name, err := splitPrompt(prompt)
	if err != nil {
		return nil, withOp(err, op)
	}
	r := transport.Request{Method: "prompts/get", Target: name}
	return c.sendRaw(ctx, server, r, promptParams(name, args), op, opts)
}

// splitPrompt splits the qualified name of a prompt.
func splitPrompt(prompt string) (server, name string, err error) {
	server, name, ok := mcpvisor.SplitName(prompt)
	if !ok {
		return "", "", &mcpvisor.Error{Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("%q names no server; write server/prompt, as Prompts lists it", truncateName(prompt))}
	}
	return server, name, nil
}

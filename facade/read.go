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
	return askDecoded[mcp.ReadResourceResult](ctx, c, resourceAsk(server, uri), opts)
}

// ReadResourceRaw implements relay.Methods.
func (c relayed) ReadResourceRaw(ctx context.Context, server, uri string, opts ...CallOption) (json.RawMessage, error) {
	return c.askRaw(ctx, resourceAsk(server, uri), opts)
}

// GetPrompt gets a prompt by its qualified name, as in "fs/summarize" ([mcpvisor.prompt].Name),
// with its arguments (MCP, server, prompts: prompts/get). The prompt need not be listed.
// Errors as for [Client.CallTool], ErrUnknownTool excepted; a name without a server gives
// ErrInvalid.
func (c *Client) GetPrompt(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (*mcp.GetPromptResult, error) {
	a, err := promptAsk(prompt, args)
	if err != nil {
		return nil, err
	}
	return askDecoded[mcp.GetPromptResult](ctx, c, a, opts)
}

// GetPromptRaw implements relay.Methods.
func (c relayed) GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (json.RawMessage, error) {
	a, err := promptAsk(prompt, args)
	if err != nil {
		return nil, err
	}
	return c.askRaw(ctx, a, opts)
}

// ask is a request that names its server: a read, a prompt or a completion.
type ask struct {
	server, op string // op is what an error calls the request
	raw        string // the method that returns the result undecoded
	request    transport.Request
	params     map[string]any
}

func resourceAsk(server, uri string) ask {
	return ask{server, "read " + server + " " + uri, "ReadResourceRaw", transport.Request{Method: "resources/read", Target: uri}, map[string]any{"uri": uri}}
}

// promptAsk splits the qualified name of a prompt.
func promptAsk(prompt string, args map[string]string) (ask, error) {
	server, name, ok := mcpvisor.SplitName(prompt)
	if !ok {
		return ask{}, &mcpvisor.Error{Op: "prompt " + prompt, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("%q names no server; write server/prompt, as Prompts lists it", truncateName(prompt))}
	}
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	return ask{server, "prompt " + prompt, "GetPromptRaw", transport.Request{Method: "prompts/get", Target: name}, params}, nil
}

// askRaw returns the result undecoded.
func (c *Client) askRaw(ctx context.Context, a ask, opts []CallOption) (json.RawMessage, error) {
	var q tracked
	defer q.abandon()
	err := c.sendTo(ctx, &q, a.server, a.request, a.params, opts)
	q.response.share.Release()
	if q.end(c, err) != nil {
		return nil, withOp(err, a.op)
	}
	return q.response.raw, nil
}

// askDecoded returns the result decoded.
func askDecoded[T any](ctx context.Context, c *Client, a ask, opts []CallOption) (*T, error) {
	var q tracked
	defer q.abandon()
	if err := c.sendTo(ctx, &q, a.server, a.request, a.params, opts); err != nil {
		return nil, withOp(q.end(c, err), a.op)
	}
	result, err := decodeResult[T](ctx, &q.response)
	if err = withRawHint(err, a.raw); q.end(c, err) != nil {
		return nil, withOp(err, a.op)
	}
	return result, nil
}

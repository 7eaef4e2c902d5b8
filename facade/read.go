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
	return readDecoded[mcp.ReadResourceResult](ctx, c, read{server: server, uri: uri}, opts)
}

// ReadResourceRaw is [Client.ReadResource] that returns the result as the server sent it,
// undecoded: the JSON of an mcp.ReadResourceResult. Members that the go-sdk does not know
// survive.
func (c *Client) ReadResourceRaw(ctx context.Context, server, uri string, opts ...CallOption) (json.RawMessage, error) {
	return c.readRaw(ctx, read{server: server, uri: uri}, opts)
}

// GetPrompt gets a prompt by its qualified name, as in "fs/summarize" ([mcpvisor.prompt].Name),
// with its arguments (MCP, server, prompts: prompts/get). The prompt need not be listed.
// Errors as for [Client.CallTool], ErrUnknownTool excepted; a name without a server gives
// ErrInvalid.
func (c *Client) GetPrompt(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (*mcp.GetPromptResult, error) {
	r, err := promptRead(prompt, args)
	if err != nil {
		return nil, err
	}
	return readDecoded[mcp.GetPromptResult](ctx, c, r, opts)
}

// GetPromptRaw is [Client.GetPrompt] that returns the result as the server sent it,
// undecoded: the JSON of an mcp.GetPromptResult. Members that the go-sdk does not know
// survive.
func (c *Client) GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (json.RawMessage, error) {
	r, err := promptRead(prompt, args)
	if err != nil {
		return nil, err
	}
	return c.readRaw(ctx, r, opts)
}

// promptRead splits the qualified name of a prompt.
func promptRead(prompt string, args map[string]string) (read, error) {
	server, name, ok := mcpvisor.SplitName(prompt)
	if !ok {
		return read{}, &mcpvisor.Error{Op: "prompt " + prompt, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("%q names no server; write server/prompt, as Prompts lists it", truncateName(prompt))}
	}
	return read{server: server, prompt: name, arguments: args}, nil
}

// read is a read of a resource, or of a prompt if that is not "".
type read struct {
	server, uri, prompt string
	arguments           map[string]string // of the prompt
}

// request returns the request, its params, and what an error calls it.
func (r *read) request() (request transport.Request, params map[string]any, op string) {
	if r.prompt == "" {
		return transport.Request{Method: "resources/read", Target: r.uri}, map[string]any{"uri": r.uri}, "read " + r.server + " " + r.uri
	}
	params = map[string]any{"name": r.prompt}
	if len(r.arguments) > 0 {
		params["arguments"] = r.arguments
	}
	return transport.Request{Method: "prompts/get", Target: r.prompt}, params, "prompt " + mcpvisor.Qualify(r.server, r.prompt)
}

// readRaw reads and returns the result undecoded.
func (c *Client) readRaw(ctx context.Context, r read, opts []CallOption) (json.RawMessage, error) {
	request, params, op := r.request()
	var q tracked
	defer q.abandon()
	got, err := c.sendTo(ctx, &q, r.server, request, params, opts)
	if q.end(c, err) != nil {
		return nil, withOp(err, op)
	}
	got.share.Release()
	return got.raw, nil
}

// readDecoded reads and returns the result decoded.
func readDecoded[T any](ctx context.Context, c *Client, r read, opts []CallOption) (*T, error) {
	rawMethod := "ReadResourceRaw"
	if r.prompt != "" {
		rawMethod = "GetPromptRaw"
	}
	request, params, op := r.request()
	var q tracked
	defer q.abandon()
	got, err := c.sendTo(ctx, &q, r.server, request, params, opts)
	if err != nil {
		return nil, withOp(q.end(c, err), op)
	}
	result, err := decodeResult[T](ctx, &got)
	if err = withRawHint(err, rawMethod); q.end(c, err) != nil {
		return nil, withOp(err, op)
	}
	return result, nil
}

package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
)

// CallTool calls a tool by its qualified name ("fs/list_directory") or its alias
// ("mcp__fs__list_directory"). args is anything that marshals to a JSON object, raw
// JSON of an object, or nil (MCP, server, tools: tools/call).
//
// A tool that fails by itself returns a result with IsError and no error.
//
// Errors: ErrUnknownServer, ErrUnknownTool, ErrInvalid (the arguments), ErrUnavailable
// (RetryAfter says when to try again), ErrEvicted, ErrAuthRequired, ErrOverloaded,
// ErrCrashed, ErrTimeout, ErrCanceled, ErrRPC, ErrProtocol, ErrInputRequired,
// ErrClosed. The Outcome of the *mcpvisor.Error says whether the server may have
// executed the call.
func (c *Client) CallTool(ctx context.Context, tool string, args any, opts ...CallOption) (*mcp.CallToolResult, error) {
	share := sharePool.Get().(*budget.Share)
	r, err := c.callTool(ctx, tool, toolArguments{value: args}, opts, share)
	var result *mcp.CallToolResult
	if err == nil {
		result, err = decodeToolResult(ctx, &r)
	}
	share.Release()
	sharePool.Put(share)
	if err != nil {
		return nil, withOp(err, "call "+tool)
	}
	return result, nil
}

// sharePool holds empty shares of the buffer budget for [Client.CallTool].
var sharePool = sync.Pool{New: func() any { return new(budget.Share) }}

// CallToolRaw is [Client.CallTool] with raw arguments; it returns the result as the
// server sent it, undecoded: the JSON of an mcp.CallToolResult. It is the fastest way to
// call, and works for results that the go-sdk cannot decode.
func (c *Client) CallToolRaw(ctx context.Context, tool string, args json.RawMessage, opts ...CallOption) (json.RawMessage, error) {
	r, err := c.callTool(ctx, tool, toolArguments{raw: args}, opts, nil)
	if err != nil {
		return nil, withOp(err, "call "+tool)
	}
	return r.raw, nil
}

// callTool sends tools/call. share gets what the response holds of the buffer budget;
// nil gives that back as soon as the response was read.
func (c *Client) callTool(ctx context.Context, tool string, args toolArguments, opts []CallOption, share *budget.Share) (response, error) {
	o := c.callOptions(opts)
	view, name, err := c.resolveTool(ctx, tool, o)
	if err != nil {
		return response{}, err
	}
	params, err := toolCallParams(name, args)
	if err != nil {
		return response{}, err
	}
	return c.sendWhenReady(ctx, view, transport.Request{Method: "tools/call", Target: name, Params: params, Held: share}, o)
}

// toolCallParams returns the params of tools/call. They are put together in a buffer of
// paramsPool, because their length is not known before.
func toolCallParams(name string, args toolArguments) (json.RawMessage, error) {
	buffer := paramsPool.Get().(*[]byte)
	defer paramsPool.Put(buffer)
	b := append((*buffer)[:0], `{"name":`...)
	b = appendQuoted(b, name)
	b = append(b, `,"arguments":`...)
	b, err := args.append(b)
	if err != nil {
		return nil, err
	}
	b = append(b, '}')
	if cap(b) <= maxPooledParams {
		*buffer = b
	}
	return bytes.Clone(b), nil
}

// maxPooledParams is the longest buffer that paramsPool keeps, in bytes.
const maxPooledParams = 16 << 10

var paramsPool = sync.Pool{New: func() any { return new([]byte) }}

// appendQuoted appends a name as a JSON string. Most names need no escapes.
func appendQuoted(b []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(name) // a string always marshals
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// resolveTool finds the server of a tool and the server's own name for the tool. While
// the server is down its tools are not known, and any name is accepted.
func (c *Client) resolveTool(ctx context.Context, tool string, o callOptions) (*actors.View, string, error) {
	server, name, ok := mcpvisor.SplitName(tool)
	if !ok {
		server, name, ok = c.rt.Snapshot().SplitAlias(tool)
	}
	if !ok {
		return nil, "", unknownTool(c.rt.Snapshot(), tool)
	}
	v, err := c.findServer(ctx, server, o)
	if err != nil {
		return nil, "", err
	}
	_, found := v.Catalog.Tool(name)
	switch {
	case found:
	case !v.Spec.Tools.Allows(name):
		return nil, "", hiddenTool(server)
	case v.Catalog != nil:
		return nil, "", unknownTool(c.rt.Snapshot(), tool)
	}
	return v, name, nil
}

package facade

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/plainjson"
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
	if c.opts.interceptors != nil {
		r, err := c.callIntercepted(ctx, tool, toolArguments{value: args}, opts)
		if err != nil {
			return nil, err
		}
		return c.decodeIntercepted(ctx, tool, r, opts)
	}
	var q tracked
	defer q.abandon()
	share := sharePool.Get().(*budget.Share)
	r, err := c.callTool(ctx, &q, tool, toolArguments{value: args}, opts, share)
	var result *mcp.CallToolResult
	if err == nil {
		result, err = decodeToolResult(ctx, &r)
	}
	share.Release()
	sharePool.Put(share)
	if q.end(c, err) != nil {
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
	if c.opts.interceptors != nil {
		r, err := c.callIntercepted(ctx, tool, toolArguments{raw: args}, opts)
		return r.JSON, err
	}
	return c.callRaw(ctx, tool, args, opts)
}

// callRaw is CallToolRaw without interceptors.
func (c *Client) callRaw(ctx context.Context, tool string, args json.RawMessage, opts []CallOption) (json.RawMessage, error) {
	var q tracked
	defer q.abandon()
	r, err := c.callTool(ctx, &q, tool, toolArguments{raw: args}, opts, nil)
	if q.end(c, err) != nil {
		return nil, withOp(err, "call "+tool)
	}
	return r.raw, nil
}

// callTool sends tools/call. share gets what the response holds of the buffer budget;
// nil gives that back as soon as the response was read.
func (c *Client) callTool(ctx context.Context, q *tracked, tool string, args toolArguments, opts []CallOption, share *budget.Share) (response, error) {
	view, name, err := c.splitTool(tool)
	if err != nil {
		return response{}, err
	}
	o := c.callOptions(opts)
	_, listed := view.Catalog.Tool(name)
	ctx = c.begin(ctx, q, view, "tools/call", name, listed)
	if view, err = c.awaitServer(ctx, view, o); err != nil {
		return response{}, err
	}
	if q.listed, err = c.checkTool(view, tool, name); err != nil {
		return response{}, err
	}
	if c.opts.validation {
		if err := c.checkArguments(view, name, args); err != nil {
			return response{}, err
		}
	}
	buffer := paramsPool.Get().(*[]byte)
	params, err := appendToolCallParams((*buffer)[:0], name, args)
	if err != nil {
		return response{}, err
	}
	r, err := c.sendWhenReady(ctx, q, view, transport.Request{Method: "tools/call", Target: name, Params: params, Held: share}, o)
	if cap(params) <= maxPooledParams { // a call that panics gives nothing back
		*buffer = params
	}
	paramsPool.Put(buffer)
	return r, err
}

// appendToolCallParams appends the params of tools/call.
func appendToolCallParams(b []byte, name string, args toolArguments) ([]byte, error) {
	b = append(b, `{"name":`...)
	b = plainjson.AppendString(b, name)
	b = append(b, `,"arguments":`...)
	b, err := args.append(b)
	return append(b, '}'), err
}

// maxPooledParams is the longest buffer that paramsPool keeps, in bytes.
const maxPooledParams = 16 << 10

// paramsPool holds buffers for the params of tool calls. A session does not keep the
// params of a request that has returned.
var paramsPool = sync.Pool{New: func() any { return new([]byte) }}

// splitTool finds the server of a tool and the server's own name for the tool, in a
// qualified name or an alias.
func (c *Client) splitTool(tool string) (v *actors.View, name string, err error) {
	s := c.rt.Snapshot()
	server, name, ok := mcpvisor.SplitName(tool)
	if !ok {
		server, name, ok = s.SplitAlias(tool)
	}
	if !ok {
		return nil, "", unknownTool(s, tool)
	}
	if v = s.Server(server); v == nil {
		return nil, "", unknownServer(s, server)
	}
	return v, name, nil
}

// checkTool refuses a call of a tool that the server does not list. While the server is
// down its tools are not known, and any name is accepted. listed: the server lists it.
func (c *Client) checkTool(v *actors.View, tool, name string) (listed bool, err error) {
	_, listed = v.Catalog.Tool(name)
	switch {
	case listed:
	case !v.Spec.Tools.Allows(name):
		return false, hiddenTool(v.Name)
	case v.Catalog != nil:
		return false, unknownTool(c.rt.Snapshot(), tool)
	}
	return listed, nil
}

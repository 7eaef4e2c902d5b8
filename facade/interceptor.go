package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// ToolCall is a call of a tool as an [Interceptor] sees it.
type ToolCall struct {
	// Server is the name of the server, and Tool the server's own name of the tool.
	Server, Tool string
	// Arguments are the JSON of an object. Do not modify the bytes; set another slice.
	Arguments json.RawMessage
	// Definition is what the server says about the tool, Annotations included. Annotations
	// are hints: do not trust those of an untrusted server (MCP, server, tools). nil if the
	// server lists no such tool, or is down. It is shared; do not modify it.
	Definition *mcp.Tool
}

// Name is the qualified name of the tool, as in "fs/list_directory".
func (c ToolCall) Name() string { return mcpvisor.Qualify(c.Server, c.Tool) }

// CallResult is the result of a call as an [Interceptor] sees it.
type CallResult struct {
	// JSON is the JSON of an mcp.CallToolResult, as the server has sent it. Do not modify
	// the bytes.
	JSON json.RawMessage
}

// NewCallResult encodes a result, for an interceptor that answers by itself.
func NewCallResult(r *mcp.CallToolResult) (CallResult, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return CallResult{}, fmt.Errorf("encode the result of a tool: %w", err)
	}
	return CallResult{raw}, nil
}

// IsError reports whether the tool says that it has failed.
func (r CallResult) IsError() bool { return isToolError(r.JSON) }

// Decode decodes the result. The error is an ErrProtocol. It applies none of the limits of
// a server; CallTool does.
func (r CallResult) Decode() (*mcp.CallToolResult, error) {
	result, err := decodeWholeToolResult(context.Background(), r.JSON)
	return result, withRawHint(err)
}

// CallNext goes on with a call: to the next interceptor, or to the server.
type CallNext func(ctx context.Context, call ToolCall) (CallResult, error)

// Interceptor is called around each call of a tool, in the goroutine of the caller. It
// goes on with next, and returns what that has returned or something else. It may
//
//   - refuse: return an error, or a result with IsError, without next;
//   - answer by itself, from a cache for instance;
//   - change the arguments, the context, or which tool is called;
//   - look at the outcome: of the error, Outcome of *[mcpvisor.Error] says whether the
//     server may have executed the call;
//   - call next again. That is only safe if nothing was sent ([mcpvisor.OutcomeNotSent]),
//     or if the tool is idempotent.
//
// The error of an interceptor is returned to the caller as it is. Names and arguments are
// checked before the first interceptor: a call of an unknown server or tool never comes
// here, unless the server is down, when its tools are not known. A call that goes on is
// checked again, waits for its server, and is counted as any other; one that does not is
// in no statistic and no trace.
type Interceptor func(ctx context.Context, call ToolCall, next CallNext) (CallResult, error)

// WithInterceptor calls f around every call of a tool by CallTool, CallToolRaw and
// CallToolForModel: the place for confirmation by the user, audit, caches and limits of
// the host. The option may be given several times; the first is the outermost. f must be
// safe for concurrent use. A call without interceptors costs nothing more; one with them is
// encoded and decoded around them. Default, and for nil: none.
func WithInterceptor(f Interceptor) Option {
	return func(o *options) {
		if f != nil {
			o.interceptors = append(o.interceptors, f)
		}
	}
}

// callIntercepted makes a call through the interceptors.
func (c *Client) callIntercepted(ctx context.Context, tool string, args toolArguments, opts []CallOption) (CallResult, error) {
	view, name, err := c.splitTool(tool)
	if err != nil {
		c.rt.RecordUnknownServer()
		return CallResult{}, withOp(err, "call "+tool)
	}
	call := ToolCall{Server: view.Name, Tool: name}
	t, listed := view.Catalog.Tool(name)
	if listed {
		call.Definition = t.Definition
	}
	if call.Arguments, err = args.append(nil); err == nil {
		err = c.checkCall(view, tool, call)
	}
	if err != nil {
		var q tracked
		c.begin(ctx, &q, view, "tools/call", name, listed)
		return CallResult{}, withOp(q.end(c, err), "call "+tool)
	}
	r, err := c.intercept(ctx, call, 0, opts)
	if err == nil && !json.Valid(r.JSON) {
		cause := errNoResult
		if len(r.JSON) > 0 {
			cause = errNotJSON
		}
		err = &mcpvisor.Error{Server: view.Name, Gen: view.Gen, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeUnknown,
			Op: "call " + tool, Cause: cause, Hint: "return what next has returned, a result of NewCallResult, or an error"}
	}
	return r, err
}

// checkCall refuses what the server would not get anyway, so that no user is asked about it.
func (c *Client) checkCall(view *actors.View, tool string, call ToolCall) error {
	if _, err := c.checkTool(view, tool, call.Tool); err != nil || !c.opts.validation {
		return err
	}
	return c.checkArguments(view, call.Tool, toolArguments{raw: call.Arguments})
}

// The causes of a call whose interceptor has returned nothing that can be passed on.
var (
	errNoResult = errors.New("an interceptor returned neither a result nor an error")
	errNotJSON  = errors.New("an interceptor returned a result that is not JSON")
)

// intercept calls the interceptors from the one with that index on, and then the server.
func (c *Client) intercept(ctx context.Context, call ToolCall, index int, opts []CallOption) (CallResult, error) {
	if index == len(c.opts.interceptors) {
		raw, err := c.callRaw(ctx, call.Name(), call.Arguments, opts)
		return CallResult{raw}, err
	}
	return c.opts.interceptors[index](ctx, call, func(ctx context.Context, call ToolCall) (CallResult, error) {
		return c.intercept(ctx, call, index+1, opts)
	})
}

// decodeIntercepted decodes what the interceptors have returned, within the limits of the
// server and of the client.
func (c *Client) decodeIntercepted(ctx context.Context, tool string, r CallResult, opts []CallOption) (*mcp.CallToolResult, error) {
	view, _, err := c.splitTool(tool)
	if err != nil { // unregistered during the call
		return r.Decode()
	}
	share := new(budget.Share)
	defer share.Release()
	result, err := decodeToolResult(ctx, &response{r.JSON, view, time.Now(), 0, c.callOptions(opts).timeout, share})
	return result, withOp(err, "call "+tool)
}

package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
)

// ToolCall is a call of a tool as an [Interceptor] sees it.
type ToolCall struct {
	// Server is the name of the server, and Tool the server's own name of the tool.
	Server, Tool string
	// Arguments are the JSON of an object. Do not modify the bytes; set another slice.
	Arguments json.RawMessage
	// Definition is the tool as the server declared it, Annotations included. Annotations
	// are hints: do not trust those of an untrusted server (MCP, server, tools). nil if the
	// server lists no such tool, or is down. It is shared; do not modify it.
	Definition *mcp.Tool
}

// Name is the qualified name of the tool, as in "fs/list_directory".
func (c ToolCall) Name() string { return mcpvisor.Qualify(c.Server, c.Tool) }

// CallResult is the result of a call as an [Interceptor] sees it.
type CallResult struct {
	// JSON is the JSON of an mcp.CallToolResult, as the server has sent it. Do not modify
	// the bytes; set another slice.
	JSON json.RawMessage

	from *answeredBy // nil for a result of the host
}

// answeredBy is what bounds the decoding of a result of a server.
type answeredBy struct {
	c       *Client
	view    *actors.View
	timeout time.Duration // of the call
}

// NewCallResult encodes a result, for an interceptor that answers by itself.
func NewCallResult(r *mcp.CallToolResult) (CallResult, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return CallResult{}, fmt.Errorf("encode the result of a tool: %w", err)
	}
	return CallResult{JSON: raw}, nil
}

// IsError reports whether the tool says that it has failed.
func (r CallResult) IsError() bool { return isToolError(r.JSON) }

// Decode decodes the result. The error is an ErrProtocol or, if decoding takes longer than
// a call of the server may, an ErrTimeout. The result of a server is decoded within its
// Limits and the MaxBufferBytes of the client.
func (r CallResult) Decode() (*mcp.CallToolResult, error) { return r.decode(context.Background()) }

func (r CallResult) decode(ctx context.Context) (*mcp.CallToolResult, error) {
	if r.from == nil {
		result, err := decodeWholeToolResult(ctx, r.JSON)
		return result, withRawHint(err, "CallToolRaw")
	}
	share := r.from.c.intercepted.Share()
	defer share.Release()
	return decodeToolResult(ctx, &response{raw: r.JSON, view: r.from.view, began: time.Now(), timeout: r.from.timeout, share: &share})
}

// CallNext continues with a call: to the next interceptor, or to the server. For CallTool and
// CallToolForModel it fails if the result cannot be decoded within the limits of the server.
type CallNext func(ctx context.Context, call ToolCall) (CallResult, error)

// Interceptor is called around each call of a tool, in the goroutine of the caller. It calls next
// to continue with the call, and returns the result of next or another one. It may
//
//   - refuse: return an error, or a result with IsError, without next;
//   - answer by itself, from a cache for instance;
//   - change the arguments, the context, or which tool is called;
//   - look at the outcome: Outcome of the *[mcpvisor.Error] says whether the server may have
//     executed the call;
//   - call next again. That is only safe if nothing was sent ([mcpvisor.OutcomeNotSent]),
//     or if the tool is idempotent.
//
// The error of an interceptor is returned to the caller as it is. One that wraps no
// *[mcpvisor.Error] is a refusal: CallToolForModel tells the model its text, as in "The call of
// fs/write was refused: the user declined". So the text must be fit for a model.
//
// Names and arguments are checked before the first interceptor, so a call of an unknown server or
// tool does not reach it. But while a server is down its tools are not known: then a call of any
// tool name reaches the interceptor. A call that an interceptor passes to next is checked again,
// waits for its server, and is counted like any other. A call that it does not pass on appears in
// no statistic and no trace.
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

// interceptedCall is one call on its way through the interceptors.
type interceptedCall struct {
	c      *Client
	tool   string // as the caller has named it
	opts   []CallOption
	decode bool         // the caller wants the result decoded
	view   *actors.View // of the tool's server; nil before run has found it

	mu     sync.Mutex
	ran    bool                // the server may have executed a call
	raw    json.RawMessage     // the last result of a server
	result *mcp.CallToolResult // is raw decoded; nil without decode
}

func (c *Client) newInterceptedCall(tool string, opts []CallOption, decode bool) *interceptedCall {
	return &interceptedCall{c: c, tool: tool, opts: opts, decode: decode}
}

// callToolIntercepted is CallTool with interceptors. ran says that the server may have
// executed a call.
func (c *Client) callToolIntercepted(ctx context.Context, tool string, args any, opts []CallOption) (_ *mcp.CallToolResult, ran bool, _ error) {
	i := c.newInterceptedCall(tool, opts, true)
	r, err := i.run(ctx, toolArguments{value: args})
	result, ran := i.outcome(r)
	if err != nil || result != nil {
		return result, ran, err
	}
	result, err = r.decode(ctx)
	if errors.Is(err, mcpvisor.ErrProtocol) {
		err = i.invalidResult(fmt.Errorf("an interceptor returned a result that cannot be read: %w", err))
	}
	return result, ran, withOp(err, "call "+tool)
}

// run makes the call. The result is JSON.
func (i *interceptedCall) run(ctx context.Context, args toolArguments) (CallResult, error) {
	c, op := i.c, "call "+i.tool
	view, name, err := c.splitTool(i.tool)
	if err != nil && c.callOptions(i.opts).HasKey { // the journal may have the answer
		if v, own, ok := unregistered(i.tool, err); ok {
			view, name, err = v, own, nil
		}
	}
	if err != nil {
		c.rt.RecordUnknownServer()
		return CallResult{}, withOp(err, op)
	}
	i.view = view
	call := ToolCall{Server: view.Name, Tool: name}
	t, listed := view.Catalog.Tool(name)
	if listed {
		call.Definition = t.Definition
	}
	if call.Arguments, err = args.append(nil); err == nil {
		err = c.checkCall(ctx, view, i.tool, call, c.callOptions(i.opts))
	}
	if err != nil {
		var q tracked
		c.begin(ctx, &q, view, "tools/call", name, listed)
		return CallResult{}, withOp(q.end(c, err), op)
	}
	r, err := i.next(ctx, call, 0)
	switch {
	case err != nil:
		return CallResult{}, err
	case len(r.JSON) == 0:
		return CallResult{}, i.invalidResult(errNoResult)
	case !i.isUnchanged(r) && !json.Valid(r.JSON):
		return CallResult{}, i.invalidResult(errNotJSON)
	}
	if r.from == nil { // of the host, perhaps from an earlier call
		r.from = &answeredBy{c, view, c.callOptions(i.opts).Timeout}
	}
	return r, nil
}

// checkCall refuses what the server would not get anyway, so that no user is asked about it.
func (c *Client) checkCall(ctx context.Context, view *actors.View, tool string, call ToolCall, o *callOptions) error {
	if _, err := c.checkTool(view, tool, call.Tool); err != nil || o.WithoutValidation {
		return err
	}
	return c.checkArguments(ctx, view, call.Tool, call.Arguments, o.strict)
}

// next calls the interceptors from the one with that index on, and then the server.
func (i *interceptedCall) next(ctx context.Context, call ToolCall, index int) (CallResult, error) {
	if index == len(i.c.opts.interceptors) {
		return i.send(ctx, call)
	}
	return i.c.opts.interceptors[index](ctx, call, func(ctx context.Context, call ToolCall) (CallResult, error) {
		return i.next(ctx, call, index+1)
	})
}

// send makes the call as one without interceptors is made: a result that is wanted decoded
// is decoded within the call, by its bounds and for its statistics.
func (i *interceptedCall) send(ctx context.Context, call ToolCall) (CallResult, error) {
	var (
		r      response
		result *mcp.CallToolResult
		err    error
	)
	if i.decode {
		r, result, err = i.c.callDecoded(ctx, call.Name(), toolArguments{raw: call.Arguments}, i.opts)
	} else {
		r, err = i.c.callRaw(ctx, call.Name(), call.Arguments, i.opts)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ran = i.ran || err == nil || asError(err).Outcome != mcpvisor.OutcomeNotSent
	if err != nil {
		return CallResult{}, err
	}
	i.raw, i.result = r.raw, result
	return CallResult{r.raw, &answeredBy{i.c, r.view, r.timeout}}, nil
}

// isUnchanged reports whether r is the last result of a server as it came.
func (i *interceptedCall) isUnchanged(r CallResult) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(r.JSON) > 0 && len(r.JSON) == len(i.raw) && &r.JSON[0] == &i.raw[0]
}

// outcome returns r decoded, if it was decoded before, and whether the server may have
// executed a call.
func (i *interceptedCall) outcome(r CallResult) (result *mcp.CallToolResult, ran bool) {
	unchanged := i.isUnchanged(r)
	i.mu.Lock()
	defer i.mu.Unlock()
	if unchanged {
		result = i.result
	}
	return result, i.ran
}

// The causes of a call whose interceptor has returned nothing that can be passed on.
var (
	errNoResult = errors.New("an interceptor returned neither a result nor an error")
	errNotJSON  = errors.New("an interceptor returned a result that is not JSON")
)

// invalidResult is the error of a call whose interceptors returned what cannot be passed on.
func (i *interceptedCall) invalidResult(cause error) *mcpvisor.Error {
	outcome := mcpvisor.OutcomeNotSent
	if _, ran := i.outcome(CallResult{}); ran {
		outcome = mcpvisor.OutcomeUnknown
	}
	return &mcpvisor.Error{Server: i.view.Name, Gen: i.view.Gen, Kind: mcpvisor.ErrInvalid, Outcome: outcome, Op: "call " + i.tool, Cause: &interceptorError{cause},
		Hint: "return what next has returned, a result of NewCallResult, or an error"}
}

// interceptorError is a mistake of an interceptor, and not of the caller.
type interceptorError struct{ error }

func (e *interceptorError) Unwrap() error { return e.error }

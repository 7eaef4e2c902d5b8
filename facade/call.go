package facade

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/plainjson"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
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
		result, _, err := c.callToolIntercepted(ctx, tool, args, opts)
		return result, err
	}
	var q tracked
	return c.callDecoded(ctx, &q, tool, toolArguments{value: args}, opts)
}

// callDecoded is CallTool without interceptors. q is for this call alone; the share of the buffer of its response is
// released.
func (c *Client) callDecoded(ctx context.Context, q *tracked, tool string, args toolArguments, opts []CallOption) (result *mcp.CallToolResult, err error) {
	share := sharePool.Get().(*budget.Share)
	defer func() { // also if a function of the caller panics
		q.abandon()
		share.Release()
		*share = budget.Share{} // the next call may be of another server
		sharePool.Put(share)
	}()
	if err = c.callTool(ctx, q, tool, args, opts, share); err == nil {
		result, err = decodeToolResult(ctx, &q.response)
	}
	share.Release()
	q.response.share = nil
	if q.end(c, err) != nil {
		return nil, withOp(err, "call "+tool)
	}
	return result, nil
}

// sharePool holds shares for [Client.CallTool] that are empty and of no buffer budget.
var sharePool = sync.Pool{New: func() any { return new(budget.Share) }}

// CallToolRaw is [Client.CallTool] with raw arguments; it returns the result as the
// server sent it, undecoded: the JSON of an mcp.CallToolResult. It is the fastest way to
// call, and works for results that the go-sdk cannot decode.
func (c *Client) CallToolRaw(ctx context.Context, tool string, args json.RawMessage, opts ...CallOption) (json.RawMessage, error) {
	if c.opts.interceptors != nil {
		r, err := c.newInterceptedCall(tool, opts, false).run(ctx, toolArguments{raw: args})
		return r.JSON, err
	}
	var q tracked
	err := c.callRaw(ctx, &q, tool, args, opts)
	return q.response.raw, err
}

// callRaw is CallToolRaw without interceptors. q is for this call alone.
func (c *Client) callRaw(ctx context.Context, q *tracked, tool string, args json.RawMessage, opts []CallOption) error {
	defer q.abandon()
	err := c.callTool(ctx, q, tool, toolArguments{raw: args}, opts, nil)
	if q.end(c, err) != nil {
		q.response = response{}
		return withOp(err, "call "+tool)
	}
	return nil
}

// callTool sends tools/call, and sets q.response. share gets what the response holds of the buffer budget;
// nil gives that back as soon as the response was read.
func (c *Client) callTool(ctx context.Context, q *tracked, tool string, args toolArguments, opts []CallOption, share *budget.Share) error {
	view, name, err := c.splitTool(tool)
	if err != nil && len(opts) == 0 {
		return err
	}
	o := c.callOptions(opts)
	q.record.Client, q.principal = o.ClientName, cmp.Or(o.Principal, o.Key.Principal)
	if o.room != nil && share == nil {
		share = o.room
	}
	if o.HasKey {
		answered, err := c.beginKeyed(ctx, q, view, tool, name, args, o, share, err)
		if answered || err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	offered := view.Catalog.FindTool(name)
	q.setMeta(o.Meta)
	ctx = c.begin(ctx, q, view, "tools/call", name, offered != nil)
	switch {
	case o.Relay && (o.HasKey || o.detached):
		o.err = errRelayOnly
	case o.TaskRelay != nil && (o.HasKey || o.detached):
		o.err = errTaskRelayOnly
	}
	if o.err != nil {
		return invalidRequest(o.err)
	}
	if view, err = c.awaitServer(ctx, view, o); err != nil {
		return err
	}
	if view != q.view || offered == nil {
		if offered, err = c.checkTool(view, tool, name); err != nil {
			return err
		}
		q.listed = offered != nil
	}
	buffer := paramsPool.Get().(*[]byte)
	params, start, err := appendToolCallParams((*buffer)[:0], name, args)
	if err == nil && c.opts.endedArguments {
		q.arguments = bytes.Clone(params[start : len(params)-1])
	}
	if err == nil && !o.WithoutValidation {
		err = c.checkArguments(ctx, view, name, params[start:len(params)-1], o.strict)
	}
	if err == nil && c.opts.callGuard != nil {
		o, view, offered, err = c.guardCall(ctx, view, name, o, params, start)
	}
	if err != nil {
		return err
	}
	q.listed = offered != nil
	params = appendRound(params, &o.Continuation)
	var request transport.Request // one copy of it: calls that wait have their stacks in no cache
	request.Method, request.Target, request.Params, request.Held = "tools/call", name, params, share
	if offered != nil && offered.TaskSupport != "" && wantsTask(view, offered.TaskSupport, o) {
		params = asTask(params, o.TaskRelay)
		request.Params, request.AsTask = params, true
	}
	if o.keyed == nil {
		err = c.sendWhenReady(ctx, q, view, &request, o)
	} else {
		err = o.keyed.send(ctx, q, view, &request, o)
	}
	if cap(params) <= maxPooledParams { // a call that panics gives nothing back
		*buffer = params
	}
	paramsPool.Put(buffer)
	return err
}

// wantsTask reports whether a call asks for a task, as servers of 2025-11-25 want it: the tool
// requires that, or allows it to a call that is worth it: one of StartTask, with a key, or whose
// caller takes the task.
func wantsTask(v *actors.View, support string, o *callOptions) bool {
	return !v.Modern() && (support == "required" || o.detached || o.keyed != nil || o.TaskRelay != nil)
}

// appendToolCallParams appends the params of tools/call. The arguments begin at
// start and end before the last byte.
func appendToolCallParams(b []byte, name string, args toolArguments) (params []byte, start int, err error) {
	b = append(b, `{"name":`...)
	b = plainjson.AppendString(b, name)
	b = append(b, `,"arguments":`...)
	start = len(b)
	b, err = args.append(b)
	return append(b, '}'), start, err
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

// checkTool refuses a call of a tool that the server does not list, and returns the tool, which
// belongs to the catalog. While the server is down its tools are not known, and any name is
// accepted: then the tool is nil.
func (c *Client) checkTool(v *actors.View, tool, name string) (*mcpvisor.Tool, error) {
	t := v.Catalog.FindTool(name)
	switch {
	case t != nil:
	case !v.Spec.Tools.Allows(name):
		return t, hiddenTool(v.Name)
	case v.Catalog != nil && v.Catalog.WithheldTools[name] != "":
		return t, withheld(v.Name, mcpvisor.ErrUnknownTool, v.Catalog.WithheldTools[name])
	case v.Catalog != nil:
		e := unknownTool(c.rt.Snapshot(), tool)
		if s := v.Status().Session; s != nil && (s.Capabilities == nil || s.Capabilities.Tools == nil) {
			e.Hint = `the server does not declare the capability "tools", so it is not asked for any`
		}
		return t, e
	}
	return t, nil
}

// CallOption configures one call.
type CallOption func(*callOptions)

type callOptions struct {
	relayhook.CallSettings              // of a call alone: Timeout 0 is the server's Timeouts.Call
	strict                 bool         // validation refuses names that the schema does not declare
	detached               bool         // of StartTask: a task is returned, and not followed
	keyed                  *keyedCall   // nil without a key
	taskOrigin             *taskOrigin  // of relay.WithTaskOrigin
	guarded                *guardedCall // nil without a guard of calls
	// capabilities are the client capabilities in the _meta of WithMeta; nil for none.
	capabilities json.RawMessage
	room         *budget.Share // of relay.WithResultRoom; nil: given back when the result is read
	err          error         // what is wrong with the options
}

// WithWaitReady lets the call wait until its server is ready and has room for it. If nothing was sent
// because the server was down, ended just then, was replaced or was overloaded, the call is sent again:
// at once when the server is ready, and after RetryAfter of the error if it was ready all the time. No
// timeout of the call ends the wait: it counts neither against WithTimeout nor against
// Timeouts.CallTotal, so give the context a deadline. Calls that wait for the server are not counted in
// CallCounts.Queued or bounded by Limits.MaxQueued.
//
// What waiting alone cannot mend is returned at once: ErrEvicted, ErrAuthRequired or ErrClosed if the
// server cannot become ready by itself, ErrClosed or ErrUnknownServer if it is unregistered meanwhile,
// ErrInvalid, ErrUnknownTool, and ErrJournal. Without the option, a call of a server that is not ready
// fails at once with mcpvisor.ErrUnavailable, and one too many with mcpvisor.ErrOverloaded.
func WithWaitReady() CallOption { return func(o *callOptions) { o.WaitReady = true } }

// WithoutValidation sends the arguments of the call as they are, even if the client has
// [WithValidation]: a server may accept more than its schema says.
func WithoutValidation() CallOption { return func(o *callOptions) { o.WithoutValidation = true } }

// WithStrictValidation compares the arguments of the call as [WithValidation] does, and refuses names
// that the schema does not declare, unless it says that there may be others. It is for arguments that
// a person typed: most servers ignore a misspelled name.
func WithStrictValidation() CallOption {
	return func(o *callOptions) { o.WithoutValidation, o.strict = false, true }
}

// WithProgress delivers the server's progress notifications about this call to f, in
// order, in the goroutine that makes the call, and all of them before the call
// returns. While f runs the call cannot end; nothing else waits for f. If f panics, the
// call is abandoned and the panic continues in that goroutine. Messages longer than
// 8 KiB are cut. When f is slow, up to 8,192 notifications or 1 MiB are kept, and
// further ones are dropped. Each notification restarts the call's timeout, with or
// without WithProgress.
func WithProgress(f func(mcpvisor.Progress)) CallOption {
	return func(o *callOptions) { o.Progress = f }
}

// WithTimeout bounds the time without progress of this call. 0 means the default:
// [WithDefaultCallTimeout], else the server's Timeouts.Call. A negative value means no
// such bound. The server's Timeouts.CallTotal bounds the call as a whole in any case; if
// that is negative, too, the context needs a deadline, or the call fails with
// mcpvisor.ErrInvalid.
func WithTimeout(d time.Duration) CallOption { return func(o *callOptions) { o.Timeout = d } }

// callOptions are the options of one call over those of the client. Calls without options share them, so such a call
// copies them before it changes one.
func (c *Client) callOptions(opts []CallOption) *callOptions {
	if len(opts) == 0 {
		return &c.defaultCall
	}
	o := c.defaultCall
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return &o
}

// maxArgumentDepth is how deep arguments may be nested. The message around them adds
// two levels, and few JSON readers accept more than 10,000.
const maxArgumentDepth = 9000

// What is wrong with the arguments of a call. [argumentsReason] words it for models.
var (
	errArgumentsNotObject   = errors.New("the arguments are not a JSON object; pass a struct, a map with string keys, or raw JSON of an object")
	errArgumentsUnencodable = errors.New("the arguments cannot be marshalled to JSON")
	errArgumentsNotJSON     = fmt.Errorf("the arguments are not valid JSON, or nested deeper than %d levels", maxArgumentDepth)
)

// toolArguments are the arguments of a tool call: a value to encode or, if that is nil,
// the JSON of an object.
type toolArguments struct {
	value any
	raw   json.RawMessage
}

// append appends the arguments as a JSON object; none give an empty object. The error is
// of ErrInvalid.
func (a toolArguments) append(b []byte) ([]byte, error) {
	switch v := a.value.(type) {
	case nil:
	case json.RawMessage:
		a.raw = v
	case []byte:
		a.raw = v
	case map[string]any:
		if plain, ok := plainjson.Append(b, v); ok {
			return plain, nil
		}
		return appendMarshalled(b, v)
	default:
		return appendMarshalled(b, v)
	}
	raw, err := checkArguments(a.raw)
	if err != nil {
		return nil, err
	}
	return append(b, raw...), nil
}

// appendMarshalled appends arguments as encoding/json encodes them.
func appendMarshalled(b []byte, args any) ([]byte, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, invalidRequest(fmt.Errorf("%w: %w", errArgumentsUnencodable, err))
	}
	if raw, err = checkArguments(raw); err != nil {
		return nil, err
	}
	return append(b, raw...), nil
}

// checkArguments checks that raw arguments are a JSON object, and returns them without
// the white space around them. Empty text and null give an empty object. Invalid JSON
// could smuggle a second message into the stream of a server.
func checkArguments(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("{}"), nil
	case raw[0] != '{':
		return nil, invalidRequest(errArgumentsNotObject)
	case !jsonscan.ValidWithin(raw, maxArgumentDepth):
		return nil, invalidRequest(errArgumentsNotJSON)
	}
	return raw, nil
}

// invalidRequest is the error of a request that cannot be sent as given.
func invalidRequest(err error) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
}

package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// Handler answers the requests of the server of one session. They come as JSON-RPC requests
// (legacy era, [Requests]) or in the result of a call (modern era, rounds.go). None passes
// through the go-sdk, whose client knows one set of handlers. Safe for concurrent use.
type Handler struct {
	// Pool runs the handlers of the host. The sessions of a registration share it.
	Pool *HandlerPool
	// Opened, if set, is closed when the session is open. No handler runs before: a server whose handshake fails
	// must not ask the user. Nil: requests are answered at once.
	Opened   <-chan struct{}
	lifetime *jsonrpc.Lifetime // of the session; its end ends every request
	// Redactor masks the secrets of the server in errors that repeat its texts. Set before
	// the session opens.
	Redactor redact.Redactor
	// Observe sees the requests of the server; nil: nothing does. Set before the session
	// opens.
	Observe transport.ServerRequestObserver
	// Waiting has the calls that wait for input. It guards itself.
	Waiting WaitingCalls
	// rootsRevisions are the revisions of the roots when the session was made. The server
	// could not read an older one. Never changed.
	rootsRevisions [2]uint64
}

// roots are the roots of the host, and those of who answers else; nil: there are none.
func (h *Handler) roots() [2]*transport.Roots {
	return [2]*transport.Roots{h.Pool.Handlers.Roots, h.Pool.Handlers.DeclaredRoots}
}

// FollowRoots calls changed after each change of the roots, until unfollow is called. A
// change since the session was made counts, too. changed must not block.
func (h *Handler) FollowRoots(changed func()) (unfollow func()) {
	var all []func()
	for i, roots := range h.roots() {
		if roots != nil {
			all = append(all, roots.Follow(h.rootsRevisions[i], changed))
		}
	}
	return func() {
		for _, unfollow := range all {
			unfollow()
		}
	}
}

// Negotiate lets the go-sdk negotiate with the server, with the capabilities of the handlers. Then the go-sdk
// has nothing left to do, and its session ends. version is the protocol version that it proposes; empty means
// the newest, which begins with server/discover.
func (h *Handler) Negotiate(ctx context.Context, info *mcp.Implementation, conn *jsonrpc.SDKConn, version string) (*mcp.InitializeResult, error) {
	d := jsonrpc.Capabilities(&h.Pool.Handlers, true)
	declared := &mcp.ClientCapabilities{RootsV2: d.Roots, Sampling: d.Sampling, Elicitation: d.Elicitation, Extensions: make(map[string]any, len(d.Extensions))}
	for name, settings := range d.Extensions {
		declared.Extensions[name] = settings
	}
	client := mcp.NewClient(info, &mcp.ClientOptions{Capabilities: declared})
	session, err := client.Connect(ctx, conn, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	_ = session.Close() // does not wait: the go-sdk has no request in flight
	return session.InitializeResult(), nil
}

// answer answers a request of a legacy server. The idle clocks of the calls that it may
// belong to are paused while a handler runs. text is the result as JSON.
func (h *Handler) answer(ctx context.Context, r *request, calls CallClocks) (text json.RawMessage, err error) {
	if h.Opened != nil {
		select {
		case <-h.Opened:
		case <-ctx.Done():
			return nil, errNoAnswer
		case <-h.lifetime.Dead():
			return nil, errNoAnswer
		}
	}
	defer h.recoverPanic(r.method, &err)
	decoded, err := decodeRequest(r.by, r.method, r.params)
	if err != nil {
		return nil, err
	}
	restart := func(bool) {}
	begin := func() { restart = calls.PauseClocks(r.call) }
	defer func() { restart(err == nil) }()
	return h.dispatchObserved(ctx, r.by, r.method, r.params, decoded, begin)
}

// dispatchObserved is dispatch for a request, which it shows the observer.
func (h *Handler) dispatchObserved(ctx context.Context, by answerer, method string, params []byte, decoded mcp.Params, begin func()) (text json.RawMessage, err error) {
	if h.Observe != nil {
		next, end := h.Observe(ctx, method, params)
		ctx = next
		defer func() {
			why := err
			if hidden := (*hiddenError)(nil); errors.As(err, &hidden) {
				why = hidden.err
			}
			end(text, why)
		}()
	}
	if by.raw() {
		return h.answerRaw(ctx, by, method, params, begin)
	}
	return h.dispatch(ctx, by, method, decoded, begin)
}

// decodeRequest decodes the parameters of a request, unless the handler gets them raw. The error is
// errUnknownMethod for a method that clients do not have.
func decodeRequest(by answerer, method string, params []byte) (mcp.Params, error) {
	if by.raw() && by.checkMethod(method) == nil {
		return &mcp.ListRootsParams{}, nil // not used
	}
	switch method {
	case methodSample:
		return decodeParams(params, new(mcp.CreateMessageWithToolsParams))
	case methodElicit:
		return decodeParams(params, new(mcp.ElicitParams))
	case methodRoots:
		return &mcp.ListRootsParams{}, nil
	}
	return nil, errUnknownMethod
}

// recoverPanic turns a panic into errNoAnswer for the request that caused it. Defer it.
func (h *Handler) recoverPanic(method string, err *error) {
	if v := recover(); v != nil {
		h.logPanic(method, v)
		*err = errNoAnswer
	}
}

const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"
)

// dispatch serves one request of the server. A panic of a host type that is written as JSON fails only this
// request. text is the result as JSON. begin, if set, is called before a handler runs.
func (h *Handler) dispatch(ctx context.Context, by answerer, method string, params mcp.Params, begin func()) (text json.RawMessage, err error) {
	defer h.recoverPanic(method, &err)
	if by.hasNoRoots(method) {
		return noRoots, nil
	}
	if err := h.checkRequest(by, method, params); err != nil {
		return nil, err
	}
	var res mcp.Result
	if by.handlers == nil && method == methodRoots { // known, without a handler
		list, _ := h.Pool.Handlers.Roots.Current()
		res = rootsResult(list)
	} else {
		if begin != nil {
			begin()
		}
		if res, err = h.runHandlers(ctx, by.handlers, params); err != nil {
			return nil, err
		}
	}
	if text, err = json.Marshal(res); err != nil {
		return nil, h.hideError(zerolog.WarnLevel, method, fmt.Errorf("what the handler returned cannot be written as JSON: %w", err))
	}
	return text, nil
}

// noRoots is the result of roots/list without roots.
var noRoots = json.RawMessage(`{"roots":[]}`)

// rootsResult returns the result of roots/list, which is never null.
func rootsResult(roots []*mcp.Root) *mcp.ListRootsResult {
	return &mcp.ListRootsResult{Roots: append([]*mcp.Root{}, roots...)}
}

// checkRequest returns why a request cannot be served; nil if it can. The handlers of the host rely on
// these checks and would dereference nil otherwise.
func (h *Handler) checkRequest(by answerer, method string, params mcp.Params) error {
	if err := by.checkMethod(method); err != nil {
		return err
	}
	switch p := params.(type) {
	case *mcp.CreateMessageWithToolsParams:
		switch {
		case slices.ContainsFunc(p.Messages, isEmptyMessage):
			return errInvalidParams("a message is null or has no content")
		case (len(p.Tools) > 0 || p.ToolChoice != nil) && !by.offer.SampleTools:
			return errInvalidParams("this client declares no tools in sampling")
		case slices.Contains(p.Tools, nil):
			return errInvalidParams("a tool is null")
		}
	case *mcp.ElicitParams:
		return h.checkElicitation(by, p)
	}
	return nil
}

// isEmptyMessage reports whether a message of a sampling request has no content.
func isEmptyMessage(m *mcp.SamplingMessageV2) bool {
	return m == nil || len(m.Content) == 0 || slices.Contains(m.Content, nil)
}

// runHandlers answers a request, which was checked, by the handlers of a call; nil: those of the client.
func (h *Handler) runHandlers(ctx context.Context, by *transport.CallHandlers, params mcp.Params) (mcp.Result, error) {
	if by == nil {
		hosts := &h.Pool.Handlers
		by = &transport.CallHandlers{Sample: hosts.Sample, ElicitForm: hosts.ElicitForm, ElicitURL: hosts.ElicitURL}
	}
	switch p := params.(type) {
	case *mcp.CreateMessageWithToolsParams:
		return nilOnError(h.sample(ctx, by.Sample, p))
	case *mcp.ElicitParams:
		return nilOnError(h.elicit(ctx, by, *p))
	default:
		return nilOnError(runHandler(ctx, h, methodRoots, func(ctx context.Context) (*mcp.ListRootsResult, error) {
			roots, err := by.Roots(ctx, h.Pool.serverName)
			return rootsResult(roots), err
		}))
	}
}

// nilOnError returns a result as an interface, which is nil if there is an error.
func nilOnError[R mcp.Result](res R, err error) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	return res, nil
}

// sample answers sampling/createMessage. A result without a role gets the role assistant.
func (h *Handler) sample(ctx context.Context, handler sampleFunc, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	res, err := runHandler(ctx, h, methodSample, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
		return handler(ctx, h.Pool.serverName, p)
	})
	if err == nil && (len(res.Content) == 0 || slices.Contains(res.Content, nil)) {
		return nil, h.hideError(zerolog.WarnLevel, methodSample, errors.New("the handler returned no content"))
	}
	if err == nil && res.Role == "" {
		whole := *res
		whole.Role = "assistant"
		res = &whole
	}
	return res, err
}

// acquireSlot waits for one of the MaxHandlers slots of the pool, in order of arrival. It
// ends with ctx and with the session. At most maxWaiting requests wait.
func (h *Handler) acquireSlot(ctx context.Context) error {
	select {
	case h.Pool.slots <- struct{}{}:
		return nil
	default:
	}
	defer h.Pool.waiting.Add(-1)
	if h.Pool.waiting.Add(1) > maxWaiting {
		return ErrTooMany
	}
	select {
	case h.Pool.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-h.lifetime.Dead():
	}
	return h.endReason(ctx)
}

// endReason returns why a request ended without an answer. The cause of the session comes
// first, because the end of the session usually ends ctx.
func (h *Handler) endReason(ctx context.Context) error {
	if died := h.lifetime.Cause(); died != nil {
		return died
	}
	return context.Cause(ctx)
}

// runHandler runs a handler of the host in a goroutine. It returns when the handler does, or
// when ctx or the session ends. A handler that ignores its context keeps its goroutine and
// its slot until it returns; no request waits for it.
func runHandler[T any](ctx context.Context, h *Handler, method string, handler func(context.Context) (*T, error)) (*T, error) {
	type answer struct {
		res *T
		err error
	}
	if err := h.acquireSlot(ctx); err != nil {
		return nil, h.hideError(zerolog.DebugLevel, method, err)
	}
	// The context of the handler does not end with ctx by itself: cancel gives it the cause.
	handlerCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	done := make(chan answer, 1)
	go func() {
		defer func() { <-h.Pool.slots }()
		got := answer{err: errors.New("the handler ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				h.logPanic(method, v)
				got.err = fmt.Errorf("the handler panicked: %v", v)
			}
			done <- got
		}()
		res, err := handler(handlerContext{handlerCtx, ctx})
		got = answer{res, hostcall.SafeError("handler", err)}
	}()
	select {
	case got := <-done:
		if got.err == nil && got.res == nil {
			got.err = errors.New("the handler returned neither a result nor an error")
		}
		if got.err != nil {
			return nil, h.hideError(zerolog.WarnLevel, method, got.err)
		}
		return got.res, nil
	case <-ctx.Done():
	case <-h.lifetime.Dead():
	}
	why := h.endReason(ctx)
	cancel(why)
	return nil, h.hideError(zerolog.DebugLevel, method, why)
}

// handlerContext is the context of a handler. runHandler ends it, with the cause of the
// session or of the request. It has the deadline and the values of the request, and does
// not end with it: a result that the handler has returned by then still counts.
type handlerContext struct {
	context.Context
	request context.Context
}

// Deadline implements context.Context.
func (c handlerContext) Deadline() (time.Time, bool) { return c.request.Deadline() }

// hideError returns the error for the server if a request has no answer. A JSON-RPC error
// of the handler passes as it is. Any other error may contain internals of the host, so it
// is logged with level and the server gets errNoAnswer. A wrapped JSON-RPC error does not
// pass either: it may be the answer of another server to the handler.
func (h *Handler) hideError(level zerolog.Level, method string, err error) error {
	if rpc, ok := err.(*sdkrpc.Error); ok && rpc != nil {
		return rpc
	}
	h.Pool.Log().WithLevel(level).Str("method", method).Err(h.Redactor.Error(err)).Msg("a request of the server was not answered")
	return &hiddenError{err}
}

// logPanic logs a panic of a handler, or of what it returned.
func (h *Handler) logPanic(method string, v any) {
	h.Pool.Log().Error().Str("method", method).Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("a handler panicked; its request is refused")
}

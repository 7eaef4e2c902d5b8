package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// Handler answers the questions of one session, whichever way they come: as
// requests of the server's (legacy), through the go-sdk, or in an answer of
// its (modern), see rounds.go. Both take the go-sdk's road, which knows the
// rules for each method.
type Handler struct {
	*HandlerPool
	lifetime *jsonrpc.Lifetime
	Next     mcp.MethodHandler
	// session is the go-sdk's. It is set before met is closed.
	session    *mcp.ClientSession
	sessionSet chan struct{}
	setOnce    sync.Once
	// Redactor hides what the server was given in confidence, in errors that repeat
	// what it says.
	Redactor redact.Redactor
	// rootsRevision is the revision of the roots before the server could ask for them.
	rootsRevision uint64
}

// FollowRoots calls changed after each change of the roots, from the first that the
// server may not have seen on, until unfollow is called. changed must not block.
func (a *Handler) FollowRoots(changed func()) (unfollow func()) {
	if a.Handlers.Roots == nil {
		return func() {}
	}
	return a.Handlers.Roots.Follow(a.rootsRevision, changed)
}

// NewClient makes the go-sdk's client for the session.
func (a *Handler) NewClient(info *mcp.Implementation) *mcp.Client {
	c := mcp.NewClient(info, a.clientOptions())
	c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		a.Next = next
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, _, err := a.dispatch(ctx, method, req, nil)
			return res, err
		}
	})
	return c
}

// Ready is closed when the go-sdk's session is set.
func (a *Handler) Ready() <-chan struct{} { return a.sessionSet }

// SetSession sets the go-sdk's session: the server may be answered from now on.
func (a *Handler) SetSession(session *mcp.ClientSession) {
	a.setOnce.Do(func() {
		a.session = session
		close(a.sessionSet)
	})
}

// answer answers a request of the server's. The text is the result as JSON.
func (a *Handler) answer(ctx context.Context, r *request, calls CallClocks) (text json.RawMessage, err error) {
	select {
	case <-a.sessionSet:
	case <-ctx.Done():
		return nil, errNoAnswer
	case <-a.lifetime.Dead():
		return nil, errNoAnswer
	}
	defer a.recoverPanic(r.method, &err)
	req, err := a.requestFrom(r.method, r.params)
	if err != nil {
		return nil, err
	}
	restart := func(bool) {}
	begin := func() { restart = calls.PauseClocks(r.call) }
	defer func() { restart(err == nil) }()
	_, text, err = a.dispatch(ctx, r.method, req, begin)
	return text, err
}

// requestFrom reads the parameters of a request. It is nil for a method that
// clients do not have.
func (a *Handler) requestFrom(method string, params []byte) (mcp.Request, error) {
	switch method {
	case methodSample:
		return decodeParams(params, func(p *mcp.CreateMessageWithToolsParams) mcp.Request {
			return &mcp.CreateMessageWithToolsRequest{Session: a.session, Params: p}
		})
	case methodElicit:
		return decodeParams(params, func(p *mcp.ElicitParams) mcp.Request {
			return &mcp.ElicitRequest{Session: a.session, Params: p}
		})
	case methodRoots:
		return &mcp.ListRootsRequest{Session: a.session, Params: &mcp.ListRootsParams{}}, nil
	}
	return nil, errUnknownMethod
}

// recoverPanic turns a panic into the error of the request that it costs.
func (a *Handler) recoverPanic(method string, err *error) {
	if v := recover(); v != nil {
		a.logPanic(method, v)
		*err = errNoAnswer
	}
}

// needsHandler reports whether a handler of the host's is asked.
func needsHandler(method string) bool {
	return method == methodSample || method == methodElicit
}

const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"
)

// dispatch carries out one request, or notification, of the server's. What the
// go-sdk, or a type of the host's that is written as JSON, does not survive
// costs that one request. text is the result as JSON; nil for a
// notification. begin, if set, is called when a question is about to be put to a
// handler.
func (a *Handler) dispatch(ctx context.Context, method string, req mcp.Request, begin func()) (res mcp.Result, text json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			a.logPanic(method, v)
			res, text, err = nil, nil, errNoAnswer
		}
	}()
	if refused := a.checkRequest(method, req); refused != nil {
		return nil, nil, refused
	}
	if begin != nil && needsHandler(method) {
		begin()
	}
	if method == methodRoots {
		list, _ := a.Handlers.Roots.Current()
		res = &mcp.ListRootsResult{Roots: append([]*mcp.Root{}, list...)} // never null
	} else if res, err = a.Next(ctx, method, req); err != nil {
		return nil, nil, err
	}
	if !needsHandler(method) && method != methodRoots {
		return res, nil, nil
	}
	if text, err = json.Marshal(res); err != nil {
		return nil, nil, a.hideError(zerolog.WarnLevel, method, fmt.Errorf("what the handler returned cannot be written as JSON: %w", err))
	}
	return res, text, nil
}

// checkRequest says why a request cannot be served. The go-sdk and the handlers take
// what it lets through for granted.
func (a *Handler) checkRequest(method string, req mcp.Request) error {
	switch method {
	case methodRoots:
		if a.Handlers.Roots == nil {
			return errNotOffered("roots")
		}
	case methodSample:
		p, _ := req.GetParams().(*mcp.CreateMessageWithToolsParams)
		switch {
		case a.Handlers.Sample == nil:
			return errNotOffered("sampling")
		case p == nil || slices.ContainsFunc(p.Messages, isEmptyMessage):
			return errInvalidParams("a message is missing, or empty")
		case (len(p.Tools) > 0 || p.ToolChoice != nil) && !a.Handlers.SampleTools:
			return errInvalidParams("this client declares no tools in sampling")
		case slices.Contains(p.Tools, nil):
			return errInvalidParams("a tool is missing")
		}
	case methodElicit:
		p, _ := req.GetParams().(*mcp.ElicitParams)
		return a.checkElicitation(p)
	}
	return nil
}

func isEmptyMessage(m *mcp.SamplingMessageV2) bool {
	return m == nil || len(m.Content) == 0 || slices.Contains(m.Content, nil)
}

// sample is what the go-sdk calls.
func (a *Handler) sample(ctx context.Context, req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	res, err := runHandler(ctx, a, methodSample, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
		return a.Handlers.Sample(ctx, a.serverName, req.Params)
	})
	if err == nil && (len(res.Content) == 0 || slices.Contains(res.Content, nil)) {
		return nil, a.hideError(zerolog.WarnLevel, methodSample, errors.New("the handler returned no content"))
	}
	if err == nil && res.Role == "" {
		whole := *res
		whole.Role = "assistant"
		res = &whole
	}
	return res, err
}

// acquireSlot waits for a place among the handlers that run, in the order in which
// they came. It gives up like ask.
func (a *Handler) acquireSlot(ctx context.Context) error {
	select {
	case a.slots <- struct{}{}:
		return nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > maxWaiting {
		return ErrTooMany
	}
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-a.lifetime.Dead():
	}
	return a.endReason(ctx)
}

// endReason is why an answer is not wanted any more. The end of ctx is often a
// consequence of the session's, seen or not yet seen.
func (a *Handler) endReason(ctx context.Context) error {
	if died := a.lifetime.Cause(); died != nil {
		return died
	}
	return context.Cause(ctx)
}

// runHandler runs a handler. It returns when the handler does, or when the server does not want
// the answer any more; a handler that does not mind its context goes on alone.
func runHandler[T any](ctx context.Context, a *Handler, method string, handler func(context.Context) (*T, error)) (*T, error) {
	type answer struct {
		res *T
		err error
	}
	if err := a.acquireSlot(ctx); err != nil {
		return nil, a.hideError(zerolog.DebugLevel, method, err)
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	done := make(chan answer, 1)
	go func() {
		defer func() { <-a.slots }()
		got := answer{err: errors.New("the handler ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				a.logPanic(method, v)
				got.err = fmt.Errorf("the handler panicked: %v", v)
			}
			done <- got
		}()
		res, err := handler(handlerContext{own, ctx})
		got = answer{res, guard.SafeError("handler", err)}
	}()
	select {
	case got := <-done:
		if got.err == nil && got.res == nil {
			got.err = errors.New("the handler returned neither a result nor an error")
		}
		if got.err != nil {
			return nil, a.hideError(zerolog.WarnLevel, method, got.err)
		}
		return got.res, nil
	case <-ctx.Done():
	case <-a.lifetime.Dead():
	}
	why := a.endReason(ctx)
	cancel(why)
	return nil, a.hideError(zerolog.DebugLevel, method, why)
}

// handlerContext is a handler's context: it ends when ask says so, with the cause that
// ask knows, and no sooner; so an answer that was given counts.
type handlerContext struct {
	context.Context
	request context.Context
}

// Deadline implements context.Context.
func (u handlerContext) Deadline() (time.Time, bool) { return u.request.Deadline() }

// hideError is what the server hears of a request without an answer: an error of
// JSON-RPC as it is; of all others, which may name internals that are not its
// business, nothing. One that stands behind another error is what some other
// server said to the handler. What a handler did is logged as a warning, for its
// author to know.
func (a *Handler) hideError(level zerolog.Level, method string, err error) error {
	if rpc, ok := err.(*sdkrpc.Error); ok && rpc != nil {
		return rpc
	}
	a.Log.WithLevel(level).Str("method", method).Err(err).Msg("a request of the server's was not answered")
	return &hiddenError{err}
}

func (a *Handler) logPanic(method string, v any) {
	a.Log.Error().Str("method", method).Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("a handler panicked; its request is refused")
}

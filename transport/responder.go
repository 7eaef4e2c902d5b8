package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

const (
	// handlersMost is how many handlers may run at a time for one registration,
	// those that were left behind included. Further questions wait.
	handlersMost = 64
	// waitingMost is how many may wait. Further ones are refused.
	waitingMost = 1024
)

// questions is what the servers of one registration ask. It outlives sessions,
// as handlers may that were left behind.
type questions struct {
	server   string
	handlers Handlers
	log      zerolog.Logger
	running  chan struct{} // holds one for each handler that runs
	waiting  atomic.Int64
}

func newQuestions(server string, opts Options) *questions {
	return &questions{server: server, handlers: opts.Handlers, log: opts.Logger.With().Str("server", server).Logger(),
		running: make(chan struct{}, handlersMost)}
}

// responder answers the questions of one session, whichever way they come: as
// requests of the server's (legacy), through the go-sdk, or in an answer of
// its (modern), see rounds.go. Both take the go-sdk's road, which knows the
// rules for each method.
type responder struct {
	*questions
	life *lifeline
	next mcp.MethodHandler
	// session is the go-sdk's. It is set before met is closed.
	session *mcp.ClientSession
	met     chan struct{}
	meeting sync.Once
	// redactor hides what the server was given in confidence, in errors that repeat
	// what it says.
	redactor redact.Redactor
	// since is the revision of the roots before the server could ask for them.
	since uint64
}

func (q *questions) on(life *lifeline) *responder {
	a := &responder{questions: q, life: life, met: make(chan struct{})}
	if q.handlers.Roots != nil {
		_, a.since = q.handlers.Roots.current()
	}
	return a
}

// client makes the go-sdk's client for the session.
func (a *responder) client(info *mcp.Implementation) *mcp.Client {
	c := mcp.NewClient(info, a.options())
	c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		a.next = next
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, _, err := a.serve(ctx, method, req, nil)
			return res, err
		}
	})
	return c
}

// meet sets the go-sdk's session: the server may be answered from now on.
func (a *responder) meet(session *mcp.ClientSession) {
	a.meeting.Do(func() {
		a.session = session
		close(a.met)
	})
}

// answer answers a request of the server's. The text is the result as JSON.
func (a *responder) answer(ctx context.Context, r *serverRequest, calls callClocks) (text json.RawMessage, err error) {
	select {
	case <-a.met:
	case <-ctx.Done():
		return nil, errNoAnswer
	case <-a.life.Dead():
		return nil, errNoAnswer
	}
	defer a.recovered(r.method, &err)
	req, err := a.requestFrom(r.method, r.params)
	if err != nil {
		return nil, err
	}
	restart := func(bool) {}
	begin := func() { restart = calls.stopClocks(r.call) }
	defer func() { restart(err == nil) }()
	_, text, err = a.serve(ctx, r.method, req, begin)
	return text, err
}

// requestFrom reads the parameters of a request. It is nil for a method that
// clients do not have.
func (a *responder) requestFrom(method string, params []byte) (mcp.Request, error) {
	switch method {
	case methodSample:
		return questionFrom(params, func(p *mcp.CreateMessageWithToolsParams) mcp.Request {
			return &mcp.CreateMessageWithToolsRequest{Session: a.session, Params: p}
		})
	case methodElicit:
		return questionFrom(params, func(p *mcp.ElicitParams) mcp.Request {
			return &mcp.ElicitRequest{Session: a.session, Params: p}
		})
	case methodRoots:
		return &mcp.ListRootsRequest{Session: a.session, Params: &mcp.ListRootsParams{}}, nil
	}
	return nil, errNotForClients
}

// recovered turns a panic into the error of the request that it costs.
func (a *responder) recovered(method string, err *error) {
	if v := recover(); v != nil {
		a.panicked(method, v)
		*err = errNoAnswer
	}
}

// isQuestion reports whether a handler of the host's is asked.
func isQuestion(method string) bool {
	return method == methodSample || method == methodElicit
}

const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"
)

// serve carries out one request, or notification, of the server's. What the
// go-sdk, or a type of the host's that is written as JSON, does not survive
// costs that one request. text is the result as JSON; there is none for a
// notification. begin, if set, is called when a question is about to be put to a
// handler.
func (a *responder) serve(ctx context.Context, method string, req mcp.Request, begin func()) (res mcp.Result, text json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			a.panicked(method, v)
			res, text, err = nil, nil, errNoAnswer
		}
	}()
	if refused := a.refuse(method, req); refused != nil {
		return nil, nil, refused
	}
	if begin != nil && isQuestion(method) {
		begin()
	}
	if method == methodRoots {
		list, _ := a.handlers.Roots.current()
		res = &mcp.ListRootsResult{Roots: append([]*mcp.Root{}, list...)} // never null
	} else if res, err = a.next(ctx, method, req); err != nil {
		return nil, nil, err
	}
	if !isQuestion(method) && method != methodRoots {
		return res, nil, nil
	}
	if text, err = json.Marshal(res); err != nil {
		return nil, nil, a.unanswered(zerolog.WarnLevel, method, fmt.Errorf("what the handler returned cannot be written as JSON: %w", err))
	}
	return res, text, nil
}

// refuse says why a request cannot be served. The go-sdk and the handlers take
// what it lets through for granted.
func (a *responder) refuse(method string, req mcp.Request) error {
	switch method {
	case methodRoots:
		if a.handlers.Roots == nil {
			return errNotOffered("roots")
		}
	case methodSample:
		p, _ := req.GetParams().(*mcp.CreateMessageWithToolsParams)
		switch {
		case a.handlers.Sample == nil:
			return errNotOffered("sampling")
		case p == nil || slices.ContainsFunc(p.Messages, badMessage):
			return errBadQuestion("a message is missing, or empty")
		case (len(p.Tools) > 0 || p.ToolChoice != nil) && !a.handlers.SampleTools:
			return errBadQuestion("this client declares no tools in sampling")
		case slices.Contains(p.Tools, nil):
			return errBadQuestion("a tool is missing")
		}
	case methodElicit:
		p, _ := req.GetParams().(*mcp.ElicitParams)
		return a.refuseElicitation(p)
	}
	return nil
}

func badMessage(m *mcp.SamplingMessageV2) bool {
	return m == nil || len(m.Content) == 0 || slices.Contains(m.Content, nil)
}

// sample is what the go-sdk calls.
func (a *responder) sample(ctx context.Context, req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	res, err := ask(ctx, a, methodSample, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
		return a.handlers.Sample(ctx, a.server, req.Params)
	})
	if err == nil && (len(res.Content) == 0 || slices.Contains(res.Content, nil)) {
		return nil, a.unanswered(zerolog.WarnLevel, methodSample, errors.New("the handler returned no content"))
	}
	if err == nil && res.Role == "" {
		whole := *res
		whole.Role = "assistant"
		res = &whole
	}
	return res, err
}

// begin waits for a place among the handlers that run, in the order in which
// they came. It gives up like ask.
func (a *responder) begin(ctx context.Context) error {
	select {
	case a.running <- struct{}{}:
		return nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > waitingMost {
		return errTooMany
	}
	select {
	case a.running <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-a.life.Dead():
	}
	return a.endOf(ctx)
}

// endOf is why nobody wants an answer any more. The end of ctx is often a
// consequence of the session's, seen or not yet seen.
func (a *responder) endOf(ctx context.Context) error {
	if died := a.life.Cause(); died != nil {
		return died
	}
	return context.Cause(ctx)
}

// ask runs a handler. It returns when the handler does, or when nobody wants
// the answer any more; a handler that does not mind its context goes on alone.
func ask[T any](ctx context.Context, a *responder, method string, handler func(context.Context) (*T, error)) (*T, error) {
	type answer struct {
		res *T
		err error
	}
	if err := a.begin(ctx); err != nil {
		return nil, a.unanswered(zerolog.DebugLevel, method, err)
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	done := make(chan answer, 1)
	go func() {
		defer func() { <-a.running }()
		got := answer{err: errors.New("the handler ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				a.panicked(method, v)
				got.err = fmt.Errorf("the handler panicked: %v", v)
			}
			done <- got
		}()
		res, err := handler(untilTold{own, ctx})
		got = answer{res, guard.SafeError("handler", err)}
	}()
	select {
	case got := <-done:
		if got.err == nil && got.res == nil {
			got.err = errors.New("the handler returned neither a result nor an error")
		}
		if got.err != nil {
			return nil, a.unanswered(zerolog.WarnLevel, method, got.err)
		}
		return got.res, nil
	case <-ctx.Done():
	case <-a.life.Dead():
	}
	why := a.endOf(ctx)
	cancel(why)
	return nil, a.unanswered(zerolog.DebugLevel, method, why)
}

// untilTold is a handler's context: it ends when ask says so, with the cause that
// ask knows, and no sooner; so an answer that was given counts.
type untilTold struct {
	context.Context
	asked context.Context
}

// Deadline implements context.Context.
func (u untilTold) Deadline() (time.Time, bool) { return u.asked.Deadline() }

// unanswered is what the server hears of a request without an answer: an error of
// JSON-RPC as it is; of all others, which may name what is none of its
// business, nothing. One that stands behind another error is what some other
// server said to the handler. What a handler did is logged as a warning, for its
// author to know.
func (a *responder) unanswered(level zerolog.Level, method string, err error) error {
	if rpc, ok := err.(*jsonrpc.Error); ok && rpc != nil {
		return rpc
	}
	a.log.WithLevel(level).Str("method", method).Err(err).Msg("a request of the server's was not answered")
	return &withheld{err}
}

func (a *responder) panicked(method string, v any) {
	a.log.Error().Str("method", method).Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("a handler panicked; its request is refused")
}

package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// RequestSender sends the requests of one open session, whatever its transport is. All
// fields are set when the session opens and are constant afterwards. Safe for concurrent
// use.
type RequestSender struct {
	Modern    bool
	Tasks     bool // the server may answer a tool call with a task (since 2026-07-28)
	Handler   *Handler
	Handshake *jsonrpc.HandshakeWatch
	// Send sends a request once and returns its result.
	Send func(context.Context, transport.Request) (json.RawMessage, error)
	// Go runs check in a goroutine of the session, unless the session is ending.
	Go func(check func(context.Context))
	// Abort ends the session.
	Abort func(*supervisor.Cause)
}

// OffersTasks reports whether the server declares the extension for tasks, and so may answer
// a tool call with one (since 2026-07-28).
func OffersTasks(info mcpvisor.SessionInfo) bool {
	if info.Capabilities == nil {
		return false
	}
	_, offered := info.Capabilities.Extensions[task.Extension]
	return offered
}

// Request sends a request of the caller in the modern era. It is repeated with the input that the
// server requires (2026-07-28, SEP-2322).
func (s *RequestSender) Request(ctx context.Context, r *transport.Request) (json.RawMessage, error) {
	began := time.Now()
	result, err := s.Send(ctx, *r)
	if err == nil && NeedsInput(r.Method, result) && (r.Caller == nil || !r.Caller.ReturnInput) {
		result, err = s.Handler.ContinueWithInput(ctx, *r, began, result, s.Send)
	}
	return s.checkTask(r, result, err)
}

// ObserveLegacy observes how a legacy request ended, and returns what its caller gets. The transport sends
// such a request itself, once. A wrapper may have restarted the server, which then does not know its handshake:
// the error shows that.
func (s *RequestSender) ObserveLegacy(r *transport.Request, result json.RawMessage, err error) (json.RawMessage, error) {
	if list := s.Handshake.Observe(r.Method, err); list != "" {
		s.Go(func(ctx context.Context) { s.checkHandshake(ctx, list) })
	}
	return s.checkTask(r, result, err)
}

// checkTask looks at results that are about tasks (MCP 2025-11-25, tasks; since 2026-07-28
// the extension): a task in place of the result of a tool call, and a task that has failed.
// See [transport.ErrTask] and [transport.TaskFailure].
func (s *RequestSender) checkTask(r *transport.Request, result json.RawMessage, err error) (json.RawMessage, error) {
	switch {
	case err != nil:
	case r.Method == "tools/call" && task.Is(result, s.Modern):
		if s.Modern && s.Tasks || !s.Modern && r.AsTask {
			return result, transport.ErrTask
		}
		return nil, &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, Hint: hintServerFault, Cause: errUnexpectedTask}
	case r.Method == "tasks/get" && s.Modern:
		if t, err := task.Read(result); err == nil && t.Status == task.Failed && len(t.Failure) > 0 {
			e := jsonrpc.ServerError(t.Failure)
			e.Cause = &transport.TaskFailure{Err: s.Handler.Redactor.Error(e.Cause)}
			return result, e
		}
	}
	return result, err
}

// errUnexpectedTask is the cause of a call whose server had no right to begin a task.
var errUnexpectedTask = errors.New("the server began a task instead of answering, without the right to do so; the tool may still run, and its result is lost")

// AnswerInputs gets from the handlers of the caller, or of the host, what a task waits for
// (inputRequests of tasks/get), and returns inputResponses, with the same keys. It returns when
// ctx ends and when the session ends.
func (s *RequestSender) AnswerInputs(ctx context.Context, caller *transport.Caller, requests json.RawMessage) (json.RawMessage, error) {
	required, err := readInputRequests(requests)
	if err != nil {
		return nil, inputError(err, hintServerFault)
	}
	answers, err := s.Handler.answerInputs(ctx, s.Handler.answererOf(caller), required)
	if err != nil {
		return nil, err
	}
	return appendResponses(nil, required, answers), nil
}

// checkHandshake ends the session if the server no longer knows its handshake.
// list is the method of a list that the server has returned before.
func (s *RequestSender) checkHandshake(ctx context.Context, list string) {
	if cause := s.Handshake.Check(ctx, list, s.Send); cause != nil {
		s.Abort(cause)
	}
}

// WaitingCalls are the calls of a session between two round trips: their handlers get the
// input that the server requires, and no request table has them. The zero value is empty.
// Safe for concurrent use.
type WaitingCalls struct {
	mu    sync.Mutex
	calls map[*transport.InFlight]context.CancelCauseFunc // guarded by mu; what the keys point to does not change while they are in it
	last  int64                                           // how many calls have waited; guarded by mu
}

// add lists a call, with an id that no request has. cancel ends its wait.
func (w *WaitingCalls) add(call *transport.InFlight, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[*transport.InFlight]context.CancelCauseFunc{}
	}
	w.last++
	call.ID = jsonrpc.EndID + w.last
	w.calls[call] = cancel
}

// Cancel ends the wait of the call with an id for an operator; see CancelRequest of [transport.Session].
func (w *WaitingCalls) Cancel(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call, cancel := range w.calls {
		if call.ID == id {
			cancel(transport.ErrByOperator)
			return true
		}
	}
	return false
}

func (w *WaitingCalls) remove(call *transport.InFlight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, call)
}

// AppendTo appends the calls to all, in no order.
func (w *WaitingCalls) AppendTo(all []transport.InFlight) []transport.InFlight {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call := range w.calls {
		all = append(all, *call)
	}
	return all
}

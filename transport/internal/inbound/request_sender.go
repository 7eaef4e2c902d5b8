package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// RequestSender sends the requests of one open session, whatever its transport is. All
// fields are set when the session opens and are constant afterwards. Safe for concurrent
// use.
type RequestSender struct {
	Modern    bool
	Handler   *Handler
	Handshake *jsonrpc.HandshakeWatch
	// Send sends a request once and returns its result.
	Send func(context.Context, transport.Request) (json.RawMessage, error)
	// Go runs check in a goroutine of the session, unless the session is ending.
	Go func(check func(context.Context))
	// Abort ends the session.
	Abort func(*supervisor.Cause)
}

// Request sends a request of the caller.
//
// A legacy request is sent once. Its error is observed, because a wrapper may have
// restarted the server, which then does not know its handshake. A modern request is
// repeated with the input that the server requires (2026-07-28, SEP-2322).
func (s *RequestSender) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if !s.Modern {
		result, err := s.Send(ctx, r)
		if list := s.Handshake.Observe(r.Method, err); list != "" {
			s.Go(func(ctx context.Context) { s.checkHandshake(ctx, list) })
		}
		return s.checkTask(r.Method, result, err)
	}
	began := time.Now()
	result, err := s.Send(ctx, r)
	if err == nil && NeedsInput(r.Method, result) {
		result, err = s.Handler.ContinueWithInput(ctx, r, began, result, s.Send)
	}
	return s.checkTask(r.Method, result, err)
}

// checkTask refuses a task in place of the result of a tool call (MCP 2025-11-25, tasks;
// since 2026-07-28 an extension). This client asks for none, so no server may send one: the
// tool has not ended, and its result cannot be fetched.
func (s *RequestSender) checkTask(method string, result json.RawMessage, err error) (json.RawMessage, error) {
	if err != nil || method != "tools/call" || !isTask(result, s.Modern) {
		return result, err
	}
	return nil, &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeUnknown, Hint: hintServerFault,
		Cause: errors.New("the server began a task instead of answering, although the call did not ask for one; the tool may still run, and its result is lost")}
}

// isTask reports whether the result of a tool call is a task. In 2025-11-25 it has the
// member "task" and no content; since 2026-07-28 its type says so.
func isTask(result []byte, modern bool) bool {
	if bytes.HasPrefix(result, []byte(`{"content":`)) && !modern || !bytes.Contains(result, []byte(`"task"`)) { // nearly all results
		return false
	}
	task, typed, content := false, false, false
	_ = jsonscan.EachMember(result, func(key string, value []byte) error {
		switch key {
		case "task":
			task = value[0] == '{'
		case "resultType":
			typed = modern && string(value) == `"task"`
		case "content", "structuredContent":
			content = content || string(value) != "null"
		}
		return nil
	})
	return typed || task && !content
}

// checkHandshake ends the session if the server does not know its handshake any more.
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
	calls map[*transport.InFlight]struct{} // guarded by mu; what they point to does not change
}

func (w *WaitingCalls) add(call *transport.InFlight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[*transport.InFlight]struct{}{}
	}
	w.calls[call] = struct{}{}
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

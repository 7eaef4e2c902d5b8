package streamable

import (
	"context"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// exchange is one HTTP request of the session with its answer: a call, a message of the
// go-sdk's client, or an event stream.
//
// It ends with the context of its caller, with the session, at its deadline, or when it
// is finished, whichever comes first. The goroutine that runs the exchange owns the
// fields, except for those that the mutex of the table guards, entry among them, and trace, which is safe
// for concurrent use.
type exchange struct {
	// ctx ends with the exchange; jsonrpc.ContextEnd returns the reason.
	ctx    context.Context
	cancel context.CancelCauseFunc
	table  *exchangeTable
	entry  jsonrpc.Entry
	trace  endpoint.ConnTrace
	memory replyMemory // for the reply
	// unfollow stops following the context of the caller; nil if that context never ends.
	unfollow func() bool
	detached bool // detach was called
	// failWithOrphan fails the request with an error without an id; nil: none has come. The
	// mutex of the table guards it.
	failWithOrphan func()
}

// startExchange begins an exchange that is not on the call channel. The caller must call
// finish.
func (s *session) startExchange(parent context.Context, timeout time.Duration) *exchange {
	return s.exchanges.start(parent, false, transport.Request{Timeout: timeout})
}

// startRequest begins the exchange of a request on the call channel, and assigns the id of
// the request. The caller must call finish.
func (s *session) startRequest(parent context.Context, r transport.Request) *exchange {
	return s.exchanges.start(parent, true, r)
}

// start begins an exchange. Its context is not derived from the caller's context: it
// ends when that ends, unless detach was called. request says whether the exchange is a request
// on the call channel.
func (t *exchangeTable) start(parent context.Context, request bool, r transport.Request) *exchange {
	x := &exchange{table: t, memory: replyMemory{share: t.buffer.Share()}, entry: jsonrpc.Entry{Progress: jsonrpc.NewProgressQueue(r.Progress)}}
	x.ctx, x.cancel = context.WithCancelCause(x.trace.Context(parent))
	x.entry.Owner, x.memory.ctx = x, x.ctx
	if ended := t.requests.Add(&x.entry, request, r); ended != nil {
		x.end(context.Canceled, ended)
		return x
	}
	if parent.Done() != nil {
		x.unfollow = context.AfterFunc(parent, func() { x.end(jsonrpc.ContextEnd(parent)) })
	}
	return x
}

// post sends the request of the exchange to the endpoint.
func (x *exchange) post(e *endpoint.Endpoint, body []byte, header http.Header) (*http.Response, *endpoint.HTTPError) {
	return e.Do(x.ctx, endpoint.OutgoingRequest{Method: http.MethodPost, Body: body, Header: header, Trace: &x.trace})
}

// get opens an event stream at the endpoint.
func (x *exchange) get(e *endpoint.Endpoint, header http.Header) (*http.Response, *endpoint.HTTPError) {
	return e.Do(x.ctx, endpoint.OutgoingRequest{Method: http.MethodGet, Header: header, Trace: &x.trace})
}

// id returns the id of the request. It is negative if the exchange is not on the call
// channel.
func (x *exchange) id() int64 { return x.entry.ID }

// InFlight implements jsonrpc.Owner. An exchange is added to the table directly before it
// is sent.
func (x *exchange) InFlight() bool { return true }

// Expire implements jsonrpc.Owner. It ends the exchange, and the goroutine that runs the
// exchange finishes it.
func (x *exchange) Expire() (after func()) {
	if !x.entry.Hastened.IsZero() {
		return x.failWithOrphan
	}
	return func() { x.end(context.DeadlineExceeded, jsonrpc.ErrOverdue) }
}

// failAfterGrace calls fail after jsonrpc.OrphanGrace, unless the exchange is over by then, or
// the server has shown that it works on the request. It reports false if it was called
// before, and while a handler of the host works for the request.
func (x *exchange) failAfterGrace(fail func()) bool {
	t := &x.table.requests
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if x.failWithOrphan != nil || x.entry.Clocks.Paused() {
		return false
	}
	x.failWithOrphan = fail
	t.HastenLocked(&x.entry, time.Now().Add(jsonrpc.OrphanGrace))
	return true
}

// end ends the exchange, unless it has ended. err is context.Canceled or
// context.DeadlineExceeded, and cause the reason. Any goroutine may call it.
func (x *exchange) end(err, cause error) { x.cancel(&jsonrpc.ExchangeEnd{Err: err, Cause: cause}) }

// cause returns why the exchange ended; nil if it has not ended.
func (x *exchange) cause() error {
	_, cause := jsonrpc.ContextEnd(x.ctx)
	return cause
}

// finish ends the exchange, unless it was detached.
func (x *exchange) finish() {
	if !x.detached {
		x.finishDetached()
	}
}

// detach makes the exchange outlive its caller: neither the context of the caller nor the
// deadline ends it from then on, and finish does nothing. The new owner calls
// finishDetached. detach reports false if the context of the caller has ended.
func (x *exchange) detach() bool {
	if x.unfollow != nil && !x.unfollow() {
		return false
	}
	x.table.requests.StopClock(&x.entry)
	x.detached = true
	return true
}

// finishDetached ends the exchange and removes it from the table.
func (x *exchange) finishDetached() {
	if x.unfollow != nil {
		x.unfollow()
	}
	x.table.requests.Remove(&x.entry)
	x.cancel(context.Canceled)
}

// exchangeTable holds the exchanges of one session: calls, messages of the go-sdk's
// client, and event streams. An exchange that has ended stays in the table until it is
// finished, because its answer may have arrived already, and the progress reported before
// that answer must still reach its caller. Safe for concurrent use.
type exchangeTable struct {
	requests jsonrpc.Table
	buffer   *budget.Budget // the dialer's; set before the first exchange
}

// endAll ends every exchange. An exchange that begins later ends at once.
func (t *exchangeTable) endAll(cause error) {
	t.requests.End(cause, func(e *jsonrpc.Entry) { e.Owner.(*exchange).end(context.Canceled, cause) })
}

// replyMemory is the memory for one reply. It implements httpbody.Memory.
type replyMemory struct {
	ctx context.Context // of the exchange
	// share is the part of Limits.MaxBufferBytes that a large reply occupies.
	share budget.Share
}

// Reserve reserves memory for more bytes of the reply, and blocks until they are available.
// It reports false if the exchange ends first.
func (m *replyMemory) Reserve(bytes int) bool { return m.share.Grow(m.ctx, nil, bytes) == nil }

// Release releases the memory of the reply.
func (m *replyMemory) Release() { m.share.Release() }

// handOverBuffer ends the reservation of a call. If the call succeeded and the caller has
// set Held, the caller becomes the owner of the reservation. Otherwise it is released.
func (x *exchange) handOverBuffer(r transport.Request, err error) {
	if r.Held != nil && err == nil {
		r.Held.TakeOver(&x.memory.share)
		return
	}
	x.memory.share.Release()
}

// noRoomReply returns the error of a call whose answer was skipped for lack of memory.
func noRoomReply() *endpoint.HTTPError {
	e := jsonrpc.NoRoomError()
	httpErr := endpoint.InvalidReply(e.Outcome, "%v", e.Cause)
	httpErr.Kind, httpErr.Hint = e.Kind, e.Hint
	return httpErr
}

// streamMemory is the memory for the large events of a stream that serves the whole session;
// the stream of one call uses the memory of its exchange. It implements httpbody.Memory. The
// goroutine that reads the stream owns share.
type streamMemory struct {
	s     *session
	share *budget.Share
}

// Reserve reserves memory for more bytes of an event. It reports false if there is no room
// in time, or if the session ends.
func (m streamMemory) Reserve(bytes int) bool {
	return jsonrpc.GrowShare(m.share, m.s.Dead(), bytes, m.s.endpoint.NoteReceived)
}

// Release releases the memory of the event.
func (m streamMemory) Release() { m.share.Release() }

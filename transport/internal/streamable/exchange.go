package streamable

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// notifyTimeout bounds the POST of a notification, such as a cancellation.
const notifyTimeout = 2 * time.Second

// Shared header values; net/http does not change them.
var (
	headerJSON   = []string{"application/json"}
	headerBoth   = []string{"application/json, text/event-stream"}
	headerEvents = []string{"text/event-stream"}
)

// exchanger sends the messages of a session, and reads the responses. Safe for concurrent
// use.
//
// Fields without a remark are set by NewSession and not changed afterwards.
type exchanger struct {
	server   *peer
	life     *liveness
	receiver *receiver     // gets all that is not the answer to a request
	table    exchangeTable // has its own mutex
	draining atomic.Int32  // responses that are read after their answers; at most maxDrains
	// rootChanges counts the changes of the roots since tellRootsChanged began to tell the server; 0 while it does not.
	rootChanges atomic.Int64
	// sse is the event stream of a session over HTTP+SSE; nil over Streamable HTTP. The
	// goroutine that opens the stream sets it once.
	sse atomic.Pointer[sseConn]
}

// sessionRef returns how requests currently identify the session. A server over HTTP+SSE that
// has accepted no message does not forget the session: the address of messages may be wrong.
func (e *exchanger) sessionRef() endpoint.SessionRef {
	switch c := e.sse.Load(); {
	case c != nil && c.accepted.Load():
		return endpoint.StreamSession
	case c != nil:
		return endpoint.NoSession
	case e.server.sessionID.Load() != nil:
		return endpoint.HeaderSession
	}
	return endpoint.NoSession
}

// post sends a message that has no answer. It ends the session if the response shows that
// the session or the server is gone. It ignores any other error status, unless that
// requires an authorization.
func (e *exchanger) post(ex *exchange, body []byte, header http.Header) *endpoint.HTTPError {
	e.countPost()
	resp, httpErr := ex.post(e.server.endpoint, body, header)
	if httpErr == nil {
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			httpErr = e.server.endpoint.StatusError(resp, endpoint.ReadErrorBody(resp), e.sessionRef())
			if !httpErr.SessionLost && httpErr.Kind != mcpvisor.ErrAuthRequired {
				e.server.log.Debug().Str("reply", httpErr.Message).Msg("server did not accept a message")
				httpErr = nil
			}
		}
	}
	if httpErr != nil && (httpErr.SessionLost || httpErr.ServerGone && e.server.agreed.Load() != nil) {
		e.life.lose(httpErr)
	}
	return httpErr
}

// notify sends a notification to the server of an open session in the background. It does
// not wait for the delivery.
func (e *exchanger) notify(body []byte) {
	e.life.goTask(func() { e.postNotification(body) })
}

func (e *exchanger) postNotification(body []byte) {
	ctx, cancel := context.WithTimeout(e.life.ctx, notifyTimeout)
	defer cancel()
	e.countPost()
	resp, httpErr := e.server.endpoint.Do(ctx, endpoint.OutgoingRequest{Method: http.MethodPost, Body: body, Header: e.server.agreed.Load().header})
	if httpErr == nil {
		_ = resp.Body.Close()
	}
}

// tellRootsChanged tells the server that the roots have changed. Changes while it is being told become one: a
// client of a gateway can report any number.
func (e *exchanger) tellRootsChanged() {
	if e.rootChanges.Add(1) > 1 {
		return
	}
	e.life.goTask(func() {
		for told := int64(0); !e.rootChanges.CompareAndSwap(told, 0); {
			told = e.rootChanges.Load()
			e.postNotification([]byte(jsonrpc.RootsChanged))
		}
	})
}

// countPost counts a message that has no answer and is about to be POSTed.
func (e *exchanger) countPost() {
	if c := e.sse.Load(); c != nil {
		c.postCount.Add(1)
	}
}

// exchange is one HTTP request of the session with its answer: a call, a message of the
// go-sdk's client, or an event stream.
//
// It ends with the context of its caller, with the session, at its deadline, or when it
// is finished, whichever comes first. The goroutine that runs the exchange owns the
// fields, except for those that the mutex of the table guards, entry among them, and trace, which is safe
// for concurrent use.
type exchange struct {
	// ctx ends with the exchange; jsonrpc.ContextEnd returns the reason.
	ctx      context.Context
	cancel   context.CancelCauseFunc
	table    *exchangeTable
	entry    jsonrpc.Entry
	trace    endpoint.ConnTrace
	reserver replyReserver // for the reply
	// unfollow stops following the context of the caller; nil if that context never ends.
	unfollow func() bool
	detached bool // detach was called
	// failWithOrphan fails the request with an error without an id; nil: none has come. The
	// mutex of the table guards it.
	failWithOrphan func()
}

// start begins an exchange that is not on the call channel. The caller must call finish.
func (t *exchangeTable) start(parent context.Context, timeout time.Duration) *exchange {
	return t.add(parent, false, &transport.Request{Timeout: timeout})
}

// startRequest begins the exchange of a request on the call channel, and assigns the id of
// the request. The caller must call finish.
func (t *exchangeTable) startRequest(parent context.Context, r *transport.Request) *exchange {
	return t.add(parent, true, r)
}

// add begins an exchange. Its context is not derived from the caller's context: it ends
// when that ends, unless detach was called. request says whether the exchange is a request
// on the call channel.
func (t *exchangeTable) add(parent context.Context, request bool, r *transport.Request) *exchange {
	ex := &exchange{table: t, reserver: replyReserver{share: t.buffer.Share()}, entry: jsonrpc.Entry{Progress: jsonrpc.NewProgressQueue(r)}}
	ex.ctx, ex.cancel = context.WithCancelCause(ex.trace.Context(parent))
	ex.entry.Owner, ex.reserver.ctx = ex, ex.ctx
	if ended := t.requests.Add(&ex.entry, request, r); ended != nil {
		ex.end(context.Canceled, ended)
		return ex
	}
	if parent.Done() != nil {
		ex.unfollow = context.AfterFunc(parent, func() {
			select {
			case <-overdue.Last(parent):
				ex.end(jsonrpc.ContextEnd(parent))
			case <-ex.ctx.Done():
			}
		})
	}
	return ex
}

// post sends the request of the exchange to the endpoint.
func (ex *exchange) post(e *endpoint.Endpoint, body []byte, header http.Header) (*http.Response, *endpoint.HTTPError) {
	return e.Do(ex.ctx, endpoint.OutgoingRequest{Method: http.MethodPost, Body: body, Header: header, Trace: &ex.trace})
}

// get opens an event stream at the endpoint.
func (ex *exchange) get(e *endpoint.Endpoint, header http.Header) (*http.Response, *endpoint.HTTPError) {
	return e.Do(ex.ctx, endpoint.OutgoingRequest{Method: http.MethodGet, Header: header, Trace: &ex.trace})
}

// id returns the id of the request. It is negative if the exchange is not on the call
// channel.
func (ex *exchange) id() int64 { return ex.entry.ID }

// InFlight implements jsonrpc.Owner. An exchange is added to the table directly before it
// is sent.
func (ex *exchange) InFlight() bool { return true }

// Expire implements jsonrpc.Owner. It ends the exchange, and the goroutine that runs the
// exchange finishes it.
func (ex *exchange) Expire() (after func()) {
	if ex.entry.Canceled {
		return func() { ex.end(context.Canceled, transport.ErrByOperator) }
	}
	if !ex.entry.Hastened.IsZero() {
		return ex.failWithOrphan
	}
	return func() { ex.end(context.DeadlineExceeded, jsonrpc.ErrOverdue) }
}

// failAfterGrace calls fail after jsonrpc.OrphanGrace, unless the exchange is over by then, or
// the server has shown that it works on the request. It reports false if it was called
// before, and while a handler of the host works for the request.
func (ex *exchange) failAfterGrace(fail func()) bool {
	t := &ex.table.requests
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if ex.failWithOrphan != nil || ex.entry.Clocks.Paused() {
		return false
	}
	ex.failWithOrphan = fail
	t.HastenLocked(&ex.entry, time.Now().Add(jsonrpc.OrphanGrace))
	return true
}

// end ends the exchange, unless it has ended. err is context.Canceled or
// context.DeadlineExceeded, and cause the reason. Any goroutine may call it.
func (ex *exchange) end(err, cause error) { ex.cancel(&jsonrpc.ExchangeEnd{Err: err, Cause: cause}) }

// cause returns why the exchange ended; nil if it has not ended.
func (ex *exchange) cause() error {
	_, cause := jsonrpc.ContextEnd(ex.ctx)
	return cause
}

// finish ends the exchange, unless it was detached.
func (ex *exchange) finish() {
	if !ex.detached {
		ex.finishDetached()
	}
}

// detach makes the exchange outlive its caller: neither the context of the caller nor the
// deadline ends it from then on, and finish does nothing. The new owner calls
// finishDetached. detach reports false if the context of the caller has ended.
func (ex *exchange) detach() bool {
	if ex.unfollow != nil && !ex.unfollow() {
		return false
	}
	ex.table.requests.StopClock(&ex.entry)
	ex.detached = true
	return true
}

// finishDetached ends the exchange and removes it from the table.
func (ex *exchange) finishDetached() {
	if ex.unfollow != nil {
		ex.unfollow()
	}
	ex.table.requests.Remove(&ex.entry)
	ex.cancel(context.Canceled)
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

// replyReserver reserves the memory for one reply. It implements httpbody.Reserver.
type replyReserver struct {
	ctx context.Context // of the exchange
	// share is the part of Limits.MaxBufferBytes that a large reply occupies.
	share budget.Share
}

// Reserve reserves memory for more bytes of the reply, and blocks until they are available.
// It reports false if the exchange ends first.
func (m *replyReserver) Reserve(bytes int) bool { return m.share.Grow(m.ctx, nil, bytes) == nil }

// Release implements httpbody.Reserver.
func (m *replyReserver) Release() { m.share.Release() }

// handOverBuffer ends the reservation of a call. If the call succeeded and the caller has
// set Held, the caller becomes the owner of the reservation. Otherwise it is released.
func (ex *exchange) handOverBuffer(r *transport.Request, err error) {
	if r.Held != nil && err == nil {
		r.Held.TakeOver(&ex.reserver.share)
		return
	}
	ex.reserver.share.Release()
}

// noRoomReply returns the error of a call whose answer was skipped for lack of memory.
func noRoomReply() *endpoint.HTTPError {
	e := jsonrpc.NoRoomError()
	httpErr := endpoint.InvalidReply(e.Outcome, "%v", e.Cause)
	httpErr.Kind, httpErr.Hint = e.Kind, e.Hint
	return httpErr
}

// streamReserver reserves the memory for the large events of a stream that serves the whole session;
// the stream of one call uses the reserver of its exchange. It implements httpbody.Reserver. The
// goroutine that reads the stream owns share.
type streamReserver struct {
	life  *liveness
	share *budget.Share
}

// Reserve reserves memory for more bytes of an event. It reports false if there is no room
// in time, or if the session ends.
func (m streamReserver) Reserve(bytes int) bool {
	return jsonrpc.GrowShare(m.share, m.life.lifetime.Dead(), bytes, m.life.received.Note)
}

// Release implements httpbody.Reserver.
func (m streamReserver) Release() { m.share.Release() }

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
)

// request is one request of a client, from its arrival until end.
type request struct {
	*jsonrpc.Request
	session  *session
	gateway  *gateway
	params   *params         // nil until they are read; set before the request begins, or by its goroutine
	exchange *exchange       // gets its answer, and what is said before it
	ctx      context.Context // ends with the session, with the answer, and when the client cancels the request
	cancel   context.CancelFunc
	bytes    int   // what it counts of MaxRequestBytes
	turn     *turn // its position in the queue of its URI; nil unless it changes a subscription

	// Set before it begins.
	counted  bool   // by requests.account
	refusal  string // why it is refused; empty otherwise
	isListen bool   // it counts for MaxListens, and not for MaxRequests

	failed   bool                   // the result is an error of the call; owned by its goroutine
	canceled atomic.Bool            // by the client, which expects no answer
	unhold   atomic.Pointer[func()] // gives up the call that its answer holds; nil: none, or the answer is being written
	server   string                 // where it is in flight; empty if only the client knows; guarded by questions.mu

	// Owned by its goroutine until it has an answer, and then by who writes that.
	lists   bool    // it has slots.listing
	room    int     // what its answer counts of outbox.room
	writing bool    // see beginWriting
	held    *func() // what unhold was then

	progress *mcpvisor.Progress // not read yet; guarded by outbox.mu
	token    []byte             // of the progress; set before the first report
}

// requestCost is the memory that a request takes in addition to its text, in bytes.
const requestCost = 1 << 10

// newRequest returns a request of an exchange. p is nil if its params have not been read.
func newRequest(x *exchange, r *jsonrpc.Request, p *params) *request {
	made := &request{Request: r, params: p, session: x.session, gateway: x.session.gateway, exchange: x, bytes: requestCost + len(r.Method) + len(r.Params)}
	if id, ok := r.ID.Raw().(string); ok {
		made.bytes += len(id)
	}
	made.ctx, made.cancel = context.WithCancel(x.session.ctx)
	made.turn = newTurn(made)
	return made
}

// serve answers one request, when it is its turn.
func (r *request) serve() {
	if r.refusal != "" {
		r.respond(&jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: r.refusal}})
		return
	}
	var outcome clients.Outcome
	if r.isListen {
		r.session.peer.Stream(1)
		defer r.session.peer.Stream(-1)
	} else {
		r.session.peer.Begin(r.Method == "tools/call")
		defer func() { r.session.peer.Done(outcome) }()
	}
	r.turn.await()
	// Code of the host, such as an interceptor, may end the goroutine. Then this is the answer.
	var result json.RawMessage
	var err error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Method + " ended its goroutine without an answer (runtime.Goexit)"}
	defer func() {
		if p := recover(); p != nil {
			err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%s panicked: %v", r.Method, p)}
		}
		outcome = outcomeOf(r, err)
		if err != nil {
			result = nil
		}
		r.respond(&jsonrpc.Response{ID: r.ID, Result: result, Error: err})
	}()
	result, err = r.answer()
}

// outcomeOf returns how a request has ended.
func outcomeOf(r *request, err error) clients.Outcome {
	switch {
	case r.canceled.Load():
		return clients.OutcomeCanceled
	case err != nil:
		return clients.OutcomeError
	case r.failed:
		return clients.OutcomeFailed
	}
	return clients.OutcomeAnswered
}

// respond ends the work for the request: the next one in the queue of its URI begins, and the answer waits to be
// written. If the client has canceled the request, it gets no answer, and ends now.
func (r *request) respond(response *jsonrpc.Response) {
	r.session.requests.endTurn(r)
	r.cancel()
	r.session.questions.end(r)
	out := r.exchange.out
	switch {
	case r.canceled.Load():
		out.drop(r)
		r.end(false)
	case !r.takeRoom(response):
		r.giveUpHeld()
		out.addShort(r, &jsonrpc.Response{ID: r.ID, Error: errManyUnread})
	case out.addAnswer(r, response):
	case r.exchange == r.session.line:
		r.session.cancel(r.gateway.opts.limits.unreadError())
	default: // a request of a batch over HTTP, whose answers come faster than they are passed on
		r.giveUpHeld()
		out.addShort(r, &jsonrpc.Response{ID: r.ID, Error: errLongBatch})
	}
}

// takeRoom counts an answer until end. It reports false if the principal, or the session, has not read as much as it may.
// An answer of one piece or less does not count: the bound on requests in flight bounds such answers, too.
func (r *request) takeRoom(a *jsonrpc.Response) bool {
	n := answerBytes(a)
	if n <= message.PieceBytes {
		return true
	}
	if !r.exchange.out.room.Take(n) {
		return false
	}
	r.room = n
	return true
}

// beginWriting notes that the answer is about to be written: the client may use the id again, and once it has the answer
// it may close the connection.
func (r *request) beginWriting() {
	r.writing, r.held = true, r.unhold.Swap(nil)
	r.session.requests.freeID(r)
}

// end ends the request, whose answer was written, or is not wanted: it frees all that the request has.
func (r *request) end(written bool) {
	r.cancel()
	if !written {
		r.unhold.CompareAndSwap(nil, r.held)
		r.giveUpHeld()
	}
	if r.lists {
		<-r.session.slotsOf().listing
	}
	r.exchange.out.room.Return(r.room)
	r.session.requests.end(r)
}

// acquire puts a value into one of the channels of slots, when it is free.
func (r *request) acquire(slot chan<- struct{}) error {
	select {
	case slot <- struct{}{}:
		return nil
	case <-r.ctx.Done():
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request was canceled"}
	}
}

// requests accounts for the requests of a session that have not ended. At most MaxRequests
// are in flight, MaxWaiting wait in line, and further ones wait outside, in Write. A request
// ends when its answer has been read, so a peer that does not read gets no further ones served.
type requests struct {
	limits  *Limits        // read only
	account *budget.Budget // counts the requests; nil over HTTP; read only
	idle    func()         // called when no request is left after drain

	mu       sync.Mutex              // guards the fields below
	byID     map[jsonrpc.ID]*request // without refused ones
	inFlight int                     // without listens
	listens  int
	bytes    int
	line     []*request                // waiting for one of MaxRequests, oldest first
	outside  waitqueue.Queue[*request] // waiting in Write
	turns    map[string]chan struct{}  // by URI: turn.ended of the last request in its queue
	draining bool                      // the client is closed: further requests are refused
}

// admit accepts a request, as soon as there is room for it. If ctx or the session ends first, it returns
// an error, and the request is not accepted. A request that the peer cancels meanwhile ends without an
// answer.
func (rs *requests) admit(ctx context.Context, r *request) error {
	rs.mu.Lock()
	if rs.outside.Len() == 0 && rs.takeLocked(r) {
		rs.mu.Unlock()
		return nil
	}
	waiter := rs.outside.Add(r)
	rs.mu.Unlock()
	var err error
	select {
	case <-waiter.Admitted():
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.ctx.Done():
		err = fmt.Errorf("%w: the session with mcpvisor has ended", mcp.ErrConnectionClosed)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !rs.outside.Remove(waiter) { // it was taken at the same moment
		return nil
	}
	r.cancel()
	rs.outside.Admit(rs.takeLocked) // a smaller request behind this one may fit
	if r.canceled.Load() {
		r.exchange.out.drop(r)
		return nil
	}
	return err
}

// takeLocked accepts a request if there is room for it.
func (rs *requests) takeLocked(r *request) bool {
	held := rs.inFlight + len(rs.line)
	if held >= rs.limits.MaxRequests+rs.limits.MaxWaiting || rs.bytes > 0 && rs.bytes+r.bytes > rs.limits.MaxRequestBytes {
		return false
	}
	rs.bytes += r.bytes
	r.counted = rs.account.Take(r.bytes)
	switch _, twice := rs.byID[r.ID]; {
	case twice:
		r.refusal = "a request with this id is in flight"
	case !r.counted:
		r.refusal = manyHeld
	case rs.draining:
		r.refusal = "the client is closed"
	case r.Method != "subscriptions/listen":
	case rs.listens == rs.limits.MaxListens:
		r.refusal = fmt.Sprintf("%d requests subscriptions/listen are in flight, which is the most; cancel one, or ask for more in one request", rs.listens)
	default:
		r.isListen = true
		rs.listens++
	}
	if r.refusal == "" {
		if rs.byID == nil { // an idle session has none
			rs.byID = map[jsonrpc.ID]*request{}
		}
		rs.byID[r.ID] = r
		rs.takeTurnLocked(r)
	}
	switch {
	case r.isListen:
		go r.serve()
	case rs.inFlight < rs.limits.MaxRequests:
		rs.inFlight++
		go r.serve()
	default:
		rs.line = append(rs.line, r)
	}
	return true
}

// abandon ends a request whose answer cannot be read.
func (r *request) abandon() {
	r.canceled.Store(true)
	r.cancel()
	r.giveUpHeld()
}

// giveUpHeld ends the call that the answer of the request holds: the client will not learn how to
// continue it.
func (r *request) giveUpHeld() {
	if unhold := r.unhold.Swap(nil); unhold != nil {
		(*unhold)()
	}
}

// cancel ends a request that the peer has canceled (MCP, basic, utilities, cancellation). It gets no
// answer, unless the answer already waits to be read.
func (rs *requests) cancel(id jsonrpc.ID) {
	rs.mu.Lock()
	r := rs.byID[id]
	if r == nil {
		for waits := range rs.outside.All() {
			if waits.ID == id {
				r = waits
				break
			}
		}
	}
	rs.mu.Unlock()
	if r != nil {
		r.abandon()
	}
}

// freeID lets the peer use the id of a request again while the answer is being written.
func (rs *requests) freeID(r *request) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byID[r.ID] == r {
		delete(rs.byID, r.ID)
	}
}

// end frees what a request has. The peer may use its id again, and waiting requests may begin.
func (rs *requests) end(r *request) {
	rs.mu.Lock()
	if rs.byID[r.ID] == r {
		delete(rs.byID, r.ID)
	}
	rs.bytes -= r.bytes
	if r.counted {
		rs.account.Return(r.bytes)
	}
	if r.isListen {
		rs.listens--
	} else {
		rs.inFlight--
	}
	for len(rs.line) > 0 && rs.inFlight < rs.limits.MaxRequests {
		next := rs.line[0]
		rs.line[0] = nil
		rs.line = rs.line[1:]
		rs.inFlight++
		go next.serve()
	}
	rs.outside.Admit(rs.takeLocked)
	idle := rs.isIdleLocked()
	rs.mu.Unlock()
	if idle {
		rs.idle()
	}
}

func (rs *requests) isIdleLocked() bool { return rs.draining && rs.inFlight+rs.listens == 0 }

// drain refuses further requests. Those in flight, and those in line, are served.
func (rs *requests) drain() {
	rs.mu.Lock()
	rs.draining = true
	idle := rs.isIdleLocked()
	rs.mu.Unlock()
	if idle {
		rs.idle()
	}
}

// turn is the position of a request in the queue of its URI. Requests that change a subscription take
// effect in the order in which the client wrote them; all others are served at once. A nil turn waits
// for nothing.
type turn struct {
	uri    string
	before <-chan struct{} // closed when the previous request of the queue has ended; nil without one
	ended  chan struct{}
}

// newTurn returns the turn of a request; nil if it needs none.
func newTurn(r *request) *turn {
	if r.Method != "resources/subscribe" && r.Method != "resources/unsubscribe" {
		return nil
	}
	if r.params == nil {
		r.params = readParams(r.ctx, r.Method, r.Params)
	}
	if r.params.err != nil {
		return nil
	}
	return &turn{uri: r.params.uri, ended: make(chan struct{})}
}

// takeTurnLocked puts a request at the end of its queue.
func (rs *requests) takeTurnLocked(r *request) {
	if t := r.turn; t != nil {
		if rs.turns == nil {
			rs.turns = map[string]chan struct{}{}
		}
		t.before, rs.turns[t.uri] = rs.turns[t.uri], t.ended
	}
}

// await waits until the previous request of the queue has ended, even if this request was canceled: the
// next ones rely on that. The previous request ends with the session at the latest.
func (t *turn) await() {
	if t != nil && t.before != nil {
		<-t.before
	}
}

// endTurn lets the next request of the queue begin.
func (rs *requests) endTurn(r *request) {
	t := r.turn
	if t == nil || r.refusal != "" {
		return
	}
	close(t.ended)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.turns[t.uri] == t.ended { // it was the last one
		delete(rs.turns, t.uri)
	}
}

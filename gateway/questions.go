package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/elicited"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

// Questions are the requests of servers: sampling, elicitation and roots. If a call of a session before
// 2026-07-28 causes a question, the peer is asked, provided that it has declared that it answers. A server on
// a pipe does not say which call causes a question. So all calls of a session have the same handlers, and a
// question may come while several calls of the session are in flight.

// question is a request of a server that waits for the answer of the peer.
type question struct {
	*jsonrpc.Request
	server string
	answer chan *jsonrpc.Response // has room for one

	carrier  *request // the peer is asked in its outbox; guarded by questions.mu
	position int64    // on the stream of the session, see questions.written; 0: not there. Guarded like carrier
	sent     bool     // the peer has read it; guarded by outbox.mu
}

// questions has the open questions of one session, and the calls in which its peer can be asked.
type questions struct {
	handlers   atomic.Pointer[facade.CallHandlers] // of all calls; nil: the peer answers nothing
	declared   uint16                              // what the peer answers, as bits; not changed after handlers is set
	isOnlyPeer func(server string) bool            // read only; whether all questions of the server are for this peer

	mu     sync.Mutex // guards the fields below
	nextID int64      // starts at a random number: an answer to a question of an earlier process fits none
	open   map[int64]*question
	calls  []*request // in flight, newest last
	// stream is the request of the stream of the session: in its outbox the peer is asked while no call is in
	// flight; nil: the peer reads no stream. Only servers that no other peer shares ask without a call.
	stream   *request
	broken   *request      // the last stream, which has ended; its questions wait for the next one. nil: none
	comeBack time.Duration // how long they wait; read only
	position int64         // of the last question on a stream of the session; starts as nextID
}

// comeBackTime is how long a question waits for a client whose stream has broken to open another one.
// Clients retry after a second or two.
const comeBackTime = 5 * time.Second

// openStream sets the request of the stream of the session. Questions of the stream before it that did
// not arrive are asked again on the new one (MCP, basic, transports, resumability and redelivery). seen
// is the position of the last question that the client has seen; an unknown one counts as none.
func (q *questions) openStream(r *request, seen int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if seen > q.position { // of another process; a smaller one is before all positions of this one, and needs no check
		seen = 0
	}
	before := [2]*request{q.broken, q.stream}
	q.stream, q.broken = r, nil
	for _, one := range before {
		if one != nil {
			q.moveLocked(one, func(one *question) bool { return one.position == 0 || one.position > seen })
		}
	}
}

// closeStream ends what openStream began, unless another stream has replaced it. Its questions wait for
// the next stream.
func (q *questions) closeStream(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream != r {
		return
	}
	q.stream, q.broken = nil, r
	overdue.AfterFunc(q.comeBack, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.broken == r {
			q.broken = nil
			q.moveLocked(r, func(*question) bool { return true })
		}
	})
}

// written gives a message that is written to a stream of the session the next position there, if it is a
// question. It returns 0 for any other message.
func (q *questions) written(m jsonrpc.Message) (position int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := m.(*jsonrpc.Request); ok {
		if id, ok := r.ID.Raw().(int64); ok && q.open[id] != nil {
			q.position++
			q.open[id].position = q.position
			return q.position
		}
	}
	return 0
}

// declare sets what the peer answers. It is called before the first call.
func (c *connection) declare(bits uint16) {
	c.followsTasks.Store(bits&capability.Tasks != 0)
	bits &^= capability.Tasks
	q := &c.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	if bits == 0 || q.open != nil {
		return
	}
	// The first id need not be secret: only the session itself can answer.
	q.declared, q.nextID, q.open = bits, rand.Int64N(1<<51), map[int64]*question{}
	q.position = q.nextID
	q.handlers.Store(&facade.CallHandlers{Raw: c.ask, RawAnswers: capability.Answers(bits)})
}

// begin records that a request is sent to a server, which may ask because of it.
func (q *questions) begin(r *request, server string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.server = server
	q.calls = append(q.calls, r)
}

// carrierLocked returns the newest call at a server: its questions go on the stream of the call. Without
// one it returns the request of the stream of the session.
func (q *questions) carrierLocked(server string) *request {
	for _, r := range slices.Backward(q.calls) {
		if (r.server == server || r.server == "") && r.out.asks && !r.canceled.Load() {
			return r
		}
	}
	if q.isOnlyPeer(server) {
		return q.stream
	}
	return nil
}

// end records that a request ends. Its questions move to the stream of another call at the same server.
// Without one they end before the answer is written.
func (q *questions) end(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.calls, r)
	if at < 0 {
		return
	}
	q.calls = slices.Delete(q.calls, at, at+1)
	broken := r.out.isBroken()
	q.moveLocked(r, func(*question) bool { return broken })
}

// moveLocked moves the questions of a request that has ended to another one. lost says whether a
// question that was sent to the peer may not have arrived: then it is asked again, with the same id.
func (q *questions) moveLocked(r *request, lost func(*question) bool) {
	for _, id := range slices.Sorted(maps.Keys(q.open)) {
		one := q.open[id]
		if one.carrier != r {
			continue
		}
		next := q.carrierLocked(one.server)
		switch {
		case next == nil:
			q.withdrawLocked(one)
			close(one.answer)
		case r.out == next.out, !r.out.takeQuestion(one) && !lost(one):
			one.carrier = next
		case !next.out.addQuestion(next, one): // the peer does not read that stream either
			delete(q.open, one.ID.Raw().(int64))
			close(one.answer)
		default:
			one.carrier = next
		}
	}
}

// withdrawLocked forgets a question. If the peer has read it, the peer is told (MCP, basic, utilities,
// cancellation).
func (q *questions) withdrawLocked(one *question) {
	delete(q.open, one.ID.Raw().(int64))
	one.carrier.out.withdrawQuestion(one.carrier, one)
}

var (
	errNoStream = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no call of the client is in flight, and it reads no stream on which it could be asked; no client was asked"}
	errNotRead  = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client does not read what it is sent; it was not asked"}
)

// ask passes a request of a server on to the peer, and returns its answer unchanged. While no call is in
// flight, the peer is asked only if the question cannot be for another client.
func (c *connection) ask(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
	q := &c.questions
	if err := capability.Check(q.declared, r); err != nil {
		return nil, err
	}
	one := &question{server: r.Server, answer: make(chan *jsonrpc.Response, 1)}
	params, undo := c.elicitations.Begin(c.elicitedSession(), r.Server, r.Params, c.sealQuestion(r))
	q.mu.Lock()
	carrier := q.carrierLocked(r.Server)
	if carrier == nil {
		q.mu.Unlock()
		undo()
		if q.isOnlyPeer(r.Server) {
			return nil, errNoStream
		}
		return nil, message.ErrNotAsked
	}
	q.nextID++
	id := q.nextID
	number, _ := jsonrpc.MakeID(float64(id))
	one.Request = &jsonrpc.Request{ID: number, Method: r.Method, Params: params}
	one.carrier = carrier
	if !carrier.out.addQuestion(carrier, one) {
		q.mu.Unlock()
		undo()
		return nil, errNotRead
	}
	q.open[id] = one
	q.mu.Unlock()
	select {
	case a, ok := <-one.answer:
		switch {
		case !ok:
			return nil, message.ErrCallEnded
		case a.Error != nil:
			return nil, a.Error
		}
		return a.Result, nil
	case <-c.ctx.Done(): // which ends the calls, too
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, id)
		return nil, message.ErrCallEnded
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.open[id] == one {
			q.withdrawLocked(one)
		}
		return nil, ctx.Err()
	}
}

// receiveAnswer passes an answer of the peer on to the server. An answer to a question that was not
// asked, or that has ended, is ignored.
func (c *connection) receiveAnswer(a *jsonrpc.Response) {
	id, ok := a.ID.Raw().(int64)
	q := &c.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.open[id]
	if !ok || one == nil || !one.carrier.out.isSent(one) {
		return
	}
	delete(q.open, id)
	var wire *jsonrpc.Error
	if a.Error != nil && !errors.As(a.Error, &wire) {
		a = &jsonrpc.Response{ID: a.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client has answered with an error that cannot be read"}}
	}
	one.answer <- a
}

// sessionKey identifies a session before 2026-07-28: in a Transport by its connection, and over HTTP by
// its nonce, as a session that is not active is made again for each request.
type sessionKey struct {
	conn  *connection
	nonce nonce
}

// elicitedSession describes the session for package elicited. Requests of 2026-07-28 over HTTP have
// none.
func (c *connection) elicitedSession() *elicited.Session {
	return &elicited.Session{Key: c.notify.Key, Principal: c.holdOwner.Principal, Gateway: c.gateway, Client: c.client, CopyOf: c.copyKey, Tell: c.tellElicited}
}

// tellElicited tells a session that an interaction has ended: on the stream of a call at the server, or
// else on the stream of the session.
func (c *connection) tellElicited(server, id string) {
	c.questions.mu.Lock()
	carrier := c.questions.carrierLocked(server)
	c.questions.mu.Unlock()
	if carrier != nil {
		carrier.out.addNotification(carrier, notices.ElicitedNotification(id))
		return
	}
	c.hub.each(func(n *notifier) {
		if n.Key == c.notify.Key {
			n.ReportElicited(id)
		}
	})
}

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
)

// Questions are the requests of servers: sampling, elicitation and roots. The peer of a session before
// 2026-07-28 is asked what a server asks because of its calls, if it has declared that it answers.
// All calls of a session have the same handlers, so a server on a pipe, which does not say because of
// which call it asks, may have several of one session in flight.

// question is a request of a server that waits for the answer of the peer.
type question struct {
	*jsonrpc.Request
	server string
	answer chan *jsonrpc.Response // has room for one

	carrier *request // in whose outbox it is; guarded by questions.mu
	place   int64    // on the stream of the session, see questions.written; 0: it was not written there. Guarded as carrier
	sent    bool     // it was read; guarded by outbox.mu
}

// questions are those of one session.
type questions struct {
	handlers atomic.Pointer[facade.CallHandlers] // with which the calls are made; nil: the peer answers nothing
	declared uint16                              // what it answers, as bits; not changed after handlers is set
	isAlone  func(server string) bool            // read only: what the server asks can be for this peer only

	mu     sync.Mutex // guards the fields below
	nextID int64      // begins at random, so that an answer to another question of an earlier process fits none
	open   map[int64]*question
	calls  []*request // in flight, the newest last
	// standing stands for a call in whose outbox the peer is asked while none is in flight; nil: it reads
	// no stream. A server that other peers share needs a call, which says who is asked.
	standing *request
	fallen   *request      // stood before; its questions wait for the next one. nil: there is none
	comeBack time.Duration // how long they wait; read only
	places   int64         // of the questions that were written to a stream of the session; begins as nextID
}

// comeBackTime is how long a question waits for a client whose stream has broken to open another one. Clients
// try it after a second or two.
const comeBackTime = 5 * time.Second

// stand sets the request that stands for a call. What was asked on the one before it, and did not arrive, is asked on
// the new one (MCP, basic, transports, resumability and redelivery). seen is the place of the last question that the
// client has seen; one that this process has not given counts as none.
func (q *questions) stand(r *request, seen int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if seen > q.places { // of another process; a smaller one is before all places of this one, and needs no check
		seen = 0
	}
	before := [2]*request{q.fallen, q.standing}
	q.standing, q.fallen = r, nil
	for _, one := range before {
		if one != nil {
			q.moveLocked(one, func(one *question) bool { return one.place == 0 || one.place > seen })
		}
	}
}

// fall ends what stand began, if no other request has taken its place. Its questions wait for the next one.
func (q *questions) fall(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.standing != r {
		return
	}
	q.standing, q.fallen = nil, r
	time.AfterFunc(q.comeBack, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.fallen == r {
			q.fallen = nil
			q.moveLocked(r, func(*question) bool { return true })
		}
	})
}

// written gives a message that is written to a stream of the session its place there, if it is a question. 0: it is
// none.
func (q *questions) written(m jsonrpc.Message) (place int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := m.(*jsonrpc.Request); ok {
		if id, ok := r.ID.Raw().(int64); ok && q.open[id] != nil {
			q.places++
			q.open[id].place = q.places
			return q.places
		}
	}
	return 0
}

// declare sets what the peer answers. It comes before the first call.
func (c *connection) declare(bits uint16) {
	c.followsTasks.Store(bits&capability.Tasks != 0)
	bits &^= capability.Tasks
	q := &c.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	if bits == 0 || q.open != nil {
		return
	}
	// The first id need not be secret: an answer belongs to a session.
	q.declared, q.nextID, q.open = bits, rand.Int64N(1<<51), map[int64]*question{}
	q.places = q.nextID
	q.handlers.Store(&facade.CallHandlers{Raw: c.ask, RawAnswers: capability.Answers(bits)})
}

// begin notes that a request is sent to a server, which may ask because of it.
func (q *questions) begin(r *request, server string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.server = server
	q.calls = append(q.calls, r)
}

// carrierLocked returns the newest call at a server, on whose stream its questions go; without one, what
// stands for it.
func (q *questions) carrierLocked(server string) *request {
	for _, r := range slices.Backward(q.calls) {
		if (r.server == server || r.server == "") && r.out.asks && !r.canceled.Load() {
			return r
		}
	}
	if q.isAlone(server) {
		return q.standing
	}
	return nil
}

// end notes that a request ends. Its questions go on the stream of another call at the same server;
// without one they end before the answer is written.
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

// moveLocked moves the questions of a request that has ended to another one. One that the peer was sent is asked
// again there, with the same id, if it was lost.
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

// withdrawLocked forgets a question, and tells the peer so if it has read it (MCP, basic, utilities,
// cancellation).
func (q *questions) withdrawLocked(one *question) {
	delete(q.open, one.ID.Raw().(int64))
	one.carrier.out.withdrawQuestion(one.carrier, one)
}

var (
	errNoStream = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no call of the client is in flight, and it reads no stream on which it could be asked; no client was asked"}
	errNotRead  = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client does not read what it is sent; it was not asked"}
)

// ask passes a request of a server on to the peer, and returns its answer as it is. Without a call in flight
// it is asked only if there is no other client that it could be for.
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
		if q.isAlone(r.Server) {
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

// receiveAnswer passes on what the peer answers. An answer to a question that it was not asked, or that
// has ended, is ignored.
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

// sessionKey is the identity of a session before 2026-07-28: of a Transport its connection, and over HTTP the nonce, as
// a session without anything is made again for each request.
type sessionKey struct {
	conn  *connection
	nonce nonce
}

// elicitedSession is the session as far as it is sent to URLs. Requests of 2026-07-28 over HTTP have none.
func (c *connection) elicitedSession() *elicited.Session {
	return &elicited.Session{Key: c.notify.Key, Gateway: c.gateway, Client: c.client, CopyOf: func(server string) string {
		if c.isCopied(server) {
			return c.tenantKey
		}
		return ""
	}, Tell: c.tellElicited}
}

// tellElicited tells a session that an interaction has ended: on the stream of a call at the server, or else on that of
// the session.
func (c *connection) tellElicited(server, id string) {
	c.questions.mu.Lock()
	carrier := c.questions.carrierLocked(server)
	c.questions.mu.Unlock()
	if carrier != nil {
		carrier.out.addNote(carrier, notices.ElicitedNotification(id))
		return
	}
	c.hub.each(func(n *notifier) {
		if n.Key == c.notify.Key {
			n.ReportElicited(id)
		}
	})
}

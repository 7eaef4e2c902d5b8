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
	"github.com/mcpvisor/mcpvisor/facade/relay"
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

	carrier  *request    // the peer is asked in its outbox; guarded by questions.mu
	position int64       // on the stream of the session, see questions.written; 0: not there. Guarded like carrier
	sent     atomic.Bool // the peer has read it
}

// questions has the open questions of one session, and the calls in which its peer can be asked.
type questions struct {
	session  *session
	handlers atomic.Pointer[relay.Handlers] // of all calls; nil: the peer answers nothing
	declared uint16                         // what the peer answers, as bits; not changed after handlers is set

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
func (s *session) declare(bits uint16) {
	s.followsTasks.Store(bits&capability.Tasks != 0)
	bits &^= capability.Tasks
	q := &s.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	if bits == 0 || q.open != nil {
		return
	}
	// The first id need not be secret: only the session itself can answer.
	q.declared, q.nextID, q.open = bits, rand.Int64N(1<<51), map[int64]*question{}
	q.position = q.nextID
	q.handlers.Store(&relay.Handlers{Raw: s.questions.ask, RawAnswers: capability.Answers(bits)})
}

// begin records that a request is sent to a server, which may ask because of it.
func (q *questions) begin(r *request, server string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.server = server
	q.calls = append(q.calls, r)
}

// isOnlyPeer reports whether all questions of a server are for this peer.
func (q *questions) isOnlyPeer(server string) bool {
	return q.session.gateway.isCopied(server) || q.session.gateway.opts.standalone.isOnly(q.session)
}

// carrierLocked returns the newest call at a server: its questions go on the stream of the call. Without
// one it returns the request of the stream of the session.
func (q *questions) carrierLocked(server string) *request {
	for _, r := range slices.Backward(q.calls) {
		if (r.server == server || r.server == "") && r.exchange.asks && !r.canceled.Load() {
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
	broken := r.exchange.out.broken.Load()
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
		case r.exchange.out == next.exchange.out, !r.exchange.out.takeQuestion(one) && !lost(one):
			one.carrier = next
		case !next.exchange.out.addQuestion(next, one): // the peer does not read that stream either
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
	one.carrier.exchange.out.withdrawQuestion(one.carrier, one)
}

var (
	errNoStream = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no call of the client is in flight, and it reads no stream on which it could be asked; no client was asked"}
	errNotRead  = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client does not read what it is sent; it was not asked"}
)

// ask passes a request of a server on to the peer, and returns its answer unchanged. While no call is in
// flight, the peer is asked only if the question cannot be for another client.
func (q *questions) ask(ctx context.Context, r relay.ServerRequest) (json.RawMessage, error) {
	if err := capability.Check(q.declared, r); err != nil {
		return nil, err
	}
	one := &question{server: r.Server, answer: make(chan *jsonrpc.Response, 1)}
	params, undo := q.session.gateway.elicitations.Begin(q.session.elicitedSession(), r.Server, r.Params, q.session.sealQuestion(r))
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
	if !carrier.exchange.out.addQuestion(carrier, one) {
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
	case <-q.session.ctx.Done(): // which ends the calls, too
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
func (q *questions) receiveAnswer(a *jsonrpc.Response) {
	id, ok := a.ID.Raw().(int64)
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.open[id]
	if !ok || one == nil || !one.sent.Load() {
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
	session *session
	nonce   nonce
}

// elicitedSession describes the session for package elicited. Requests of 2026-07-28 over HTTP have
// none.
func (s *session) elicitedSession() *elicited.Session {
	return &elicited.Session{Key: s.notify.Key, Principal: s.holdOwner.Principal, Gateway: s.gateway, Client: s.gateway.client, CopyOf: s.tenancy.copyKey, Tell: s.questions.tellElicited}
}

// tellElicited tells a session that an interaction has ended: on the stream of a call at the server, or
// else on the stream of the session.
func (q *questions) tellElicited(server, id string) {
	q.mu.Lock()
	carrier := q.carrierLocked(server)
	q.mu.Unlock()
	if carrier != nil {
		carrier.exchange.out.addNotification(carrier, notices.ElicitedNotification(id))
		return
	}
	q.session.gateway.hub.each(func(n *notifier) {
		if n.Key == q.session.notify.Key {
			n.ReportElicited(id)
		}
	})
}

// StandaloneQuestions passes requests that servers before 2026-07-28 make while no call is in flight to
// the only client of a [Transport]. An example is the request for the roots when a session begins:
//
//	var questions gateway.StandaloneQuestions
//	client, err := facade.New(questions.Option(), facade.WithDeclared(facade.Declared{Roots: true}))
//	err = gateway.Serve(ctx, gateway.Transport(client, gateway.WithStandaloneQuestions(&questions)), &mcp.StdioTransport{})
//
// It is for a facade.Client that nothing else uses: if others use a server, too, its question may belong
// to any of them. A question waits until a client has sent notifications/initialized. It is refused if
// several clients are connected, or if the client speaks 2026-07-28, which has no requests outside of a
// call. A question ends when the server withdraws it, and when the session of the server or of the
// client ends. The zero value has no Transport yet. Safe for concurrent use. It must not be copied.
type StandaloneQuestions struct {
	once     sync.Once // makes handlers
	handlers relay.Handlers

	mu       sync.Mutex // guards the fields below
	sessions map[*session]sessionEra
	changed  chan struct{} // closed when sessions change; nil without a waiting goroutine
}

// sessionEra says which versions the client of a session speaks, as far as that is known.
type sessionEra uint8

const (
	eraUnknown sessionEra = iota
	eraLegacy             // the client has sent notifications/initialized
	eraModern             // it has sent a request of 2026-07-28
)

// Option returns the option by which a facade.Client passes the questions of its servers to q.
func (q *StandaloneQuestions) Option() facade.Option {
	q.once.Do(func() { q.handlers.Raw = q.ask })
	return relay.WithUnaskedHandlers(&q.handlers)
}

// WithStandaloneQuestions makes the sessions of a [Transport] those that q asks. It has no effect on a
// [Handler], which serves any number of clients.
func WithStandaloneQuestions(q *StandaloneQuestions) Option {
	return func(o *options) { o.standalone = q }
}

var (
	errSeveralClients = &jsonrpc.Error{Code: message.CodeBusy, Message: "no client was asked: no call is known to which the request belongs, and several clients are connected"}
	errModernClient   = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client was asked: the client speaks " + modernVersion + ", in which it can be asked because of a call only, if that declares that it is answered"}
)

// set records the era of a session.
func (q *StandaloneQuestions) set(s *session, era sessionEra) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.sessions[s]; ok && known >= era || s.ctx.Err() != nil {
		return
	}
	if q.sessions == nil {
		q.sessions = map[*session]sessionEra{}
	}
	q.sessions[s] = era
	q.wakeLocked()
}

// remove forgets a session that has ended.
func (q *StandaloneQuestions) remove(s *session) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.sessions, s)
	q.wakeLocked()
}

func (q *StandaloneQuestions) wakeLocked() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// oneClient returns the session of the only client, if it can be asked, or an error that says why it
// cannot. If neither is known yet, it returns changed, which is closed when the sessions change.
func (q *StandaloneQuestions) oneClient() (one *session, changed <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for s := range q.sessions {
		if s.ctx.Err() != nil { // it is about to be removed
			delete(q.sessions, s)
		}
	}
	if len(q.sessions) > 1 {
		return nil, nil, errSeveralClients
	}
	for s, era := range q.sessions {
		switch era {
		case eraLegacy:
			return s, nil, nil
		case eraModern:
			return nil, nil, errModernClient
		case eraUnknown:
		}
	}
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return nil, q.changed, nil
}

// isOnly reports whether a session is the only one, and its client can be asked.
func (q *StandaloneQuestions) isOnly(s *session) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.sessions) == 1 && q.sessions[s] == eraLegacy
}

// ask passes a request of a server to the only client, once there is one.
func (q *StandaloneQuestions) ask(ctx context.Context, r relay.ServerRequest) (json.RawMessage, error) {
	for {
		s, changed, err := q.oneClient()
		switch {
		case err != nil:
			return nil, err
		case s != nil:
			return s.questions.askAnytime(ctx, r)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// askAnytime is ask for a session to which all calls belong.
func (q *questions) askAnytime(ctx context.Context, r relay.ServerRequest) (json.RawMessage, error) {
	if q.handlers.Load() == nil || !capability.CanAnswer(q.declared, r.Method) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client was asked: the client has not declared that it answers " + r.Method}
	}
	return q.ask(ctx, r)
}

// rootsChanged tells the servers that only this client uses, and that can ask it for its roots, that the
// roots have changed. Each call tells other servers the roots again.
func (s *session) rootsChanged() {
	if s.questions.handlers.Load() == nil || !capability.CanAnswer(s.questions.declared, "roots/list") {
		return
	}
	if s.gateway.opts.standalone.isOnly(s) {
		relay.Of(s.gateway.client).NotifyRootsChanged()
	}
	for _, t := range []*tenant{s.tenancy.own.Load(), s.tenancy.shared.Load()} {
		if t == nil || t.shared && !s.gateway.opts.standalone.isOnly(s) {
			continue
		}
		for _, copied := range t.copies() {
			relay.Of(copied).NotifyRootsChanged()
		}
	}
}

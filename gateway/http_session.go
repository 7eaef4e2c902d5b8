package gateway

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/httpwire"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
)

// nonce identifies a session over HTTP.
type nonce = [12]byte

// keyOf returns the key of a session over HTTP in the registry.
func keyOf(n nonce) string { return "session " + string(n[:]) }

// principal counts what one owner of a token uses. It exists while a request or a session refers to it.
// Its fields are guarded by Server.mu.
type principal struct {
	server   *Server
	name     string
	users    int // requests and sessions that refer to it
	inFlight int // its requests in flight
	sessions int // its active sessions
	bytes    int // of the bodies of its requests
	unread   int // bytes of large answers that were not read

	account *budget.Budget // counts what it makes the gateway hold; read only
}

// inTurn returns a context of requests of the principal: its calls queue as those of one client, however many sessions it
// has. Without tokens, a session is a client of its own.
func (p *principal) inTurn(ctx context.Context) context.Context {
	if p.name == "" {
		return ctx
	}
	return waitqueue.WithClient(ctx, p.name)
}

// enter returns the principal of a request. Each call needs one of leave.
func (s *Server) enter(name string) *principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.principals[name]
	if p == nil {
		p = &principal{server: s, name: name, account: s.gateway.opts.settings.enter(name)}
		s.principals[name] = p
	}
	p.users++
	return p
}

func (s *Server) leave(p *principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(p)
}

func (s *Server) leaveLocked(p *principal) {
	if p.users--; p.users == 0 {
		delete(s.principals, p.name)
		s.gateway.opts.settings.holdings.leave(p.name)
	}
}

// reserve counts requests and bytes of the principal. It counts nothing and reports false if the principal
// would exceed a limit. Negative values give back.
func (p *principal) reserve(requests, bytes int) bool {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if limits := &p.server.limits; requests > 0 && p.inFlight+requests > limits.MaxInFlight || bytes > 0 && p.bytes+bytes > limits.MaxBytes {
		return false
	}
	if bytes > 0 && !p.account.Take(bytes) {
		return false
	}
	p.account.Return(max(-bytes, 0))
	p.inFlight += requests
	p.bytes += bytes
	return true
}

// Take implements answerRoom: a client that reads slowly holds its answers for long. What is no longer than a piece of an
// answer does not count: MaxInFlight bounds it.
func (p *principal) Take(bytes int) bool {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if p.unread > 0 && p.unread+bytes > p.server.limits.MaxBytes || !p.account.Take(bytes) {
		return false
	}
	p.unread += bytes
	return true
}

// Return implements answerRoom.
func (p *principal) Return(bytes int) {
	if bytes > 0 {
		p.server.mu.Lock()
		defer p.server.mu.Unlock()
		p.unread -= bytes
		p.account.Return(bytes)
	}
}

// httpSession is an active session of a version before 2026-07-28. An active session has a request in
// flight, a stream, a subscription, a log level, a task that is watched or a copy of a server. Nothing
// is kept of any other session: its id says all.
type httpSession struct {
	session   *session
	nonce     nonce
	version   string
	principal *principal

	// Guarded by Server.mu.
	use        use    // by requests in flight, and streams
	wakeStream func() // wakes the stream, which then calls hasStream; nil without one
	streams    uint64 // number of streams so far; the last one is the stream of the session
}

// use counts the uses of something that outlives them for a while. The mutex of its owner guards it.
type use struct {
	users int
	idle  *overdue.Timer // runs while users is 0, if dropAfter was called
}

func (u *use) begin() {
	u.stop()
	u.users++
}

// end ends what begin began. It reports whether that was the last use.
func (u *use) end() (last bool) {
	u.users--
	return u.users == 0
}

// dropAfter calls drop, with the mutex locked, unless a use begins before.
func (u *use) dropAfter(d time.Duration, mu *sync.Mutex, drop func()) {
	u.idle = overdue.AfterFunc(d, func() {
		mu.Lock()
		defer mu.Unlock()
		if u.users == 0 {
			drop()
		}
	})
}

func (u *use) stop() {
	if u.idle != nil {
		u.idle.Stop()
		u.idle = nil
	}
}

var (
	errUnknownSession = errors.New("the session has ended, or was never one of this gateway; begin with initialize")
	errClosing        = errors.New("the gateway is shutting down")
	errManySessions   = errors.New("too many sessions are in use; end some")
	errManyHeld       = errors.New("the gateway keeps too much for this principal; end sessions and subscriptions, and read what waits")
)

// openSession returns the session that the header names. Each call needs one of closeSession, unless it has answered the
// request, whose id may be none, and returns nil.
func (x *httpExchange) openSession(id jsonrpc.ID) *httpSession {
	hs, err := x.findSession()
	switch {
	case errors.Is(err, errManySessions), errors.Is(err, errManyHeld):
		x.busy(err.Error())
	case errors.Is(err, errClosing): // a 404 would end a session that the next gateway with the same key continues
		x.w.Header().Set("Retry-After", "1")
		x.fail(http.StatusServiceUnavailable, id, message.Busy(err.Error()))
	case err != nil:
		x.refuse(clients.RefusedSession)
		x.fail(http.StatusNotFound, id, message.InvalidRequest("%s", err))
	}
	return hs
}

// findSession is openSession without the answer.
func (x *httpExchange) findSession() (*httpSession, error) {
	s, p := x.server, x.principal
	said, err := sessionid.Open(s.gateway.opts.key, x.r.Header.Get(sessionHeader), x.owner, time.Now())
	if err != nil || int(said.Version) >= len(legacyVersions) {
		return nil, errUnknownSession
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return nil, errClosing
	case s.ended.Has(p.name, said.Nonce):
		return nil, errUnknownSession
	}
	hs := s.sessions[said.Nonce]
	if hs == nil {
		if p.sessions >= s.limits.MaxSessions {
			return nil, errManySessions
		}
		account := budget.New(math.MaxInt, p.account)
		if !account.Take(sessionCost) {
			return nil, errManyHeld
		}
		p.sessions++
		p.users++
		hs = &httpSession{session: newSession(p.inTurn(s.ctx), x.gateway), nonce: said.Nonce, version: legacyVersions[said.Version], principal: p}
		hs.session.keepAccount(account)
		hs.session.declare(said.Capabilities)
		hs.session.owner, hs.session.holdOwner = x.owner, roundtrip.Owner{Principal: p.name}
		hs.session.legacy.Store(true)
		hs.session.speak(hs.version)
		info := x.infoOf(hs.version)
		info.Name, info.Version = said.Client, said.ClientVersion
		hs.session.peer = s.gateway.opts.clients.Open(keyOf(said.Nonce), info)
		hs.session.notify.Key = sessionKey{nonce: said.Nonce}
		hs.session.tenancy.makeOwn(string(said.Nonce[:]), p.name)
		hs.session.unwatched = func() { s.dropUnneeded(hs) }
		s.sessions[said.Nonce] = hs
	}
	hs.use.begin()
	return hs, nil
}

// closeSession ends one use of a session. After the last one the session is dropped, or kept for
// SessionIdle if it has something that its client would miss.
func (s *Server) closeSession(hs *httpSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !hs.use.end() || s.sessions[hs.nonce] != hs:
	case !hs.isNeeded():
		s.dropLocked(hs)
	default:
		hs.session.follow()
		hs.use.dropAfter(s.limits.SessionIdle, &s.mu, func() { s.dropLocked(hs) })
	}
}

// isNeeded reports whether the session has something that its client would miss.
func (hs *httpSession) isNeeded() bool {
	own := hs.session.tenancy.own.Load()
	return hs.session.notify.IsNeeded() || own != nil && own.running.Load() > 0
}

// dropUnneeded drops a session that is neither used nor needed.
func (s *Server) dropUnneeded(hs *httpSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hs.use.users == 0 && !hs.isNeeded() {
		s.dropLocked(hs)
	}
}

// dropLocked frees what an active session has, once.
func (s *Server) dropLocked(hs *httpSession) {
	if s.sessions[hs.nonce] != hs {
		return
	}
	delete(s.sessions, hs.nonce)
	hs.use.stop()
	hs.principal.sessions--
	s.leaveLocked(hs.principal)
	hs.session.end()
}

// endSession answers DELETE.
func (x *httpExchange) endSession() {
	if !x.isOfSession("has no sessions") {
		return
	}
	s := x.server
	said, err := sessionid.Open(s.gateway.opts.key, x.r.Header.Get(sessionHeader), x.owner, time.Now())
	if err != nil {
		x.refuse(clients.RefusedSession)
		http.Error(x.w, errUnknownSession.Error(), http.StatusNotFound)
		return
	}
	s.gateway.opts.clients.End(keyOf(said.Nonce))
	s.mu.Lock()
	again := s.ended.Has(x.principal.name, said.Nonce)
	s.ended.Add(x.principal.name, said.Nonce, said.Expiry)
	if hs := s.sessions[said.Nonce]; hs != nil {
		s.dropLocked(hs)
	}
	s.mu.Unlock()
	s.gateway.elicitations.ForgetSession(sessionKey{nonce: said.Nonce})
	if again {
		http.Error(x.w, errUnknownSession.Error(), http.StatusNotFound)
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// stream answers GET: it sends the notifications of a session before 2026-07-28. A second stream of a
// session replaces the first one, which may be left over from a broken connection.
//
// An idle stream costs little more than the buffers of its connection and the stack of its goroutine,
// which waits in deliver. The frames from here to deliver must stay small: then 8 KB of stack are enough
// to write the header, and otherwise each stream keeps 16 KB. So all steps before the wait are functions
// of their own.
func (x *httpExchange) stream() {
	hs := x.streamSession()
	if hs == nil {
		return
	}
	defer x.server.closeSession(hs)
	defer x.endWithToken()()
	hs.session.peer.Stream(1)
	defer hs.session.peer.Stream(-1)
	x.deliver(hs)
}

// streamSession returns the session of a request for a stream. The caller closes it. If the request gets
// no stream, streamSession answers it and returns nil.
func (x *httpExchange) streamSession() *httpSession {
	if !x.isOfSession("has no stream of its own; use subscriptions/listen") {
		return nil
	}
	if !httpwire.AcceptsStream(x.r) {
		http.Error(x.w, "Accept must have text/event-stream", http.StatusNotAcceptable)
		return nil
	}
	return x.openSession(jsonrpc.ID{})
}

// isOfSession reports whether a GET or DELETE names a session, and no version without sessions.
// Otherwise it answers the request; modern says what 2026-07-28 has instead.
func (x *httpExchange) isOfSession(modern string) bool {
	switch version := x.r.Header.Get(versionHeader); {
	case version == modernVersion:
		x.w.Header().Set("Allow", "POST")
		http.Error(x.w, "version "+modernVersion+" "+modern, http.StatusMethodNotAllowed)
	case version != "" && !slices.Contains(legacyVersions, version):
		http.Error(x.w, "the version "+message.Quote(version)+" in the header "+versionHeader+" is not known", http.StatusBadRequest)
	case x.r.Header.Get(sessionHeader) == "":
		http.Error(x.w, "the header "+sessionHeader+" is missing", http.StatusBadRequest)
	default:
		return true
	}
	return false
}

// deliver writes the notifications of a session to its stream, until one of the two ends.
func (x *httpExchange) deliver(hs *httpSession) {
	s := x.server
	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	mine := s.takeStream(hs, signal)
	defer s.leaveStream(hs, mine)
	known, seen := x.startDelivery(hs)
	position := seen           // position of the last question on the stream
	var streamRequest *request // nil while no server can ask without a call: most streams carry no questions
	defer func() {
		if streamRequest != nil {
			hs.session.questions.closeStream(streamRequest)
		}
	}()
	if !hs.session.gateway.opts.sharesAll() { // before the client knows that it has a stream
		streamRequest = hs.newStreamRequest(wake, seen)
	}
	if !x.prime(hs, eventID(known, position)) {
		return
	}
	// A Ticker and its channel would add to the cost of each idle stream. So would the channel of hs.ctx:
	// instead, the end of the session wakes the stream.
	due := time.Now().Add(s.limits.KeepAlive)
	keepAlive := time.AfterFunc(s.limits.KeepAlive, signal)
	defer keepAlive.Stop()
	for {
		if streamRequest == nil && !hs.session.gateway.opts.sharesAll() {
			streamRequest = hs.newStreamRequest(wake, seen)
		}
		if m := hs.session.notify.NextOf(mine); m != nil {
			if !x.notification(m, &known, position) {
				return
			}
			continue
		}
		if streamRequest != nil {
			if m, _ := streamRequest.exchange.out.next(); m != nil {
				position = cmp.Or(hs.session.questions.written(m), position)
				if !x.wire.Event(m, eventID(known, position)) {
					return
				}
				continue
			}
		}
		if hs.session.ctx.Err() != nil || !s.hasStream(hs, mine) {
			return
		}
		select {
		case <-wake:
			if now := time.Now(); !now.Before(due) {
				if !x.wire.KeepAlive() {
					return
				}
				due = now.Add(s.limits.KeepAlive)
				keepAlive.Reset(s.limits.KeepAlive)
			}
		case <-x.r.Context().Done():
			return
		}
	}
}

// noRequest is the jsonrpc.Request of the requests that newStreamRequest makes. It is never changed.
var noRequest = new(jsonrpc.Request)

// newStreamRequest makes a request for the whole stream of the session, on which servers can ask while
// no call is in flight. wake wakes the stream. seen is as in questions.openStream.
func (hs *httpSession) newStreamRequest(wake chan struct{}, seen int64) *request {
	streamRequest := &request{Request: noRequest, ctx: hs.session.ctx, exchange: &exchange{session: hs.session, asks: true, out: &outbox{wake: wake, limits: &hs.session.gateway.opts.limits}}}
	hs.session.questions.openStream(streamRequest, seen)
	return streamRequest
}

// startDelivery lets the session hear of changes from now on, and of those since the last event that the
// client has seen. It returns the digests of the lists that the client knows, and the position of the
// last question that it has seen.
func (x *httpExchange) startDelivery(hs *httpSession) (known [3]string, seen int64) {
	hs.session.follow()
	hs.session.notify.StartSession()
	known = x.gateway.catalog.Get().Digests()
	if told, position, ok := parseEventID(x.r.Header.Get(eventHeader)); ok {
		hs.session.notify.ReportLists(listing.ChangedDigests(told, known))
		known, seen = told, position
	}
	return known, seen
}

// prime begins the stream with an event without data. The client needs its id to resume the stream.
func (x *httpExchange) prime(hs *httpSession, id string) bool {
	if hs.version < "2025-11-25" { // their clients take an event without data for a message
		id = ""
	}
	return x.wire.Begin(id)
}

// notification writes a notification to the stream, and updates the digests that the client knows.
func (x *httpExchange) notification(m jsonrpc.Message, known *[3]string, position int64) bool {
	*known = toldOf(m, *known, x.gateway.catalog.Get().Digests())
	return x.wire.Event(m, eventID(*known, position))
}

// errTokenEnded is why endWithToken ends a request.
var errTokenEnded = errors.New("the token has expired, or was revoked; ask again with a new one")

// endWithToken ends a long request when the token of its client expires or is revoked. The client continues with a
// new token.
func (x *httpExchange) endWithToken() (cancel func()) {
	ctx, end := context.WithCancelCause(x.r.Context())
	stops := []func() bool{}
	if x.life != nil {
		stops = append(stops, context.AfterFunc(x.life, func() { end(errTokenEnded) }))
	}
	if !x.expiry.IsZero() {
		stops = append(stops, time.AfterFunc(time.Until(x.expiry), func() { end(errTokenEnded) }).Stop)
	}
	x.r = x.r.WithContext(ctx)
	return func() {
		for _, stop := range stops {
			stop()
		}
		end(nil)
	}
}

// takeStream makes a new stream the stream of its session, and wakes the one that it replaces. wake is
// called when there is something to read, and when another stream replaces this one.
func (s *Server) takeStream(hs *httpSession, wake func()) (mine uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hs.streams++
	hs.session.notify.ReadBy(hs.streams, wake)
	if hs.wakeStream != nil {
		hs.wakeStream()
	}
	hs.wakeStream = wake
	return hs.streams
}

// hasStream reports whether a stream is still the stream of its session.
func (s *Server) hasStream(hs *httpSession, mine uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hs.streams == mine
}

func (s *Server) leaveStream(hs *httpSession, mine uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hs.streams == mine {
		hs.wakeStream = nil
	}
}

// eventID returns the id of an event: the digests of the lists that the client knows, and the position
// of the last question; 0: there was none. A client that resumes with the id, even at another process,
// hears of the changes since, and of the questions that it has not seen.
func eventID(known [3]string, position int64) string {
	id := strings.Join(known[:], ".")
	if position == 0 {
		return id
	}
	return id + "." + strconv.FormatInt(position, 36)
}

func parseEventID(id string) (known [3]string, position int64, ok bool) {
	parts := strings.Split(id, ".")
	if len(id) > 200 || len(parts) < len(known) || len(parts) > len(known)+1 {
		return known, 0, false
	}
	if len(parts) > len(known) {
		// An invalid position counts as unknown; see questions.openStream.
		position, _ = strconv.ParseInt(parts[len(known)], 36, 64)
	}
	return [3]string(parts[:len(known)]), position, true
}

// toldOf returns the digests that the client knows after a notification: it reads the changed list
// again.
func toldOf(m jsonrpc.Message, known, now [3]string) [3]string {
	if r, ok := m.(*jsonrpc.Request); ok {
		for i, kind := range notices.ListChanged {
			if kind.Method == r.Method {
				known[i] = now[i]
			}
		}
	}
	return known
}

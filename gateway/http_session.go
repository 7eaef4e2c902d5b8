package gateway

import (
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

// nonce identifies a session over HTTP.
type nonce = [12]byte

// principal counts what one owner of a token uses. It exists while a request or a session refers to it.
// Its fields are guarded by Server.mu.
type principal struct {
	name     string
	users    int // requests and sessions that refer to it
	inFlight int // its requests in flight
	sessions int // its active sessions
	bytes    int // of the bodies of its requests
	unread   int // bytes of large answers that were not read

	account *budget.Budget // counts what it makes the gateway hold; read only
}

// enter returns the principal of a request. Each call needs one of leave.
func (s *Server) enter(name string) *principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.principals[name]
	if p == nil {
		p = &principal{name: name, account: s.gateway.opts.settings.enter(name)}
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

// reserve counts requests and bytes of a principal. It counts nothing and reports false if the principal
// would exceed a limit. Negative values give back.
func (s *Server) reserve(p *principal, requests, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if requests > 0 && p.inFlight+requests > s.limits.MaxInFlight || bytes > 0 && p.bytes+bytes > s.limits.MaxBytes {
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

// holdAnswer counts an answer towards the principal until releaseAnswer, or the end of the POST: a peer that
// reads slowly holds it for long. It counts nothing and reports false if the principal has not read as much as it may. What is no longer than a
// piece of an answer does not count: MaxInFlight bounds it.
func (x *exchange) holdAnswer(a *jsonrpc.Response) bool {
	n := answerBytes(a)
	if n <= message.PieceBytes {
		return true
	}
	s, p := x.server, x.principal
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.ended { // the answer could not arrive
		return true
	}
	if p.unread > 0 && p.unread+n > s.limits.MaxBytes || !p.account.Take(n) {
		return false
	}
	p.unread += n
	x.unread += n
	return true
}

// releaseAnswer ends what holdAnswer began, as the peer has read the answer.
func (x *exchange) releaseAnswer(a *jsonrpc.Response) {
	if n := answerBytes(a); n > message.PieceBytes {
		x.server.mu.Lock()
		defer x.server.mu.Unlock()
		x.principal.unread -= n
		x.principal.account.Return(n)
		x.unread -= n
	}
}

// releaseAnswers ends what holdAnswer began and what it begins later, as the POST ends.
func (x *exchange) releaseAnswers() {
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	x.ended = true
	x.principal.unread -= x.unread
	x.principal.account.Return(x.unread)
	x.unread = 0
}

// httpSession is an active session of a version before 2026-07-28. An active session has a request in
// flight, a stream, a subscription, a log level, a task that is watched or a copy of a server. Nothing
// is kept of any other session: its id says all.
type httpSession struct {
	*connection
	nonce     nonce
	version   string
	principal *principal

	// Guarded by Server.mu.
	users      int            // requests in flight, and streams
	wakeStream func()         // wakes the stream, which then calls hasStream; nil without one
	streams    uint64         // number of streams so far; the last one is the stream of the session
	idle       *overdue.Timer // runs while users is 0
}

var (
	errUnknownSession = errors.New("the session has ended, or was never one of this gateway; begin with initialize")
	errManySessions   = errors.New("too many sessions are in use; end some")
	errManyHeld       = errors.New("the gateway keeps too much for this principal; end sessions and subscriptions, and read what waits")
)

// openSession returns the session with an id. Each call needs one of closeSession.
func (x *exchange) openSession(id string) (*httpSession, error) {
	s, p, now := x.server, x.principal, time.Now()
	said, err := sessionid.Open(s.gateway.opts.key, id, x.owner, now)
	if err != nil || int(said.Version) >= len(legacyVersions) {
		return nil, errUnknownSession
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.Has(p.name, said.Nonce) || s.ctx.Err() != nil {
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
		hs = &httpSession{connection: newConnection(s.ctx, x.gateway), nonce: said.Nonce, version: legacyVersions[said.Version], principal: p}
		hs.keepAccount(account)
		hs.declare(said.Capabilities)
		hs.owner, hs.holdOwner = x.owner, roundtrip.Owner{Principal: p.name}
		hs.legacy.Store(true)
		hs.speak(hs.version)
		info := x.infoOf(hs.version)
		info.Name, info.Version = said.Client, said.ClientVersion
		hs.peer = s.gateway.opts.clients.Open(keyOf(said.Nonce), info)
		hs.notify.Key = sessionKey{nonce: said.Nonce}
		hs.ownTenant(string(said.Nonce[:]), p.name)
		hs.unwatched = func() { s.dropUnneeded(hs) }
		s.sessions[said.Nonce] = hs
	}
	if hs.idle != nil {
		hs.idle.Stop()
		hs.idle = nil
	}
	hs.users++
	return hs, nil
}

// closeSession ends one use of a session. After the last one the session is dropped, or kept for
// SessionIdle if it has something that its client would miss.
func (s *Server) closeSession(hs *httpSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hs.users--; hs.users > 0 || s.sessions[hs.nonce] != hs {
		return
	}
	if !hs.isNeeded() {
		s.dropLocked(hs)
		return
	}
	hs.follow()
	hs.idle = overdue.AfterFunc(s.limits.SessionIdle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if hs.users == 0 {
			s.dropLocked(hs)
		}
	})
}

// isNeeded reports whether the session has something that its client would miss.
func (hs *httpSession) isNeeded() bool { return hs.notify.IsNeeded() || hs.hasCopies() }

// dropUnneeded drops a session that is neither used nor needed.
func (s *Server) dropUnneeded(hs *httpSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hs.users == 0 && !hs.isNeeded() {
		s.dropLocked(hs)
	}
}

// dropLocked frees what an active session has, once.
func (s *Server) dropLocked(hs *httpSession) {
	if s.sessions[hs.nonce] != hs {
		return
	}
	delete(s.sessions, hs.nonce)
	if hs.idle != nil {
		hs.idle.Stop()
	}
	hs.principal.sessions--
	s.leaveLocked(hs.principal)
	hs.end()
}

// endSession answers DELETE.
func (x *exchange) endSession() {
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

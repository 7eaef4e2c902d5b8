package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// local is a server that was placed here: from its start, which the protocol decides, until nothing
// of it is left. All sessions of the facade that begin meanwhile are its incarnations. Safe for
// concurrent use.
type local struct {
	name         string
	node         string // the id of this node
	exclusive    bool
	epoch        atomic.Uint64 // of the placement; an adoption raises it
	incarnations atomic.Uint64 // sessions that were made
	// ended is called once, when the server must end and nothing of it is left.
	ended func(l *local)
	// inForce reports whether the lease of the node has not ended.
	inForce func() bool

	turnstile // leaving: the server is handed over or ended

	mu       sync.Mutex
	closed   bool // no further session is opened
	sessions map[*localSession]bool
	reported bool // ended was called
	stuck    bool // something could not be ended
}

func newLocal(name, node string, epoch uint64, exclusive bool, ended func(*local)) *local {
	l := &local{name: name, node: node, exclusive: exclusive, ended: ended, turnstile: turnstile{idle: make(chan struct{})}, sessions: map[*localSession]bool{}}
	l.epoch.Store(epoch)
	return l
}

// errEnding is the cause of calls and starts that come when the server is leaving this node.
var errEnding = errors.New("the server is leaving this node")

// end ends all sessions, and lets none begin. now: without a grace.
func (l *local) end(cause *supervisor.Cause, now bool) {
	l.leaving.Store(true)
	l.mu.Lock()
	l.closed = true
	open := make([]*localSession, 0, len(l.sessions))
	for s := range l.sessions {
		open = append(open, s)
	}
	l.mu.Unlock()
	for _, s := range open {
		if now {
			s.Kill(cause)
		} else {
			s.Session.Abort(cause)
		}
	}
	l.report()
}

// report says once that nothing is left.
func (l *local) report() {
	l.mu.Lock()
	over := l.closed && len(l.sessions) == 0 && !l.reported && !(l.stuck && l.exclusive)
	l.reported = l.reported || over
	l.mu.Unlock()
	if over {
		l.ended(l)
	}
}

// enter admits the start of a session.
func (l *local) enter(s *localSession) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.sessions[s] = true
	return true
}

func (l *local) leave(s *localSession) {
	l.mu.Lock()
	delete(l.sessions, s)
	if err := s.Session.Left(); err != nil {
		l.stuck = true
	}
	l.mu.Unlock()
	l.report()
}

// localSession is a session of a server that runs on this node.
type localSession struct {
	transport.Session
	of *local
	// admit waits until the server may start: for an exclusive one until the guard knows how long
	// the lease lasts. done is called when it has started, or has failed to.
	admit func(ctx context.Context) (done func(), err error)
}

// Open implements [transport.Session].
func (s *localSession) Open(ctx context.Context) error {
	refuse := func(err error) error {
		cause := &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: err.Error(), Err: err}
		s.Session.Abort(cause)
		return cause
	}
	done, err := s.admit(ctx)
	if err != nil {
		return refuse(err)
	}
	defer done()
	if !s.of.enter(s) {
		return refuse(errEnding)
	}
	s.Session.OnReleased(func() { s.of.leave(s) })
	return s.Session.Open(ctx)
}

// Request implements [transport.Session].
func (s *localSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if r.Stream != nil {
		return s.Session.Request(ctx, r)
	}
	if !s.of.begin() {
		return nil, moving(s.of.name, errEnding)
	}
	if s.of.exclusive && !s.of.inForce() {
		s.of.done()
		return nil, moving(s.of.name, peer.ErrLeaseOver)
	}
	defer s.of.done()
	return s.Session.Request(ctx, r)
}

// moving is the error of a call that was not sent, because the server is moving to another node.
func moving(name string, why error) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: pauseBeforeRetry, Cause: why}
}

// Info implements [transport.Session].
func (s *localSession) Info() mcpvisor.SessionInfo {
	info := s.Session.Info()
	info.Node = s.of.node
	return info
}

// SetEpoch implements [transport.Session]. The server is told one number that grows with each
// incarnation on any node: the epoch of the placement, and below it the number of the incarnation here. A
// registration begins to count from 1 again when its definition changes, so it is not its number.
func (s *localSession) SetEpoch(uint64) {
	s.Session.SetEpoch(s.of.epoch.Load()<<epochBits | s.of.incarnations.Add(1))
}

// epochBits are for the incarnations of one placement.
const epochBits = 32

// drainTimeout bounds how long calls in flight may take when a server is handed over.
const drainTimeout = 30 * time.Second

package stdio

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// session is one incarnation behind a pair of streams. Opening it may take two
// processes, because some servers exit on server/discover.
type session struct {
	// Set by NewSession, constant afterwards. Each guards itself with a mutex.
	dialer        *dialer
	lifetime      *jsonrpc.Lifetime
	notifications jsonrpc.Notifications // passes notifications to the function of OnNotice
	handshake     jsonrpc.HandshakeWatch
	observe       transport.ServerRequestObserver // set before Open; may be nil

	open atomic.Pointer[openState] // set by Open when the negotiation succeeded; nil before

	mu      sync.Mutex           // guards the fields below
	current *processConn         // the last process that was started; nil before the first
	info    mcpvisor.SessionInfo // set by Open
	// spawning: a process is being started that current does not hold yet. If Abort
	// comes meanwhile, the goroutine that spawns releases the session.
	spawning bool
}

// openState is what requests of an open session need.
type openState struct {
	conn   *conn
	meta   json.RawMessage // the _meta of each request; empty in the legacy era
	sender inbound.RequestSender
}

// newOpenState makes the state of a session whose negotiation has succeeded.
func (s *session) newOpenState(p *processConn, meta json.RawMessage) *openState {
	o := &openState{conn: p.conn, meta: meta}
	o.sender = inbound.RequestSender{Modern: len(meta) > 0, Handler: p.handler, Handshake: &s.handshake, Send: o.send, Abort: s.Abort,
		Go: func(check func(context.Context)) { go check(context.Background()) }} // check has a timeout of its own
	return o
}

func (o *openState) send(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	return o.conn.request(ctx, r, o.meta)
}

// Request implements [transport.Session].
func (s *session) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if o := s.open.Load(); o != nil {
		return o.sender.Request(ctx, r)
	}
	if cause := s.Cause(); cause != nil {
		return nil, jsonrpc.DeathError(cause, mcpvisor.OutcomeNotSent)
	}
	return nil, &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: jsonrpc.ErrNotOpen}
}

// Abort implements [transport.Session].
func (s *session) Abort(cause *supervisor.Cause) {
	s.mu.Lock()
	first := s.lifetime.RecordEnd(cause)
	p, spawning := s.current, s.spawning
	s.mu.Unlock()
	s.lifetime.Notify()
	if first && !spawning {
		s.releaseAfter(p, cause)
	}
}

// releaseAfter ends a process, if there is one, and releases the session once nothing
// of the process is left.
func (s *session) releaseAfter(p *processConn, cause *supervisor.Cause) {
	if p == nil {
		s.lifetime.Release()
		return
	}
	p.conn.end(cause)
	p.lifetime.OnReleased(func() {
		s.lifetime.RecordLeft(p.lifetime.Left())
		s.lifetime.Release()
	})
}

// currentConn returns the last process that was started; nil before the first.
func (s *session) currentConn() *processConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// OnNotice implements [transport.Session].
func (s *session) OnNotice(notify func(transport.Notice)) { s.notifications.OnNotice(notify) }

// OnServerRequest implements [transport.ServerRequestSource].
func (s *session) OnServerRequest(observe transport.ServerRequestObserver) { s.observe = observe }

// Dead implements [transport.Session].
func (s *session) Dead() <-chan struct{} { return s.lifetime.Dead() }

// Cause implements [transport.Session].
func (s *session) Cause() *supervisor.Cause { return s.lifetime.Cause() }

// Released implements [transport.Session].
func (s *session) Released() <-chan struct{} { return s.lifetime.Released() }

// OnDead implements [transport.Session].
func (s *session) OnDead(f func()) { s.lifetime.OnDead(f) }

// OnReleased implements [transport.Session].
func (s *session) OnReleased(f func()) { s.lifetime.OnReleased(f) }

// Left implements [transport.Session].
func (s *session) Left() error { return s.lifetime.Left() }

// Info implements [transport.Session].
func (s *session) Info() mcpvisor.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	if p := s.current; p != nil {
		info.Discarded = p.conn.discarded.Counts()
		info.StrayOutput = p.conn.remarks.StrayOutput(p.conn.redactor)
		info.PID = p.proc.PID()
	}
	return info
}

// Stderr implements [transport.StderrSource].
func (s *session) Stderr() []string {
	if p := s.currentConn(); p != nil {
		return p.proc.ExitCause().Stderr
	}
	return nil
}

// StderrTail implements [transport.StderrSource].
func (s *session) StderrTail() mcpvisor.ServerStderr {
	if p := s.currentConn(); p != nil {
		tail := p.proc.StderrTail()
		tail.PID = p.proc.PID()
		return tail
	}
	return mcpvisor.ServerStderr{}
}

// InFlight implements [transport.RequestLister].
func (s *session) InFlight() []transport.InFlight {
	if o := s.open.Load(); o != nil {
		return o.sender.Handler.Waiting.AppendTo(o.conn.table.InFlight())
	}
	return nil
}

// LastReceived implements [transport.Session].
func (s *session) LastReceived() time.Time {
	if p := s.currentConn(); p != nil {
		return p.conn.lastReceived.Time()
	}
	return time.Time{}
}

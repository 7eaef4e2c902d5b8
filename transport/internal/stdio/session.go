package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
)

// session is one incarnation behind a pair of streams. Opening it may take two
// processes, because some servers exit on server/discover.
type session struct {
	transport.Base

	// Set by NewSession, constant afterwards. Each guards itself with a mutex.
	dialer        *dialer
	lifetime      *jsonrpc.Lifetime
	notifications jsonrpc.Notifications // passes notifications to the function of OnNotice
	handshake     jsonrpc.HandshakeWatch
	observe       transport.ServerRequestObserver // set before Open; may be nil
	epoch         uint64                          // set before Open; told to the process
	killed        atomic.Bool                     // set by Kill, before Abort

	open atomic.Pointer[openState] // set by Open when the negotiation succeeded; nil before

	mu      sync.Mutex           // guards the fields below
	current *processConn         // the last process that was started; nil before the first
	info    mcpvisor.SessionInfo // set by Open
	// spawning: a process is being started that current does not hold yet. If Abort
	// comes meanwhile, the goroutine that spawns releases the session.
	spawning bool
}

// openState belongs to an open session. Each request needs it.
type openState struct {
	conn   *conn
	meta   json.RawMessage // the _meta of each request; empty in the legacy era
	sender inbound.RequestSender
}

// newOpenState makes the state of a session whose negotiation has succeeded.
func (s *session) newOpenState(p *processConn, meta json.RawMessage) *openState {
	o := &openState{conn: p.conn, meta: meta}
	o.sender = inbound.RequestSender{Modern: len(meta) > 0, Tasks: inbound.OffersTasks(s.Info()), Handler: p.handler, Handshake: &s.handshake, Send: o.send, Abort: s.Abort,
		Go: func(check func(context.Context)) { go check(context.Background()) }} // check has a timeout of its own
	return o
}

func (o *openState) send(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	return o.conn.request(ctx, &r, jsonrpc.CallMeta(o.meta, r.Caller))
}

// Request implements [transport.Session].
func (s *session) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if o := s.open.Load(); o != nil {
		if o.sender.Modern {
			return o.sender.Request(ctx, &r)
		}
		result, err := o.conn.request(ctx, &r, nil)
		return o.sender.ObserveLegacy(&r, result, err)
	}
	if cause := s.Cause(); cause != nil {
		return nil, transport.DeathError(cause, mcpvisor.OutcomeNotSent)
	}
	return nil, &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: jsonrpc.ErrNotOpen}
}

// AnswerInputs implements [transport.Session].
func (s *session) AnswerInputs(ctx context.Context, caller *transport.Caller, requests json.RawMessage) (json.RawMessage, error) {
	if o := s.open.Load(); o != nil {
		return o.sender.AnswerInputs(ctx, caller, requests)
	}
	return nil, &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: jsonrpc.ErrNotOpen}
}

// RedactJSON implements [transport.Session].
func (s *session) RedactJSON(raw json.RawMessage) json.RawMessage { return s.dialer.redactor.JSON(raw) }

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

// Kill implements [transport.Session]. A process that is being started, or that starts to be
// shut down in this moment, finds killed set.
func (s *session) Kill(cause *supervisor.Cause) {
	s.killed.Store(true)
	s.Abort(cause)
	if p := s.currentConn(); p != nil {
		p.proc.Kill()
	}
}

// SetEpoch implements [transport.Session].
func (s *session) SetEpoch(epoch uint64) { s.epoch = epoch }

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

// OnServerRequest implements [transport.Session].
func (s *session) OnServerRequest(observe transport.ServerRequestObserver) { s.observe = observe }

// The lifetime implements these methods of [transport.Session].

func (s *session) Dead() <-chan struct{}     { return s.lifetime.Dead() }
func (s *session) Cause() *supervisor.Cause  { return s.lifetime.Cause() }
func (s *session) Released() <-chan struct{} { return s.lifetime.Released() }
func (s *session) OnDead(f func())           { s.lifetime.OnDead(f) }
func (s *session) OnReleased(f func())       { s.lifetime.OnReleased(f) }
func (s *session) Left() error               { return s.lifetime.Left() }

// ToolSettings implements [transport.Session].
func (s *session) ToolSettings() map[string]mcpvisor.ToolSetting { return s.dialer.spec.ToolSettings }

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

// Stderr implements [transport.Session].
func (s *session) Stderr() []string {
	if p := s.currentConn(); p != nil {
		return p.proc.ExitCause().Stderr
	}
	return nil
}

// StderrTail implements [transport.Session].
func (s *session) StderrTail() monitor.ServerStderr {
	if p := s.currentConn(); p != nil {
		tail := p.proc.StderrTail()
		tail.PID = p.proc.PID()
		return tail
	}
	return monitor.ServerStderr{}
}

// InFlight implements [transport.Session].
func (s *session) InFlight() []transport.InFlight {
	if o := s.open.Load(); o != nil {
		return o.sender.Handler.Waiting.AppendTo(o.conn.table.InFlight())
	}
	return nil
}

// CancelRequest implements [transport.Session].
func (s *session) CancelRequest(id int64) bool {
	o := s.open.Load()
	return o != nil && (o.sender.Handler.Waiting.Cancel(id) || o.conn.table.Cancel(id))
}

// LastReceived implements [transport.Session].
func (s *session) LastReceived() time.Time {
	if p := s.currentConn(); p != nil {
		return p.conn.lastReceived.Time()
	}
	return time.Time{}
}

// spawnResult is the result of starting a process. One of the two fields is set.
type spawnResult struct {
	proc  process.Process
	cause *supervisor.Cause
}

// spawnConn starts a process and the connection to it. It gives up when ctx or the
// session ends: on a file system that does not answer, the operating system may never
// return from the start.
func (s *session) spawnConn(ctx context.Context) (*processConn, *supervisor.Cause) {
	result := make(chan spawnResult, 1)
	go func() { result <- s.dialer.spawnSafely(s.epoch) }()
	select {
	case r := <-result:
		return s.acceptProcess(r)
	case <-s.Dead():
		go s.abandonSpawn(result)
		return nil, s.Cause()
	case <-ctx.Done():
		go s.abandonSpawn(result)
		if s.dialer.spec.Stdio == nil {
			return nil, &supervisor.Cause{Kind: supervisor.CauseTimeout, Err: context.Cause(ctx), Message: "the server did not begin in time; raise Timeouts.Start"}
		}
		return nil, &supervisor.Cause{Kind: supervisor.CauseTimeout, Err: context.Cause(ctx),
			Message: "the operating system did not start the command in time; see whether it, its interpreter, or its directory is on a file system that does not answer"}
	}
}

// acceptProcess makes the connection to a process that was started, if one was, and
// ends the spawning.
func (s *session) acceptProcess(r spawnResult) (*processConn, *supervisor.Cause) {
	var p *processConn
	if r.cause == nil {
		p = newProcessConn(r.proc, s)
	}
	if aborted := s.endSpawn(p); aborted != nil {
		return nil, aborted
	}
	return p, r.cause
}

// abandonSpawn waits for a start that Open has given up, and ends the process if one
// was started. The session is released after Timeouts.Shutdown at the latest, even if
// the operating system has not returned by then.
func (s *session) abandonSpawn(result <-chan spawnResult) {
	select {
	case r := <-result:
		if p, _ := s.acceptProcess(r); p != nil {
			p.conn.end(errStartGivenUp) // Open is about to call Abort
		}
		return
	case <-time.After(s.dialer.spec.Timeouts.Shutdown):
	}
	s.dialer.hangingStarts.Add(1)
	defer s.dialer.hangingStarts.Add(-1)
	s.lifetime.RecordLeft(errors.New("the operating system still hangs in starting the command"))
	_ = s.endSpawn(nil)
	if r := <-result; r.cause == nil {
		r.proc.Terminate(0)
		_ = r.proc.Release()
	}
}

var errStartGivenUp = &supervisor.Cause{Kind: supervisor.CauseTimeout, Message: "the start was given up"}

// spawnSafely starts a process. A panic becomes the cause of the failure. While an
// earlier start hangs in the operating system, it starts nothing: each would hang, too.
func (d *dialer) spawnSafely(epoch uint64) (r spawnResult) {
	defer func() {
		if p := recover(); p != nil {
			r = spawnResult{cause: &supervisor.Cause{Kind: supervisor.CausePanic,
				Message: fmt.Sprintf("internal error while starting the process: %v", p)}}
		}
	}()
	if d.hangingStarts.Load() > 0 {
		return spawnResult{cause: &supervisor.Cause{Kind: supervisor.CauseSpawn,
			Message: "an earlier start of the command still hangs in the operating system; see whether its file system answers"}}
	}
	r.proc, r.cause = d.spawn(epoch)
	return r
}

// beginSpawn marks the session as spawning, unless the session has ended already.
func (s *session) beginSpawn() (aborted *supervisor.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	aborted = s.Cause()
	s.spawning = aborted == nil
	return aborted
}

// endSpawn records the process that was started; p is nil if the start failed. If the
// session was aborted meanwhile, endSpawn ends the process and releases the session.
func (s *session) endSpawn(p *processConn) (aborted *supervisor.Cause) {
	s.mu.Lock()
	s.spawning = false
	if p != nil {
		s.current = p
	}
	p, aborted = s.current, s.Cause()
	s.mu.Unlock()
	if aborted != nil {
		s.releaseAfter(p, aborted)
	}
	return aborted
}

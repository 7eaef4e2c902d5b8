package stdio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
)

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
	go func() { result <- s.dialer.spawnSafely() }()
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
		spec := s.dialer.spec
		p = newProcessConn(r.proc, processConnOptions{
			MaxMessageBytes: spec.Limits.MaxMessageBytes,
			ShutdownTimeout: spec.Timeouts.Shutdown,
			Notifications:   &s.notifications,
			Handlers:        s.dialer.handlers,
			Redactor:        s.dialer.redactor,
			Observe:         s.observe,
			Buffer:          s.dialer.buffer,
		})
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
	t := time.NewTimer(s.dialer.spec.Timeouts.Shutdown)
	defer t.Stop()
	select {
	case r := <-result:
		if p, _ := s.acceptProcess(r); p != nil {
			p.conn.end(errStartGivenUp) // Open is about to call Abort
		}
		return
	case <-t.C:
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
func (d *dialer) spawnSafely() (r spawnResult) {
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
	r.proc, r.cause = d.spawn()
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

package stdio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
)

// spawned is what came of starting a process: one of the two.
type spawned struct {
	proc  process.Process
	cause *supervisor.Cause
}

// spawnLink starts a process. It gives up when ctx ends, or the session: the
// operating system may take for ever, on a file system that does not answer.
func (s *pipedSession) spawnLink(ctx context.Context) (*link, *supervisor.Cause) {
	result := make(chan spawned, 1)
	go func() { result <- s.dialer.spawnSafely() }()
	select {
	case r := <-result:
		return s.spawned(r)
	case <-s.Dead():
		go s.abandonSpawn(result)
		return nil, s.Cause()
	case <-ctx.Done():
		go s.abandonSpawn(result)
		return nil, &supervisor.Cause{Kind: supervisor.CauseTimeout, Err: context.Cause(ctx),
			Message: "the operating system did not start the command in time; see whether it, its interpreter, or its directory is on a file system that does not answer"}
	}
}

// spawned begins to serve a process that was started, if one was.
func (s *pipedSession) spawned(r spawned) (*link, *supervisor.Cause) {
	var l *link
	if r.cause == nil {
		spec := s.dialer.spec
		l = newLink(r.proc, spec.Limits.MaxMessageBytes, spec.Timeouts.Shutdown, &s.Notifications, s.dialer.redactor, s.dialer.asked, s.dialer.buffer)
	}
	if aborted := s.endSpawn(l); aborted != nil {
		return nil, aborted
	}
	return l, r.cause
}

// abandonSpawn takes care of a process that may yet be started: it is ended. The
// session is released after Timeouts.Shutdown, whatever the operating system does.
func (s *pipedSession) abandonSpawn(result <-chan spawned) {
	t := time.NewTimer(s.dialer.spec.Timeouts.Shutdown)
	defer t.Stop()
	select {
	case r := <-result:
		if l, _ := s.spawned(r); l != nil {
			l.die(errStartGivenUp) // Abort is on its way
		}
		return
	case <-t.C:
	}
	s.dialer.hanging.Add(1)
	defer s.dialer.hanging.Add(-1)
	s.RecordLeft(errors.New("the operating system still hangs in starting the command"))
	_ = s.endSpawn(nil)
	if r := <-result; r.cause == nil {
		r.proc.Terminate(0)
		_ = r.proc.Release()
	}
}

var errStartGivenUp = &supervisor.Cause{Kind: supervisor.CauseTimeout, Message: "the start was given up"}

// spawnSafely is spawn; a panic is its cause.
func (d *pipedDialer) spawnSafely() (r spawned) {
	defer func() {
		if p := recover(); p != nil {
			r = spawned{cause: &supervisor.Cause{Kind: supervisor.CausePanic,
				Message: fmt.Sprintf("internal error while starting the process: %v", p)}}
		}
	}()
	if d.hanging.Load() > 0 {
		return spawned{cause: &supervisor.Cause{Kind: supervisor.CauseSpawn,
			Message: "an earlier start of the command still hangs in the operating system; see whether its file system answers"}}
	}
	r.proc, r.cause = d.spawn()
	return r
}

// beginSpawn announces a process, unless the session is given up already.
func (s *pipedSession) beginSpawn() (aborted *supervisor.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	aborted = s.Cause()
	s.spawning = aborted == nil
	return aborted
}

// endSpawn records what was started, if anything was. If the session was given
// up meanwhile, it is released when that is gone.
func (s *pipedSession) endSpawn(l *link) (aborted *supervisor.Cause) {
	s.mu.Lock()
	s.spawning = false
	if l != nil {
		s.link = l
	}
	l, aborted = s.link, s.Cause()
	s.mu.Unlock()
	if aborted != nil {
		s.releaseAfter(l, aborted)
	}
	return aborted
}

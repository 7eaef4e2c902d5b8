//go:build linux

package integration

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// injectFaults injects faults into random servers, with random pauses, until ctx ends.
func (s *storm) injectFaults(ctx context.Context, r *rand.Rand) {
	var later sync.WaitGroup
	defer later.Wait()
	for ctx.Err() == nil {
		pause(ctx, time.Duration(r.IntN(40))*time.Millisecond)
		target := s.targets[r.IntN(len(s.targets))]
		if target.faultFree {
			continue
		}
		switch target.spec.TransportKind() {
		case "stdio":
			s.faultProcess(ctx, r, target, &later)
		case "http":
			s.faultHTTP(ctx, r, target)
		default:
			s.faultAny(r, target)
		}
	}
}

// faultAny injects a fault that servers of every transport have: a crash by a tool
// call, or a restart.
func (s *storm) faultAny(r *rand.Rand, target *target) {
	if r.IntN(20) == 0 {
		s.countFault("restart storm")
		for range 20 {
			if err := s.c.Restart(s.within(), target.name()); err != nil && !target.churned {
				s.recordViolation("restart of %s: %v", target.name(), err)
			}
		}
		return
	}
	if r.IntN(3) == 0 {
		s.countFault("restart")
		if err := s.c.Restart(s.within(), target.name()); err != nil && !target.churned {
			s.recordViolation("restart of %s: %v", target.name(), err)
		}
		return
	}
	s.countFault("crash")
	s.calls.call(context.Background(), s.c, target.name(), "crash", time.Second, facade.WithTimeout(time.Second))
}

func (s *storm) faultProcess(ctx context.Context, r *rand.Rand, target *target, later *sync.WaitGroup) {
	st, ok := s.c.ServerStatus(target.name())
	if !ok || st.Session == nil {
		return
	}
	pid := st.Session.PID
	switch r.IntN(4) {
	case 0:
		s.faultAny(r, target)
	case 1:
		s.countFault("stop")
		if !signalMarked(pid, s.mark, syscall.SIGSTOP) {
			return
		}
		after, next := time.Duration(20+r.IntN(500))*time.Millisecond, syscall.SIGCONT
		if r.IntN(4) == 0 {
			next = syscall.SIGKILL
		}
		later.Go(func() {
			pause(ctx, after)
			signalMarked(pid, s.mark, next)
		})
	default:
		s.countFault("kill")
		s.recordKill(pid)
		signalMarked(pid, s.mark, syscall.SIGKILL)
	}
}

func (s *storm) faultHTTP(ctx context.Context, r *rand.Rand, target *target) {
	switch r.IntN(4) {
	case 0:
		s.faultAny(r, target)
		s.restartHTTP(target.web) // a crashed HTTP server stays down until it is restarted
	case 1:
		s.countFault("refuse")
		target.web.Refuse([]int{500, 502, 503, 429}[r.IntN(4)])
	case 2:
		s.countFault("web restart")
		s.restartHTTP(target.web)
	default:
		s.countFault("web stop")
		target.web.Stop()
		pause(ctx, time.Duration(r.IntN(60))*time.Millisecond)
		s.restartHTTP(target.web)
	}
}

// restartHTTP serves again on the same port. While nothing listens there, the kernel
// may use the port for an outgoing connection; then restartHTTP tries again.
func (s *storm) restartHTTP(web *mcptest.HTTPServer) {
	try := func() (taken any) {
		defer func() { taken = recover() }()
		web.Restart()
		return nil
	}
	for soon := s.within(); ; pause(soon, pollInterval) {
		taken := try()
		if taken == nil {
			return
		}
		if soon.Err() != nil {
			panic(taken)
		}
	}
}

// churn registers and unregisters one server again and again, and checks after each
// Unregister that nothing of the server is left.
func (s *storm) churn(ctx context.Context, r *rand.Rand, target *target) {
	for ctx.Err() == nil {
		if _, registered := s.c.ServerStatus(target.name()); !registered {
			s.registerAgain(r, target)
		}
		pause(ctx, time.Duration(r.IntN(200))*time.Millisecond)
		s.countFault("unregister")
		if err := s.c.Unregister(s.within(), target.name()); err != nil && !isAny(err, mcpvisor.ErrUnknownServer) {
			s.recordViolation("unregister %s: %v", target.name(), err)
		}
		s.checkUnregistered(target)
	}
}

// registerAgain registers the server in one of three ways: with a long timeout, with a
// short one, or supervised.
func (s *storm) registerAgain(r *rand.Rand, target *target) {
	s.countFault("register")
	spec, register := target.spec, s.within()
	switch r.IntN(3) {
	case 0:
		spec.StartSupervised = true
	case 1:
		var cancel context.CancelFunc
		register, cancel = context.WithTimeout(register, time.Duration(r.IntN(150))*time.Millisecond)
		defer cancel()
	}
	err := s.c.Register(register, spec)
	if err == nil {
		s.subscribe(target)
		return
	}
	if !isAny(err, mcpvisor.ErrCanceled, mcpvisor.ErrStart, mcpvisor.ErrClosed) {
		s.recordViolation("register %s: %v", target.name(), err)
	}
	// A canceled registration may still be ending in the background.
	for gone := s.within(); gone.Err() == nil; pause(gone, pollInterval) {
		if _, registered := s.c.ServerStatus(target.name()); !registered {
			return
		}
	}
	s.recordViolation("%s failed to register and stayed registered: %v", target.name(), err)
}

// checkUnregistered records a violation if anything of an unregistered server is left.
func (s *storm) checkUnregistered(target *target) {
	if _, registered := s.c.ServerStatus(target.name()); registered {
		s.recordViolation("%s is registered after Unregister", target.name())
	}
	if listsTools(s.c, target.name()) {
		s.recordViolation("tools of %s are listed after Unregister", target.name())
	}
	for _, pid := range mcptest.PIDs(target.dir) {
		if target.spec.Stdio != nil && mcptest.Alive(pid) && marked(pid, s.mark) {
			s.recordViolation("process %d of %s is alive after Unregister", pid, target.name())
		}
	}
}

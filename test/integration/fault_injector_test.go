//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// injectFaults injects faults into all targets that get any, until ctx ends.
func (s *storm) injectFaults(ctx context.Context, r *rand.Rand) {
	var targets []chaos.Target
	for _, t := range s.targets {
		if !t.faultFree {
			targets = append(targets, chaos.Target{Server: t.name(), Faults: s.faultsOf(t), MaxPause: time.Second})
		}
	}
	s.injected = chaos.Inject(ctx, r.Uint64(), targets...)
}

// faultsOf returns the faults of a target: those of package chaos, and those of its kind.
func (s *storm) faultsOf(t *target) []chaos.Fault {
	faults := append(chaos.Faults(s.c, t.name()), chaos.Fault{Name: "crash", Inject: func(context.Context, *rand.Rand) (int, bool) {
		s.calls.call(context.Background(), s.c, t.name(), "crash", time.Second, facade.WithTimeout(time.Second))
		if t.web != nil {
			s.restartHTTP(t.web) // a crashed HTTP server stays down until it is restarted
		}
		return 0, true
	}})
	if t.bounded { // its attempts are counted, so nothing but the storm restarts it
		faults = slices.DeleteFunc(faults, func(f chaos.Fault) bool { return f.Name == chaos.FaultRestart })
		return append(faults, chaos.Fault{Name: "revive", Weight: 4, Inject: func(context.Context, *rand.Rand) (int, bool) { return 0, s.revive(t) }})
	}
	faults = append(faults, chaos.Fault{Name: "restart storm", Inject: func(_ context.Context, r *rand.Rand) (int, bool) {
		if r.IntN(4) > 0 {
			return 0, false
		}
		for range 20 {
			if err := s.c.Restart(s.within(), t.name()); err != nil && !t.churned && !t.synced {
				s.recordViolation("restart of %s: %v", t.name(), err)
				break
			}
		}
		return 0, true
	}})
	if t.web != nil {
		faults = append(faults, s.webFaults(t.web)...)
	}
	return faults
}

func (s *storm) webFaults(web *mcptest.HTTPServer) []chaos.Fault {
	return []chaos.Fault{
		{Name: "refuse", Weight: 2, Inject: func(_ context.Context, r *rand.Rand) (int, bool) {
			web.Refuse([]int{500, 502, 503, 429}[r.IntN(4)])
			return 0, true
		}},
		{Name: "web restart", Weight: 2, Inject: func(context.Context, *rand.Rand) (int, bool) {
			s.restartHTTP(web)
			return 0, true
		}},
		{Name: "web stop", Weight: 2, Inject: func(ctx context.Context, r *rand.Rand) (int, bool) {
			web.Stop()
			pause(ctx, time.Duration(r.IntN(60))*time.Millisecond)
			s.restartHTTP(web)
			return 0, true
		}},
	}
}

// revive restarts a server that was evicted, and reports whether it was. Before that nothing of
// it may be left.
func (s *storm) revive(t *target) bool {
	st, ok := s.c.ServerStatus(t.name())
	if !ok || st.State != supervisor.StateEvicted {
		return false
	}
	for _, pid := range mcptest.PIDs(t.dir) {
		if mcptest.Alive(pid) && marked(pid, s.mark) {
			s.recordViolation("process %d of %s is alive after the eviction", pid, t.name())
		}
	}
	if _, err := s.c.CallTool(s.within(), t.name()+"/echo", nil, facade.WithWaitReady()); !errors.Is(err, mcpvisor.ErrEvicted) {
		s.recordViolation("a call of the evicted %s: %v", t.name(), err)
	}
	if err := s.c.Restart(s.within(), t.name()); err != nil {
		s.recordViolation("restart of the evicted %s: %v", t.name(), err)
	}
	return true
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
	if texts, _ := s.list().of(target.name()); texts != [4]string{} {
		s.recordViolation("%s has lists after Unregister", target.name())
	}
	for _, pid := range mcptest.PIDs(target.dir) {
		if target.spec.Stdio != nil && mcptest.Alive(pid) && marked(pid, s.mark) {
			s.recordViolation("process %d of %s is alive after Unregister", pid, target.name())
		}
	}
}

// sync calls Apply again and again, with an equal or a changed spec of one server. A changed spec
// makes a new registration with the new lists, an equal one changes nothing, and the other
// servers are kept.
func (s *storm) sync(ctx context.Context, r *rand.Rand, target *target) {
	var keep []string
	for _, other := range s.targets {
		if other != target {
			keep = append(keep, other.name())
		}
	}
	known := false // the spec of the last Apply is registered
	for n := 0; ctx.Err() == nil; pause(ctx, time.Duration(r.IntN(400))*time.Millisecond) {
		equal := known && r.IntN(3) == 0
		if !equal {
			n++
		}
		before, _ := s.c.ServerStatus(target.name())
		s.countFault("sync")
		err := s.c.Apply(s.within(), []mcpvisor.ServerSpec{target.variant(s.fixture, n)}, keep...)
		if known = err == nil; !known {
			if !isAny(err, mcpvisor.ErrStart, mcpvisor.ErrClosed) { // a fault may hit the start
				s.recordViolation("sync of %s: %v", target.name(), err)
			}
			continue
		}
		switch after, _ := s.c.ServerStatus(target.name()); {
		case equal && after.Gen != before.Gen:
			s.recordViolation("sync with an equal spec has registered %s again", target.name())
		case !equal && after.Gen == before.Gen:
			s.recordViolation("sync with a changed spec has not registered %s again", target.name())
		}
		if lists := s.list()[target.name()]; lists != nil && !slices.Equal(lists.variants, []string{strconv.Itoa(n)}) {
			s.recordViolation("after the sync with variant %d, %s has the lists of variants %v", n, target.name(), lists.variants)
		}
	}
}

// crowdSize is how many calls crowd makes at once: more than the narrow target admits.
const crowdSize = 3 * (narrowInFlight + narrowQueued)

// crowd makes many calls of the narrow target at once, until ctx ends. No more are in flight and
// queued than its limits allow, and others are refused.
func (s *storm) crowd(ctx context.Context, r *rand.Rand, target *target) {
	for ctx.Err() == nil {
		var calls sync.WaitGroup
		done := make(chan struct{})
		for range crowdSize {
			limit, cancels := time.Duration(50+r.IntN(300))*time.Millisecond, r.IntN(3) == 0
			calls.Go(func() {
				calling, cancel := context.WithCancel(context.Background())
				defer cancel()
				if cancels {
					defer time.AfterFunc(limit/5, cancel).Stop()
				}
				s.calls.call(calling, s.c, target.name(), "sleep", limit, facade.WithTimeout(limit))
			})
		}
		go func() {
			calls.Wait()
			close(done)
		}()
		for over, exceeded := false, 0; !over; {
			// A call that is about to be refused counts as queued, too.
			if text := s.exceeds(target); text == "" {
				exceeded = 0
			} else if exceeded++; exceeded == 10 {
				s.recordViolation("%s", text)
			}
			select {
			case <-done:
				over = true
			case <-time.After(pollInterval):
			}
		}
		pause(ctx, time.Duration(r.IntN(50))*time.Millisecond)
	}
}

// exceeds says how the calls in flight and queued exceed the limits; empty if they do not. It
// looks at an incarnation that has been ready for a while: by then those of the last one have
// returned.
func (s *storm) exceeds(target *target) string {
	st, ok := s.c.ServerStatus(target.name())
	if !ok || st.State != supervisor.StateReady || time.Since(st.Since) < 300*time.Millisecond ||
		st.Calls.InFlight <= narrowInFlight && st.Calls.Queued <= narrowQueued {
		return ""
	}
	return fmt.Sprintf("%s has %d calls in flight and %d queued; its limits are %d and %d", target.name(),
		st.Calls.InFlight, st.Calls.Queued, narrowInFlight, narrowQueued)
}

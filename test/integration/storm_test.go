//go:build linux

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// storms is the number of storms without -chaos.seed.
const storms = 2

func TestStorm(t *testing.T) {
	seeds := []uint64{*chaosSeed}
	if *chaosSeed == 0 {
		seeds = nil
		for range storms {
			seeds = append(seeds, rand.Uint64N(1<<32)+1)
		}
	}
	duration := *chaosDuration
	if testing.Short() {
		seeds, duration = seeds[:1], min(duration, time.Second)
	}
	if duration > longStorm {
		seeds = seeds[:1]
	}
	for i, seed := range seeds {
		t.Run(fmt.Sprintf("%d", i+1), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("seed %d; repeat with: go test -race ./test/integration -run 'TestStorm$' -chaos.seed=%d -chaos.duration=%v",
						seed, seed, duration)
				}
			})
			newStorm(t, seed).run(t, duration)
		})
	}
}

// A storm longer than longStorm runs once. roundLength bounds one round; after each
// round everything is checked and the records are dropped, so that a storm can last for
// hours.
const (
	longStorm   = time.Minute
	roundLength = 15 * time.Second
)

// storm is one client whose servers get faults. The seed decides which faults; the
// scheduler decides when they take effect.
type storm struct {
	*fixture // of the current round
	c        *facade.Client
	events   *history
	calls    *callLog
	targets  []*target
	seed     uint64
	report   report

	mu         sync.Mutex
	violations []string // found during the round
	faults     map[string]int
	kills      []kill
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{seed: seed, report: report{faults: map[string]int{}, outcomes: map[string]int{}}}
	s.c, s.events = newFixture(t).client(answeringHandlers()...)
	return s
}

// random returns the random source of one goroutine.
func (s *storm) random(who uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, who)) }

// recordKill records a kill -9 that is about to be sent.
func (s *storm) recordKill(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills = append(s.kills, kill{pid, time.Now()})
}

// recordViolation records a violation; it fails the test at the end of the round.
func (s *storm) recordViolation(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

// countFault counts an injected fault for the report.
func (s *storm) countFault(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[what]++
}

// run runs rounds on one client until the duration is over, then prints the report.
func (s *storm) run(t *testing.T, duration time.Duration) {
	began := time.Now()
	for n := uint64(0); ; n++ {
		left := duration - time.Since(began)
		if left <= 0 {
			break
		}
		if !t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) { s.round(t, n, min(left, roundLength)) }) {
			break
		}
		s.calls, s.targets, s.violations = nil, nil, nil // the records of the test must not count as growth
		s.report.samples = append(s.report.samples, takeSample())
	}
	t.Logf("seed %d: %v", s.seed, &s.report)
	s.report.requireNoGrowth(t)
}

// round runs one round: it registers the servers, injects faults, repairs, waits until
// the registry is consistent, unregisters the servers, and checks the invariants.
func (s *storm) round(t *testing.T, number uint64, duration time.Duration) {
	s.fixture = newFixture(t)
	s.calls, s.faults, s.kills, s.violations = newCallLog(), map[string]int{}, nil, nil
	s.targets = targets(s.fixture)
	for _, target := range s.targets {
		require.NoError(t, s.c.Register(s.within(), target.spec), target.name())
		s.subscribe(target)
	}
	s.awaitConsistent()

	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	var all sync.WaitGroup
	who := number * 100
	run := func(f func(context.Context, *rand.Rand)) {
		who++
		r := s.random(who)
		all.Go(func() { f(ctx, r) })
	}
	for range callers {
		run(s.callFaulty)
	}
	run(s.callFaultFree)
	run(s.injectFaults)
	run(s.checkListing)
	for _, target := range s.targets {
		if target.churned {
			run(func(ctx context.Context, r *rand.Rand) { s.churn(ctx, r, target) })
		}
	}
	all.Wait()

	s.repair()
	s.requireNotifications()
	s.awaitConsistent()
	for _, target := range s.targets {
		require.NoError(t, s.c.Unregister(s.within(), target.name()))
	}
	s.requireNoProcess()
	records, open := s.calls.all()
	ev := evidence{events: s.events.drain(s.within(), t), records: records, open: open,
		executions: map[string]int{}, processes: map[string]bool{}, inMemory: map[string]bool{},
		overHTTP: map[string]bool{}, faultFree: map[string]bool{}}
	for _, target := range s.targets {
		target.addEvidence(&ev)
	}
	s.report.add(ev, s.kills, s.faults)
	wrong := append(s.violations, violations(ev)...)
	if len(wrong) > 20 {
		wrong = append(wrong[:20], fmt.Sprintf("and %d more", len(wrong)-20))
	}
	for _, text := range wrong {
		t.Error(text)
	}
}

// countErrors counts the errors by kind.
func countErrors(records []*record) map[string]int {
	counts := map[string]int{}
	for _, r := range records {
		if e := r.failure(); e != nil {
			counts[string(e.Kind)+" "+string(e.Outcome)]++
		}
	}
	return counts
}

// repair ends the faults that would persist.
func (s *storm) repair() {
	for _, pid := range processes(s.mark) {
		signalMarked(pid, s.mark, syscall.SIGCONT)
	}
	for _, target := range s.targets {
		if target.web != nil {
			s.restartHTTP(target.web)
		}
		if _, registered := s.c.ServerStatus(target.name()); !registered {
			require.NoError(s.t, s.c.Register(s.within(), target.spec), target.name())
		}
	}
}

// awaitConsistent waits until the registry shows every server with its whole catalog,
// and exactly the processes that run.
func (s *storm) awaitConsistent() {
	var why string
	consistent := func() bool {
		why = s.inconsistency()
		return why == ""
	}
	ctx := s.within()
	for !consistent() {
		if ctx.Err() != nil {
			require.Fail(s.t, "the registry does not match the live sessions", why)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// inconsistency returns how the registry differs from the live sessions; empty if it
// does not.
func (s *storm) inconsistency() string {
	for _, target := range s.targets {
		if err := s.c.WaitReady(s.within(), target.name()); err != nil {
			return err.Error()
		}
	}
	listed := map[string]int{}
	for _, tool := range s.c.Tools() {
		listed[tool.Server]++
	}
	var shown []int
	for _, st := range s.c.Status() {
		i := slices.IndexFunc(s.targets, func(t *target) bool { return t.name() == st.Name })
		switch {
		case i < 0:
			return st.Name + " is registered, but not by the test"
		case st.State != supervisor.StateReady:
			return fmt.Sprintf("%s is %s", st.Name, st.State)
		case listed[st.Name] != s.targets[i].tools:
			return fmt.Sprintf("%s shows %d of %d tools", st.Name, listed[st.Name], s.targets[i].tools)
		case st.Session.PID != 0:
			shown = append(shown, st.Session.PID)
		}
	}
	slices.Sort(shown)
	alive, families := processes(s.mark), 0
	for _, target := range s.targets {
		families += target.grandchildren
	}
	if len(alive) != len(shown)+families {
		return fmt.Sprintf("processes %v are alive; the status shows %v, which have %d children", alive, shown, families)
	}
	for _, pid := range shown {
		if !slices.Contains(alive, pid) {
			return fmt.Sprintf("process %d is in the status but dead", pid)
		}
	}
	return ""
}

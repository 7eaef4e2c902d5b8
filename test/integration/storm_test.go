//go:build linux

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// storms is the number of storms with -everything and without -chaos.seed.
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
		duration = min(duration, time.Second)
	}
	if duration > longStorm || testing.Short() || !*everything {
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

	// endRound ends the faults and calls of the current round.
	endRound context.CancelFunc

	mu         sync.Mutex
	violations int // found during the round
	faults     map[string]int
	injected   []chaos.Injection // set when the faults are over
	// starts is the number that the lists of an incarnation carry, lastStart the highest of a
	// server. See recordStart.
	starts    map[incarnationKey]int
	lastStart map[string]int
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{seed: seed, report: report{faults: map[string]int{}, outcomes: map[string]int{}}}
	s.c, s.events = newFixture(t).client(answeringHandlers()...)
	return s
}

// within returns a context that ends after -chaos.wait.
func (s *storm) within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), *chaosWait)
	s.t.Cleanup(cancel)
	return ctx
}

// random returns the random source of one goroutine.
func (s *storm) random(who uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, who)) }

// maxViolations is how many violations of one round are printed.
const maxViolations = 20

// recordViolation fails the test and ends the round: what comes after a violation may wait for
// what never ends.
func (s *storm) recordViolation(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.violations++; s.violations <= maxViolations {
		s.t.Errorf(format, args...)
	}
	s.endRound()
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
		s.calls, s.targets = nil, nil // the records of the test must not count as growth
		s.report.samples = append(s.report.samples, takeSample())
	}
	t.Logf("seed %d: %v", s.seed, &s.report)
	s.report.requireNoGrowth(t)
}

// round runs one round: it registers the servers, injects faults, repairs, waits until
// the registry is consistent, unregisters the servers, and checks the invariants.
func (s *storm) round(t *testing.T, number uint64, duration time.Duration) {
	s.fixture = newFixture(t)
	s.calls, s.faults, s.injected, s.violations = newCallLog(), map[string]int{}, nil, 0
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.endRound = cancel
	s.starts, s.lastStart = map[incarnationKey]int{}, map[string]int{}
	s.targets = targets(s.fixture)
	for _, target := range s.targets {
		require.NoError(t, s.c.Register(s.within(), target.spec), target.name())
		s.subscribe(target)
	}
	s.awaitStarted()

	defer time.AfterFunc(duration, cancel).Stop()
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
		switch {
		case target.churned:
			run(func(ctx context.Context, r *rand.Rand) { s.churn(ctx, r, target) })
		case target.synced:
			run(func(ctx context.Context, r *rand.Rand) { s.sync(ctx, r, target) })
		case target.narrow:
			run(func(ctx context.Context, r *rand.Rand) { s.crowd(ctx, r, target) })
		case target.abandoned:
			for _, tool := range []string{"sleep", "echo"} {
				run(func(ctx context.Context, r *rand.Rand) { s.abandon(ctx, r, target, tool) })
			}
		}
	}
	all.Wait()

	s.repair()
	s.awaitConsistent()
	s.requireNotifications()
	s.awaitConsistent()
	s.requireIdle()
	for _, target := range s.targets {
		require.NoError(t, s.c.Unregister(s.within(), target.name()))
	}
	s.requireNoProcess()
	records, open := s.calls.all()
	ev := evidence{events: s.events.drain(s.within(), t), records: records, open: open,
		executions: map[string]int{}, processes: map[string]bool{}, inMemory: map[string]bool{},
		overHTTP: map[string]bool{}, faultFree: map[string]bool{}, synced: map[string]bool{}, narrow: map[string]bool{},
		bounded: map[string]supervisor.Policy{}, starts: s.starts}
	for _, target := range s.targets {
		target.addEvidence(&ev)
	}
	s.report.add(ev, s.injected, s.faults)
	for _, text := range violations(ev) {
		s.recordViolation("%s", text)
	}
	if more := s.violations - maxViolations; more > 0 {
		t.Errorf("and %d more", more)
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

// awaitStarted waits until every server is ready, and takes what they list as what they must
// list from then on.
func (s *storm) awaitStarted() {
	for _, target := range s.targets {
		require.NoError(s.t, s.c.WaitReady(s.within(), target.name()))
	}
	lists := s.list()
	for _, target := range s.targets {
		target.lists, _ = lists.of(target.name())
		for i, text := range target.lists {
			require.NotEmpty(s.t, text, "%s lists no %s", target.name(), listNames[i])
		}
		if target.web == nil {
			require.Equal(s.t, len(mcptest.DefaultTools()), strings.Count(target.lists[0], "\n"), "%s does not list all tools", target.name())
		}
	}
	s.awaitConsistent()
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
		err := s.c.WaitReady(s.within(), target.name())
		if target.bounded && isAny(err, mcpvisor.ErrEvicted) {
			err = s.c.Restart(s.within(), target.name())
		}
		if err != nil {
			return err.Error()
		}
	}
	lists := s.list()
	var shown []int
	for _, st := range s.c.Status() {
		i := slices.IndexFunc(s.targets, func(t *target) bool { return t.name() == st.Name })
		if i < 0 {
			return st.Name + " is registered, but not by the test"
		}
		texts, starts := lists.of(st.Name)
		switch {
		case st.State != supervisor.StateReady:
			return fmt.Sprintf("%s is %s", st.Name, st.State)
		case texts != s.targets[i].lists:
			return fmt.Sprintf("%s lists %q instead of %q", st.Name, texts, s.targets[i].lists)
		case s.targets[i].marked && len(starts) != 1:
			return fmt.Sprintf("%s has the lists of the incarnations %v", st.Name, starts)
		case st.WantsStandby && st.Standby == nil:
			return st.Name + " has no standby"
		case st.Session.PID != 0:
			shown = append(shown, st.Session.PID)
		}
		if st.Standby != nil {
			shown = append(shown, st.Standby.PID)
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

// requireIdle requires that no call is in flight or queued when all callers have returned.
func (s *storm) requireIdle() {
	for _, target := range s.targets {
		waitUntil(s.within(), s.t, target.name()+" has no call in flight", func() bool {
			st, ok := s.c.ServerStatus(target.name())
			return ok && st.Calls.InFlight == 0 && st.Calls.Queued == 0
		})
	}
}

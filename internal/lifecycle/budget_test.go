package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A start that never succeeds is tried MaxAttempts times after the first, with delays
// that double exactly. Then the server is evicted.
func TestFailingStartSpendsTheBudgetAndIsEvicted(t *testing.T) {
	s := newScript(t, supervisor.Retry(3, 500*time.Millisecond), true).on(lifecycle.InputRegister)
	for attempt, delay := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		s.on(lifecycle.InputFailed).in(supervisor.StateClosing)
		s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: s.Epoch()}, lifecycle.EffectArmRetry).in(supervisor.StateBackoff)
		require.Equal(t, delay, s.armed.Delay)
		require.Equal(t, s.now.Add(delay), s.RetryAt())
		require.Equal(t, attempt+1, s.Attempt())
		s.fire().in(supervisor.StateConnecting)
		require.Equal(t, uint64(attempt+2), s.Epoch())
		require.Equal(t, attempt+1, s.Restarts())
		require.Zero(t, s.RetryAt())
	}
	s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 4, Cause: exitCause()})
	s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 4}, lifecycle.EffectAnnounceGone).in(supervisor.StateEvicted)
	require.Equal(t, exitCause(), s.find(lifecycle.EffectAnnounceGone).Cause)
	require.Equal(t, exitCause(), s.Cause())
	require.Zero(t, s.RetryAt())
}

// A server that becomes ready and dies at once each time spends its budget like one that
// never becomes ready.
func TestReadyButUnstableIsEvicted(t *testing.T) {
	s := newScript(t, supervisor.Retry(3, time.Second, supervisor.WithStableAfter(10*time.Second)), true).on(lifecycle.InputRegister)
	for range 3 {
		s.start().in(supervisor.StateReady)
		s.now = s.now.Add(10*time.Second - 1)
		s.crash().in(supervisor.StateBackoff).fire().in(supervisor.StateConnecting)
	}
	s.start().in(supervisor.StateReady).crash().in(supervisor.StateEvicted)
	require.Equal(t, uint64(4), s.Epoch())
}

func TestStableSessionResetsTheBudget(t *testing.T) {
	s := newScript(t, supervisor.Retry(2, time.Second, supervisor.WithStableAfter(7*time.Second)), true).on(lifecycle.InputRegister).start()
	for range 5 { // more than the budget, and yet never evicted
		s.crash().in(supervisor.StateBackoff)
		require.Equal(t, time.Second, s.armed.Delay, "the delays start from the first")
		s.fire().start().in(supervisor.StateReady)
		require.Equal(t, 7*time.Second, s.armed.Delay)
		require.Equal(t, 1, s.Attempt(), "ready alone does not reset the budget")
		s.fire().in(supervisor.StateReady)
		require.Equal(t, []lifecycle.EffectKind{lifecycle.EffectResetBudget}, kinds(s.last))
		require.Zero(t, s.Attempt())
	}
}

func TestStableAfterHasADefault(t *testing.T) {
	s := newScript(t, supervisor.Retry(2, time.Second), true).on(lifecycle.InputRegister).start()
	require.Equal(t, defaults.StableAfter, s.find(lifecycle.EffectArmStable).Delay)
}

func TestNoRetryEvictsAtTheFirstEnd(t *testing.T) {
	s := newScript(t, supervisor.NoRetry(), true).on(lifecycle.InputRegister).start().fire()
	s.crash().in(supervisor.StateEvicted)
	require.Equal(t, uint64(1), s.Epoch())
	require.Equal(t, exitCause(), s.find(lifecycle.EffectAnnounceGone).Cause)
}

func TestUnlimitedNeverEvicts(t *testing.T) {
	s := newScript(t, supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithMaxDelay(time.Minute)), true).on(lifecycle.InputRegister)
	for range 1000 {
		s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff).fire().in(supervisor.StateConnecting)
	}
	require.Equal(t, time.Minute, s.armed.Delay)
	require.Equal(t, 1000, s.Attempt())
}

func TestPermanentCauseSpendsNoRetry(t *testing.T) {
	for _, p := range []supervisor.Policy{supervisor.Retry(9, time.Second), supervisor.Retry(supervisor.Unlimited, time.Second), supervisor.Retry(9, time.Second, supervisor.WithParking(time.Minute))} {
		s := newScript(t, p, true).on(lifecycle.InputRegister).start()
		s.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: 1, Cause: permanentCause()})
		s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 1}, lifecycle.EffectAnnounceGone).in(supervisor.StateEvicted)
		require.Zero(t, s.Attempt())
		require.Equal(t, permanentCause(), s.find(lifecycle.EffectAnnounceGone).Cause)
	}
}

// A permanent cause is about the session that it ended, not about later ones.
func TestPermanentCauseIsForgottenByTheNextSession(t *testing.T) {
	s := newScript(t, supervisor.Retry(1, time.Second), true).on(lifecycle.InputRegister)
	s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1, Cause: permanentCause()})
	s.on(lifecycle.InputReleased).in(supervisor.StateEvicted).on(lifecycle.InputRestart).in(supervisor.StateConnecting)
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff)
}

func TestFailedFirstStartUnsupervisedStops(t *testing.T) {
	for _, p := range []supervisor.Policy{supervisor.NoRetry(), supervisor.Retry(3, time.Second), supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithParking(time.Hour))} {
		s := newScript(t, p, false).on(lifecycle.InputRegister)
		s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1, Cause: exitCause()})
		s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 1}, lifecycle.EffectAnnounceGone).in(supervisor.StateStopped)
		require.Equal(t, exitCause(), s.find(lifecycle.EffectAnnounceGone).Cause, "the caller of Register receives the cause")
	}
	// Once it was ready, the policy rules.
	newScript(t, supervisor.Retry(3, time.Second), false).on(lifecycle.InputRegister).start().crash().in(supervisor.StateBackoff)
}

// Each delay takes a new number from the injected random source.
func TestDelaysUseTheInjectedRandom(t *testing.T) {
	draws := []float64{0, 0.75}
	l := lifecycle.NewLifecycle(supervisor.Retry(2, time.Second, supervisor.WithJitter(0.5)), true, func() float64 {
		r := draws[0]
		draws = draws[1:]
		return r
	})
	var got []time.Duration
	ev := lifecycle.Input{Kind: lifecycle.InputRegister}
	for range 2 {
		l.Step(epochStart, ev)
		l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: l.Epoch()})
		effects := l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: l.Epoch()})
		require.Equal(t, []lifecycle.EffectKind{lifecycle.EffectArmRetry}, kinds(effects))
		got = append(got, effects[0].Delay)
		ev = lifecycle.Input{Kind: lifecycle.InputTimer, Token: effects[0].Token}
	}
	require.Equal(t, []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond}, got)
}

func TestRandomHasADefault(t *testing.T) {
	p := supervisor.Retry(2, time.Second, supervisor.WithJitter(0.5))
	l := lifecycle.NewLifecycle(p, true, nil)
	require.Equal(t, p, l.Policy())
	l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputRegister})
	l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1})
	effects := l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 1})
	require.Equal(t, []lifecycle.EffectKind{lifecycle.EffectArmRetry}, kinds(effects))
	d := effects[0].Delay
	require.GreaterOrEqual(t, d, 500*time.Millisecond)
	require.LessOrEqual(t, d, 1500*time.Millisecond)
}

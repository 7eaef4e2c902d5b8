package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/mcpvisor/mcpvisor/supervisor"
)

// A start that never succeeds is tried MaxAttempts times after the first, at
// exactly doubling distances, and is then given up.
func TestFailingStartSpendsTheBudgetAndIsEvicted(t *testing.T) {
	s := newScript(t, Retry(3, 500*time.Millisecond), true).on(InputRegister)
	for attempt, delay := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		s.on(InputFailed).in(StateClosing)
		s.does(Input{Kind: InputReleased, Epoch: s.Epoch()}, EffectArmRetry).in(StateBackoff)
		require.Equal(t, delay, s.armed.Delay)
		require.Equal(t, s.now.Add(delay), s.RetryAt())
		require.Equal(t, attempt+1, s.Attempt())
		s.fire().in(StateConnecting)
		require.Equal(t, uint64(attempt+2), s.Epoch())
		require.Equal(t, attempt+1, s.Restarts())
		require.Zero(t, s.RetryAt())
	}
	s.step(Input{Kind: InputFailed, Epoch: 4, Cause: crashed()})
	s.does(Input{Kind: InputReleased, Epoch: 4}, EffectAnnounceGone).in(StateEvicted)
	require.Equal(t, crashed(), s.find(EffectAnnounceGone).Cause)
	require.Equal(t, crashed(), s.Cause())
	require.Zero(t, s.RetryAt())
}

// Becoming ready is no proof. A server that comes up and dies at once each
// time spends its budget like one that never comes up.
func TestReadyAndDeadAtOnceIsEvicted(t *testing.T) {
	s := newScript(t, Retry(3, time.Second, WithStableAfter(10*time.Second)), true).on(InputRegister)
	for range 3 {
		s.start().in(StateReady)
		s.now = s.now.Add(10*time.Second - 1)
		s.crash().in(StateBackoff).fire().in(StateConnecting)
	}
	s.start().in(StateReady).crash().in(StateEvicted)
	require.Equal(t, uint64(4), s.Epoch())
}

func TestStableSessionGetsTheBudgetBack(t *testing.T) {
	s := newScript(t, Retry(2, time.Second, WithStableAfter(7*time.Second)), true).on(InputRegister).start()
	for range 5 { // more than the budget, and yet never evicted
		s.crash().in(StateBackoff)
		require.Equal(t, time.Second, s.armed.Delay, "the delays begin anew")
		s.fire().start().in(StateReady)
		require.Equal(t, 7*time.Second, s.armed.Delay)
		require.Equal(t, 1, s.Attempt(), "ready alone gives nothing back")
		s.fire().in(StateReady)
		require.Equal(t, []EffectKind{EffectResetBudget}, kinds(s.last))
		require.Zero(t, s.Attempt())
	}
}

func TestStableAfterHasADefault(t *testing.T) {
	s := newScript(t, Retry(2, time.Second), true).on(InputRegister).start()
	require.Equal(t, DefaultStableAfter, s.find(EffectArmStable).Delay)
}

func TestNoRetryEvictsAtTheFirstEnd(t *testing.T) {
	s := newScript(t, NoRetry, true).on(InputRegister).start().fire()
	s.crash().in(StateEvicted)
	require.Equal(t, uint64(1), s.Epoch())
	require.Equal(t, crashed(), s.find(EffectAnnounceGone).Cause)
}

func TestUnlimitedNeverEvicts(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithMaxDelay(time.Minute)), true).on(InputRegister)
	for range 1000 {
		s.on(InputFailed).on(InputReleased).in(StateBackoff).fire().in(StateConnecting)
	}
	require.Equal(t, time.Minute, s.armed.Delay)
	require.Equal(t, 1000, s.Attempt())
}

func TestPermanentCauseSpendsNoRetry(t *testing.T) {
	for _, p := range []Policy{Retry(9, time.Second), Retry(Unlimited, time.Second), Retry(9, time.Second, WithParking(time.Minute))} {
		s := newScript(t, p, true).on(InputRegister).start()
		s.step(Input{Kind: InputDied, Epoch: 1, Cause: hopeless()})
		s.does(Input{Kind: InputReleased, Epoch: 1}, EffectAnnounceGone).in(StateEvicted)
		require.Zero(t, s.Attempt())
		require.Equal(t, hopeless(), s.find(EffectAnnounceGone).Cause)
	}
}

// A permanent cause speaks of the session that it ended, not of later ones.
func TestPermanentCauseIsForgottenByTheNextSession(t *testing.T) {
	s := newScript(t, Retry(1, time.Second), true).on(InputRegister)
	s.step(Input{Kind: InputFailed, Epoch: 1, Cause: hopeless()})
	s.on(InputReleased).in(StateEvicted).on(InputRestart).in(StateConnecting)
	s.on(InputFailed).on(InputReleased).in(StateBackoff)
}

func TestFirstStartThatFailsUnsupervisedLeavesNothing(t *testing.T) {
	for _, p := range []Policy{NoRetry, Retry(3, time.Second), Retry(Unlimited, time.Second, WithParking(time.Hour))} {
		s := newScript(t, p, false).on(InputRegister)
		s.step(Input{Kind: InputFailed, Epoch: 1, Cause: crashed()})
		s.does(Input{Kind: InputReleased, Epoch: 1}, EffectAnnounceGone).in(StateStopped)
		require.Equal(t, crashed(), s.find(EffectAnnounceGone).Cause, "the caller of Register is told why")
	}
	// Once it was ready, the policy rules.
	newScript(t, Retry(3, time.Second), false).on(InputRegister).start().crash().in(StateBackoff)
}

// Jitter is drawn anew from the injected random for each delay.
func TestDelaysAreSpreadByTheInjectedRandom(t *testing.T) {
	draws := []float64{0, 0.75}
	l := NewLifecycle(Retry(2, time.Second, WithJitter(0.5)), true, func() float64 {
		r := draws[0]
		draws = draws[1:]
		return r
	})
	var got []time.Duration
	ev := Input{Kind: InputRegister}
	for range 2 {
		l.Step(epochStart, ev)
		l.Step(epochStart, Input{Kind: InputFailed, Epoch: l.Epoch()})
		effects := l.Step(epochStart, Input{Kind: InputReleased, Epoch: l.Epoch()})
		require.Equal(t, []EffectKind{EffectArmRetry}, kinds(effects))
		got = append(got, effects[0].Delay)
		ev = Input{Kind: InputTimer, Token: effects[0].Token}
	}
	require.Equal(t, []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond}, got)
}

func TestRandomHasADefault(t *testing.T) {
	p := Retry(2, time.Second, WithJitter(0.5))
	l := NewLifecycle(p, true, nil)
	require.Equal(t, p, l.Policy())
	l.Step(epochStart, Input{Kind: InputRegister})
	l.Step(epochStart, Input{Kind: InputFailed, Epoch: 1})
	effects := l.Step(epochStart, Input{Kind: InputReleased, Epoch: 1})
	require.Equal(t, []EffectKind{EffectArmRetry}, kinds(effects))
	d := effects[0].Delay
	require.GreaterOrEqual(t, d, 500*time.Millisecond)
	require.LessOrEqual(t, d, 1500*time.Millisecond)
}

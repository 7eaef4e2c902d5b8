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
	s := newScript(t, Retry(3, 500*time.Millisecond), true).on(EvRegister)
	for attempt, delay := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		s.on(EvFailed).in(Closing)
		s.does(Event{Kind: EvReleased, Epoch: s.Epoch()}, DoArmRetry).in(Backoff)
		require.Equal(t, delay, s.armed.Delay)
		require.Equal(t, s.now.Add(delay), s.RetryAt())
		require.Equal(t, attempt+1, s.Attempt())
		s.fire().in(Connecting)
		require.Equal(t, uint64(attempt+2), s.Epoch())
		require.Equal(t, attempt+1, s.Restarts())
		require.Zero(t, s.RetryAt())
	}
	s.step(Event{Kind: EvFailed, Epoch: 4, Cause: crashed()})
	s.does(Event{Kind: EvReleased, Epoch: 4}, DoGone).in(Evicted)
	require.Equal(t, crashed(), s.find(DoGone).Cause)
	require.Equal(t, crashed(), s.Cause())
	require.Zero(t, s.RetryAt())
}

// Becoming ready is no proof. A server that comes up and dies at once each
// time spends its budget like one that never comes up.
func TestReadyAndDeadAtOnceIsEvicted(t *testing.T) {
	s := newScript(t, Retry(3, time.Second, StableAfter(10*time.Second)), true).on(EvRegister)
	for range 3 {
		s.start().in(Ready)
		s.now = s.now.Add(10*time.Second - 1)
		s.crash().in(Backoff).fire().in(Connecting)
	}
	s.start().in(Ready).crash().in(Evicted)
	require.Equal(t, uint64(4), s.Epoch())
}

func TestStableSessionGetsTheBudgetBack(t *testing.T) {
	s := newScript(t, Retry(2, time.Second, StableAfter(7*time.Second)), true).on(EvRegister).start()
	for range 5 { // more than the budget, and yet never evicted
		s.crash().in(Backoff)
		require.Equal(t, time.Second, s.armed.Delay, "the delays begin anew")
		s.fire().start().in(Ready)
		require.Equal(t, 7*time.Second, s.armed.Delay)
		require.Equal(t, 1, s.Attempt(), "ready alone gives nothing back")
		s.fire().in(Ready)
		require.Equal(t, []EffectKind{DoResetBudget}, kinds(s.last))
		require.Zero(t, s.Attempt())
	}
}

func TestStableAfterHasADefault(t *testing.T) {
	s := newScript(t, Retry(2, time.Second), true).on(EvRegister).start()
	require.Equal(t, DefaultStableAfter, s.find(DoArmStable).Delay)
}

func TestNoRetryEvictsAtTheFirstEnd(t *testing.T) {
	s := newScript(t, NoRetry, true).on(EvRegister).start().fire()
	s.crash().in(Evicted)
	require.Equal(t, uint64(1), s.Epoch())
	require.Equal(t, crashed(), s.find(DoGone).Cause)
}

func TestUnlimitedNeverEvicts(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, MaxDelay(time.Minute)), true).on(EvRegister)
	for range 1000 {
		s.on(EvFailed).on(EvReleased).in(Backoff).fire().in(Connecting)
	}
	require.Equal(t, time.Minute, s.armed.Delay)
	require.Equal(t, 1000, s.Attempt())
}

func TestPermanentCauseSpendsNoRetry(t *testing.T) {
	for _, p := range []Policy{Retry(9, time.Second), Retry(Unlimited, time.Second), Retry(9, time.Second, Park(time.Minute))} {
		s := newScript(t, p, true).on(EvRegister).start()
		s.step(Event{Kind: EvDied, Epoch: 1, Cause: hopeless()})
		s.does(Event{Kind: EvReleased, Epoch: 1}, DoGone).in(Evicted)
		require.Zero(t, s.Attempt())
		require.Equal(t, hopeless(), s.find(DoGone).Cause)
	}
}

// A permanent cause speaks of the session that it ended, not of later ones.
func TestPermanentCauseIsForgottenByTheNextSession(t *testing.T) {
	s := newScript(t, Retry(1, time.Second), true).on(EvRegister)
	s.step(Event{Kind: EvFailed, Epoch: 1, Cause: hopeless()})
	s.on(EvReleased).in(Evicted).on(EvRestart).in(Connecting)
	s.on(EvFailed).on(EvReleased).in(Backoff)
}

func TestFirstStartThatFailsUnsupervisedLeavesNothing(t *testing.T) {
	for _, p := range []Policy{NoRetry, Retry(3, time.Second), Retry(Unlimited, time.Second, Park(time.Hour))} {
		s := newScript(t, p, false).on(EvRegister)
		s.step(Event{Kind: EvFailed, Epoch: 1, Cause: crashed()})
		s.does(Event{Kind: EvReleased, Epoch: 1}, DoGone).in(Stopped)
		require.Equal(t, crashed(), s.find(DoGone).Cause, "the caller of Register is told why")
	}
	// Once it was ready, the policy rules.
	newScript(t, Retry(3, time.Second), false).on(EvRegister).start().crash().in(Backoff)
}

// Jitter is drawn anew from the injected random for each delay.
func TestDelaysAreSpreadByTheInjectedRandom(t *testing.T) {
	draws := []float64{0, 0.75}
	l := NewLifecycle(Retry(2, time.Second, Jitter(0.5)), true, func() float64 {
		r := draws[0]
		draws = draws[1:]
		return r
	})
	var got []time.Duration
	ev := Event{Kind: EvRegister}
	for range 2 {
		l.Step(epochStart, ev)
		l.Step(epochStart, Event{Kind: EvFailed, Epoch: l.Epoch()})
		effects := l.Step(epochStart, Event{Kind: EvReleased, Epoch: l.Epoch()})
		require.Equal(t, []EffectKind{DoArmRetry}, kinds(effects))
		got = append(got, effects[0].Delay)
		ev = Event{Kind: EvTimer, Token: effects[0].Token}
	}
	require.Equal(t, []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond}, got)
}

func TestRandomHasADefault(t *testing.T) {
	p := Retry(2, time.Second, Jitter(0.5))
	l := NewLifecycle(p, true, nil)
	require.Equal(t, p, l.Policy())
	l.Step(epochStart, Event{Kind: EvRegister})
	l.Step(epochStart, Event{Kind: EvFailed, Epoch: 1})
	effects := l.Step(epochStart, Event{Kind: EvReleased, Epoch: 1})
	require.Equal(t, []EffectKind{DoArmRetry}, kinds(effects))
	d := effects[0].Delay
	require.GreaterOrEqual(t, d, 500*time.Millisecond)
	require.LessOrEqual(t, d, 1500*time.Millisecond)
}

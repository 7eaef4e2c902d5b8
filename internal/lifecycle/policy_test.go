package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestStableAfterHasADefault(t *testing.T) {
	s := newScript(t, supervisor.Retry(2, time.Second), true).on(lifecycle.InputRegister).start()
	require.Equal(t, defaults.StableAfter, s.find(lifecycle.EffectArmStable).Delay)
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
	l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputRegister})
	l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1})
	effects := l.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 1})
	require.Equal(t, []lifecycle.EffectKind{lifecycle.EffectArmRetry}, kinds(effects))
	d := effects[0].Delay
	require.GreaterOrEqual(t, d, 500*time.Millisecond)
	require.LessOrEqual(t, d, 1500*time.Millisecond)
}

func TestIntensityBindsUnlimitedRetries(t *testing.T) {
	s := newScript(t, supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithIntensity(3, time.Hour)), true).on(lifecycle.InputRegister)
	for range 3 {
		s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff).fire()
	}
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateEvicted)
}

// A server parked by intensity alone has attempts left, and uses them when
// the window has passed.
func TestParkedByIntensityReturnsToItsBudget(t *testing.T) {
	s := newScript(t, supervisor.Retry(5, time.Second, supervisor.WithParking(time.Hour), supervisor.WithIntensity(1, time.Minute)), true).on(lifecycle.InputRegister)
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff).fire()
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateParked).fire()
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff)
	require.Equal(t, 2, s.Attempt())
}

// A cause that comes with a request appears in all effects.
func TestRequestsCarryTheirCause(t *testing.T) {
	why := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "configuration changed"}
	for _, kind := range []lifecycle.InputKind{lifecycle.InputStop, lifecycle.InputRestart} {
		s := reach(t, supervisor.StateReady)
		s.step(lifecycle.Input{Kind: kind, Cause: why})
		require.Same(t, why, s.find(lifecycle.EffectEndSession).Cause)
		require.Same(t, why, s.Cause())
	}
	for _, state := range []supervisor.State{lifecycle.StateNew, supervisor.StateReady, supervisor.StateClosing, supervisor.StateBackoff, supervisor.StateParked, supervisor.StateEvicted} {
		s := reach(t, state)
		s.step(lifecycle.Input{Kind: lifecycle.InputStop, Cause: why})
		if s.State() == supervisor.StateStopping {
			s.on(lifecycle.InputReleased)
		}
		require.Same(t, why, s.find(lifecycle.EffectAnnounceGone).Cause, "%s", state)
	}
}

// An end without a cause gets one, and not that of a request.
func TestMissingCausesAreFilledIn(t *testing.T) {
	for _, kind := range []lifecycle.InputKind{lifecycle.InputFailed, lifecycle.InputDied} {
		s := newScript(t, supervisor.NoRetry(), true).on(lifecycle.InputRegister).on(kind)
		ended := s.find(lifecycle.EffectEndSession).Cause
		require.NotNil(t, ended)
		require.NotEqual(t, supervisor.CauseRequested, ended.Kind)
		require.Contains(t, ended.Message, "without a stated cause")
		s.on(lifecycle.InputReleased).in(supervisor.StateEvicted)
		require.Same(t, ended, s.find(lifecycle.EffectAnnounceGone).Cause)
		require.Same(t, ended, s.Cause())
	}
}

// A fence holds until the registration ends, whatever is asked for before and after it.
func TestFence(t *testing.T) {
	for _, state := range []supervisor.State{supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateReady,
		supervisor.StateClosing, supervisor.StateBackoff, supervisor.StateParked, supervisor.StateUnauthorized, supervisor.StateEvicted} {
		s := reach(t, state).on(lifecycle.InputFence)
		if s.State() == supervisor.StateClosing {
			s.on(lifecycle.InputRestart).on(lifecycle.InputReleased)
		}
		s.in(supervisor.StateEvicted).on(lifecycle.InputRestart).on(lifecycle.InputFence).in(supervisor.StateEvicted)
		require.Equal(t, supervisor.CauseFenced, s.Cause().Kind, "%s", state)
		s.on(lifecycle.InputStop).in(supervisor.StateUnregistered)
	}
	reach(t, supervisor.StateReady).on(lifecycle.InputRestart).on(lifecycle.InputFence).on(lifecycle.InputReleased).in(supervisor.StateEvicted)
}

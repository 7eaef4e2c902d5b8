package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// From every state but stopping and stopped, a restart leads to a new dial with a fresh
// budget. A session that runs is released first.
func TestRestartFromEveryState(t *testing.T) {
	for _, state := range supervisor.States() {
		t.Run(string(state), func(t *testing.T) {
			s := reach(t, state)
			before := s.Epoch()
			s.on(lifecycle.InputRestart)
			if state == supervisor.StateStopping || state == supervisor.StateStopped {
				require.Empty(t, s.last)
				s.in(state)
				return
			}
			if live(state) {
				s.in(supervisor.StateClosing)
				require.NotContains(t, kinds(s.last), lifecycle.EffectDial)
				require.Equal(t, before, s.Epoch())
				s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: before}, lifecycle.EffectResetBudget, lifecycle.EffectDial)
			}
			s.in(supervisor.StateConnecting)
			require.Equal(t, before+1, s.Epoch())
			require.Equal(t, before+1, s.find(lifecycle.EffectDial).Epoch)
			require.Zero(t, s.Attempt())
		})
	}
}

func TestRestartTwiceDialsOnce(t *testing.T) {
	s := reach(t, supervisor.StateReady).on(lifecycle.InputRestart).on(lifecycle.InputRestart)
	require.Empty(t, s.last)
	s.on(lifecycle.InputReleased).in(supervisor.StateConnecting)
	// The request is carried out: the policy decides about the next end.
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff)
}

func TestRestartResetsTheBudget(t *testing.T) {
	s := newScript(t, supervisor.Retry(2, time.Second), true).on(lifecycle.InputRegister)
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).fire().on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff)
	require.Equal(t, 2, s.Attempt())
	s.on(lifecycle.InputRestart).in(supervisor.StateConnecting)
	require.Zero(t, s.Attempt())
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff)
	require.Equal(t, time.Second, s.armed.Delay)
}

// A restart overrides what the end of the old session would have led to.
func TestRestartWhileClosingOverridesEviction(t *testing.T) {
	s := newScript(t, supervisor.NoRetry(), false).on(lifecycle.InputRegister)
	s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1, Cause: permanentCause()})
	s.on(lifecycle.InputRestart).in(supervisor.StateClosing).on(lifecycle.InputReleased).in(supervisor.StateConnecting)
}

// From every state a stop leads to stopped, after the release of a session that runs,
// and is announced once.
func TestStopFromEveryState(t *testing.T) {
	for _, state := range append(supervisor.States(), lifecycle.StateNew) {
		t.Run("from "+string(state), func(t *testing.T) {
			s := reach(t, state)
			if state == supervisor.StateStopped {
				s.does(lifecycle.Input{Kind: lifecycle.InputStop}).in(supervisor.StateStopped)
				return
			}
			s.on(lifecycle.InputStop)
			require.NotContains(t, kinds(s.last), lifecycle.EffectDial)
			if live(state) {
				s.in(supervisor.StateStopping)
				require.NotContains(t, kinds(s.last), lifecycle.EffectAnnounceGone)
				s.on(lifecycle.InputStop) // twice is safe
				require.Empty(t, s.last)
				s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: s.Epoch()}, lifecycle.EffectAnnounceGone)
			}
			s.in(supervisor.StateStopped)
			require.Equal(t, supervisor.CauseRequested, s.find(lifecycle.EffectAnnounceGone).Cause.Kind)
			require.Equal(t, "asked to stop", s.find(lifecycle.EffectAnnounceGone).Cause.Message)
			require.Zero(t, s.RetryAt())
		})
	}
}

func TestStopOverridesAPendingRestart(t *testing.T) {
	reach(t, supervisor.StateReady).on(lifecycle.InputRestart).in(supervisor.StateClosing).on(lifecycle.InputStop).in(supervisor.StateStopping).on(lifecycle.InputReleased).in(supervisor.StateStopped)
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
		s.on(lifecycle.InputStop).in(supervisor.StateStopped)
	}
	reach(t, supervisor.StateReady).on(lifecycle.InputRestart).on(lifecycle.InputFence).on(lifecycle.InputReleased).in(supervisor.StateEvicted)
}

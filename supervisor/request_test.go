package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// From every state that is not on its way out, Restart leads to a new dial
// with a fresh budget; a session that lives is reaped first.
func TestRestartFromEveryState(t *testing.T) {
	for _, state := range supervisor.States() {
		t.Run(string(state), func(t *testing.T) {
			s := reach(t, state)
			before := s.Epoch()
			s.on(supervisor.InputRestart)
			if state == supervisor.StateStopping || state == supervisor.StateStopped {
				require.Empty(t, s.last)
				s.in(state)
				return
			}
			if state.Live() {
				s.in(supervisor.StateClosing)
				require.NotContains(t, kinds(s.last), supervisor.EffectDial)
				require.Equal(t, before, s.Epoch())
				s.does(supervisor.Input{Kind: supervisor.InputReleased, Epoch: before}, supervisor.EffectResetBudget, supervisor.EffectDial)
			}
			s.in(supervisor.StateConnecting)
			require.Equal(t, before+1, s.Epoch())
			require.Equal(t, before+1, s.find(supervisor.EffectDial).Epoch)
			require.Zero(t, s.Attempt())
		})
	}
}

func TestRestartTwiceDialsOnce(t *testing.T) {
	s := reach(t, supervisor.StateReady).on(supervisor.InputRestart).on(supervisor.InputRestart)
	require.Empty(t, s.last)
	s.on(supervisor.InputReleased).in(supervisor.StateConnecting)
	// The wish is fulfilled: the next end goes by the policy again.
	s.on(supervisor.InputFailed).on(supervisor.InputReleased).in(supervisor.StateBackoff)
}

func TestRestartResetsTheBudget(t *testing.T) {
	s := newScript(t, supervisor.Retry(2, time.Second), true).on(supervisor.InputRegister)
	s.on(supervisor.InputFailed).on(supervisor.InputReleased).fire().on(supervisor.InputFailed).on(supervisor.InputReleased).in(supervisor.StateBackoff)
	require.Equal(t, 2, s.Attempt())
	s.on(supervisor.InputRestart).in(supervisor.StateConnecting)
	require.Zero(t, s.Attempt())
	s.on(supervisor.InputFailed).on(supervisor.InputReleased).in(supervisor.StateBackoff)
	require.Equal(t, time.Second, s.armed.Delay)
}

// Restart wins over whatever the end of the old session would have led to.
func TestRestartWhileClosingOverridesEviction(t *testing.T) {
	s := newScript(t, supervisor.NoRetry, false).on(supervisor.InputRegister)
	s.step(supervisor.Input{Kind: supervisor.InputFailed, Epoch: 1, Cause: hopeless()})
	s.on(supervisor.InputRestart).in(supervisor.StateClosing).on(supervisor.InputReleased).in(supervisor.StateConnecting)
}

// From every state Stop leads to stopped, by way of a reaped session if one
// lives, and says once that the server is gone.
func TestStopFromEveryState(t *testing.T) {
	for _, state := range append(supervisor.States(), supervisor.StateNew) {
		t.Run("from "+string(state), func(t *testing.T) {
			s := reach(t, state)
			if state == supervisor.StateStopped {
				s.does(supervisor.Input{Kind: supervisor.InputStop}).in(supervisor.StateStopped)
				return
			}
			s.on(supervisor.InputStop)
			require.NotContains(t, kinds(s.last), supervisor.EffectDial)
			if state.Live() {
				s.in(supervisor.StateStopping)
				require.NotContains(t, kinds(s.last), supervisor.EffectAnnounceGone)
				s.on(supervisor.InputStop) // twice is safe
				require.Empty(t, s.last)
				s.does(supervisor.Input{Kind: supervisor.InputReleased, Epoch: s.Epoch()}, supervisor.EffectAnnounceGone)
			}
			s.in(supervisor.StateStopped)
			require.Equal(t, supervisor.CauseRequested, s.find(supervisor.EffectAnnounceGone).Cause.Kind)
			require.Equal(t, "asked to stop", s.find(supervisor.EffectAnnounceGone).Cause.Message)
			require.Zero(t, s.RetryAt())
		})
	}
}

func TestStopOverridesAPendingRestart(t *testing.T) {
	reach(t, supervisor.StateReady).on(supervisor.InputRestart).in(supervisor.StateClosing).on(supervisor.InputStop).in(supervisor.StateStopping).on(supervisor.InputReleased).in(supervisor.StateStopped)
}

// A cause that comes with the request is the one that everybody is told.
func TestRequestsCarryTheirCause(t *testing.T) {
	why := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "configuration changed"}
	for _, kind := range []supervisor.InputKind{supervisor.InputStop, supervisor.InputRestart} {
		s := reach(t, supervisor.StateReady)
		s.step(supervisor.Input{Kind: kind, Cause: why})
		require.Same(t, why, s.find(supervisor.EffectEndSession).Cause)
		require.Same(t, why, s.Cause())
	}
	for _, state := range []supervisor.State{supervisor.StateNew, supervisor.StateReady, supervisor.StateClosing, supervisor.StateBackoff, supervisor.StateParked, supervisor.StateEvicted} {
		s := reach(t, state)
		s.step(supervisor.Input{Kind: supervisor.InputStop, Cause: why})
		if s.State() == supervisor.StateStopping {
			s.on(supervisor.InputReleased)
		}
		require.Same(t, why, s.find(supervisor.EffectAnnounceGone).Cause, "%s", state)
	}
}

// An end without a cause is still explained, and not as somebody's wish.
func TestMissingCausesAreFilledIn(t *testing.T) {
	for _, kind := range []supervisor.InputKind{supervisor.InputFailed, supervisor.InputDied} {
		s := newScript(t, supervisor.NoRetry, true).on(supervisor.InputRegister).on(kind)
		reaped := s.find(supervisor.EffectEndSession).Cause
		require.NotNil(t, reaped)
		require.NotEqual(t, supervisor.CauseRequested, reaped.Kind)
		require.Contains(t, reaped.Message, "without a stated cause")
		s.on(supervisor.InputReleased).in(supervisor.StateEvicted)
		require.Same(t, reaped, s.find(supervisor.EffectAnnounceGone).Cause)
		require.Same(t, reaped, s.Cause())
	}
}

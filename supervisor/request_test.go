package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/mcpvisor/mcpvisor/supervisor"
)

// From every state that is not on its way out, Restart leads to a new dial
// with a fresh budget; a session that lives is reaped first.
func TestRestartFromEveryState(t *testing.T) {
	for _, state := range States() {
		t.Run(string(state), func(t *testing.T) {
			s := reach(t, state)
			before := s.Epoch()
			s.on(InputRestart)
			if state == StateStopping || state == StateStopped {
				require.Empty(t, s.last)
				s.in(state)
				return
			}
			if state.Live() {
				s.in(StateClosing)
				require.NotContains(t, kinds(s.last), EffectDial)
				require.Equal(t, before, s.Epoch())
				s.does(Input{Kind: InputReleased, Epoch: before}, EffectResetBudget, EffectDial)
			}
			s.in(StateConnecting)
			require.Equal(t, before+1, s.Epoch())
			require.Equal(t, before+1, s.find(EffectDial).Epoch)
			require.Zero(t, s.Attempt())
		})
	}
}

func TestRestartAskedTwiceDialsOnce(t *testing.T) {
	s := reach(t, StateReady).on(InputRestart).on(InputRestart)
	require.Empty(t, s.last)
	s.on(InputReleased).in(StateConnecting)
	// The wish is fulfilled: the next end goes by the policy again.
	s.on(InputFailed).on(InputReleased).in(StateBackoff)
}

func TestRestartGivesTheBudgetBack(t *testing.T) {
	s := newScript(t, Retry(2, time.Second), true).on(InputRegister)
	s.on(InputFailed).on(InputReleased).fire().on(InputFailed).on(InputReleased).in(StateBackoff)
	require.Equal(t, 2, s.Attempt())
	s.on(InputRestart).in(StateConnecting)
	require.Zero(t, s.Attempt())
	s.on(InputFailed).on(InputReleased).in(StateBackoff)
	require.Equal(t, time.Second, s.armed.Delay)
}

// Restart wins over whatever the end of the old session would have led to.
func TestRestartWhileClosingOverridesTheVerdict(t *testing.T) {
	s := newScript(t, NoRetry, false).on(InputRegister)
	s.step(Input{Kind: InputFailed, Epoch: 1, Cause: hopeless()})
	s.on(InputRestart).in(StateClosing).on(InputReleased).in(StateConnecting)
}

// From every state Stop leads to stopped, by way of a reaped session if one
// lives, and says once that the server is gone.
func TestStopFromEveryState(t *testing.T) {
	for _, state := range append(States(), StateNew) {
		t.Run("from "+string(state), func(t *testing.T) {
			s := reach(t, state)
			if state == StateStopped {
				s.does(Input{Kind: InputStop}).in(StateStopped)
				return
			}
			s.on(InputStop)
			require.NotContains(t, kinds(s.last), EffectDial)
			if state.Live() {
				s.in(StateStopping)
				require.NotContains(t, kinds(s.last), EffectAnnounceGone)
				s.on(InputStop) // twice is safe
				require.Empty(t, s.last)
				s.does(Input{Kind: InputReleased, Epoch: s.Epoch()}, EffectAnnounceGone)
			}
			s.in(StateStopped)
			require.Equal(t, CauseRequested, s.find(EffectAnnounceGone).Cause.Kind)
			require.Equal(t, "asked to stop", s.find(EffectAnnounceGone).Cause.Message)
			require.Zero(t, s.RetryAt())
		})
	}
}

func TestStopOverridesARestartThatWaits(t *testing.T) {
	reach(t, StateReady).on(InputRestart).in(StateClosing).on(InputStop).in(StateStopping).on(InputReleased).in(StateStopped)
}

// A cause that comes with the request is the one that everybody is told.
func TestRequestsCarryTheirCause(t *testing.T) {
	why := &Cause{Kind: CauseRequested, Message: "configuration changed"}
	for _, kind := range []InputKind{InputStop, InputRestart} {
		s := reach(t, StateReady)
		s.step(Input{Kind: kind, Cause: why})
		require.Same(t, why, s.find(EffectEndSession).Cause)
		require.Same(t, why, s.Cause())
	}
	for _, state := range []State{StateNew, StateReady, StateClosing, StateBackoff, StateParked, StateEvicted} {
		s := reach(t, state)
		s.step(Input{Kind: InputStop, Cause: why})
		if s.State() == StateStopping {
			s.on(InputReleased)
		}
		require.Same(t, why, s.find(EffectAnnounceGone).Cause, "%s", state)
	}
}

// An end without a cause is still explained, and not as somebody's wish.
func TestMissingCausesAreFilledIn(t *testing.T) {
	for _, kind := range []InputKind{InputFailed, InputDied} {
		s := newScript(t, NoRetry, true).on(InputRegister).on(kind)
		reaped := s.find(EffectEndSession).Cause
		require.NotNil(t, reaped)
		require.NotEqual(t, CauseRequested, reaped.Kind)
		require.Contains(t, reaped.Message, "without a stated cause")
		s.on(InputReleased).in(StateEvicted)
		require.Same(t, reaped, s.find(EffectAnnounceGone).Cause)
		require.Same(t, reaped, s.Cause())
	}
}

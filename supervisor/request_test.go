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
			s.on(EvRestart)
			if state == Stopping || state == Stopped {
				require.Empty(t, s.last)
				s.in(state)
				return
			}
			if state.Live() {
				s.in(Closing)
				require.NotContains(t, kinds(s.last), DoDial)
				require.Equal(t, before, s.Epoch())
				s.does(Event{Kind: EvReleased, Epoch: before}, DoResetBudget, DoDial)
			}
			s.in(Connecting)
			require.Equal(t, before+1, s.Epoch())
			require.Equal(t, before+1, s.find(DoDial).Epoch)
			require.Zero(t, s.Attempt())
		})
	}
}

func TestRestartAskedTwiceDialsOnce(t *testing.T) {
	s := reach(t, Ready).on(EvRestart).on(EvRestart)
	require.Empty(t, s.last)
	s.on(EvReleased).in(Connecting)
	// The wish is fulfilled: the next end goes by the policy again.
	s.on(EvFailed).on(EvReleased).in(Backoff)
}

func TestRestartGivesTheBudgetBack(t *testing.T) {
	s := newScript(t, Retry(2, time.Second), true).on(EvRegister)
	s.on(EvFailed).on(EvReleased).fire().on(EvFailed).on(EvReleased).in(Backoff)
	require.Equal(t, 2, s.Attempt())
	s.on(EvRestart).in(Connecting)
	require.Zero(t, s.Attempt())
	s.on(EvFailed).on(EvReleased).in(Backoff)
	require.Equal(t, time.Second, s.armed.Delay)
}

// Restart wins over whatever the end of the old session would have led to.
func TestRestartWhileClosingOverridesTheVerdict(t *testing.T) {
	s := newScript(t, NoRetry, false).on(EvRegister)
	s.step(Event{Kind: EvFailed, Epoch: 1, Cause: hopeless()})
	s.on(EvRestart).in(Closing).on(EvReleased).in(Connecting)
}

// From every state Stop leads to stopped, by way of a reaped session if one
// lives, and says once that the server is gone.
func TestStopFromEveryState(t *testing.T) {
	for _, state := range append(States(), New) {
		t.Run("from "+string(state), func(t *testing.T) {
			s := reach(t, state)
			if state == Stopped {
				s.does(Event{Kind: EvStop}).in(Stopped)
				return
			}
			s.on(EvStop)
			require.NotContains(t, kinds(s.last), DoDial)
			if state.Live() {
				s.in(Stopping)
				require.NotContains(t, kinds(s.last), DoGone)
				s.on(EvStop) // twice is safe
				require.Empty(t, s.last)
				s.does(Event{Kind: EvReleased, Epoch: s.Epoch()}, DoGone)
			}
			s.in(Stopped)
			require.Equal(t, CauseRequested, s.find(DoGone).Cause.Kind)
			require.Equal(t, "asked to stop", s.find(DoGone).Cause.Message)
			require.Zero(t, s.RetryAt())
		})
	}
}

func TestStopOverridesARestartThatWaits(t *testing.T) {
	reach(t, Ready).on(EvRestart).in(Closing).on(EvStop).in(Stopping).on(EvReleased).in(Stopped)
}

// A cause that comes with the request is the one that everybody is told.
func TestRequestsCarryTheirCause(t *testing.T) {
	why := &Cause{Kind: CauseRequested, Message: "configuration changed"}
	for _, kind := range []EventKind{EvStop, EvRestart} {
		s := reach(t, Ready)
		s.step(Event{Kind: kind, Cause: why})
		require.Same(t, why, s.find(DoReap).Cause)
		require.Same(t, why, s.Cause())
	}
	for _, state := range []State{New, Ready, Closing, Backoff, Parked, Evicted} {
		s := reach(t, state)
		s.step(Event{Kind: EvStop, Cause: why})
		if s.State() == Stopping {
			s.on(EvReleased)
		}
		require.Same(t, why, s.find(DoGone).Cause, "%s", state)
	}
}

// An end without a cause is still explained, and not as somebody's wish.
func TestMissingCausesAreFilledIn(t *testing.T) {
	for _, kind := range []EventKind{EvFailed, EvDied} {
		s := newScript(t, NoRetry, true).on(EvRegister).on(kind)
		reaped := s.find(DoReap).Cause
		require.NotNil(t, reaped)
		require.NotEqual(t, CauseRequested, reaped.Kind)
		require.Contains(t, reaped.Message, "without a stated cause")
		s.on(EvReleased).in(Evicted)
		require.Same(t, reaped, s.find(DoGone).Cause)
		require.Same(t, reaped, s.Cause())
	}
}

package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// An input about another incarnation is dropped and counted in every state.
func TestStaleEpochsAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(supervisor.States(), lifecycle.StateNew) {
		for _, kind := range []lifecycle.InputKind{lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputFailed, lifecycle.InputDied, lifecycle.InputReleased} {
			s := reach(t, state)
			for i, epoch := range []uint64{s.Epoch() + 1, s.Epoch() - 1} {
				s.does(lifecycle.Input{Kind: kind, Epoch: epoch, Cause: permanentCause()}).in(state)
				require.Equal(t, uint64(i+1), s.Stale(), "%s in %s", kind, state)
			}
			require.NotEqual(t, permanentCause(), s.Cause())
		}
	}
}

func TestStaleTimersAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(supervisor.States(), lifecycle.StateNew) {
		s := reach(t, state)
		for i, token := range []uint64{0, s.armed.Token + 1, s.armed.Token + 100} {
			s.does(lifecycle.Input{Kind: lifecycle.InputTimer, Token: token}).in(state)
			require.Equal(t, uint64(i+1), s.Stale(), "%s", state)
		}
	}
}

// A timer that fired during its cancellation must not act on the next state.
func TestCancelledTimerThatFiresAnywayIsStale(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(*script) *script
		in   supervisor.State
	}{
		{"stability, died", func(s *script) *script { return s.on(lifecycle.InputDied) }, supervisor.StateClosing},
		{"stability, backing off", func(s *script) *script { return s.crash() }, supervisor.StateBackoff},
		{"stability, ready again", func(s *script) *script { return s.crash().fire().start() }, supervisor.StateReady},
		{"stability, stopped", func(s *script) *script { return s.on(lifecycle.InputStop).on(lifecycle.InputReleased) }, supervisor.StateStopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := reach(t, supervisor.StateReady)
			late := s.armed.Token
			c.then(s).in(c.in)
			attempt := s.Attempt()
			s.does(lifecycle.Input{Kind: lifecycle.InputTimer, Token: late}).in(c.in)
			require.Equal(t, uint64(1), s.Stale())
			require.Equal(t, attempt, s.Attempt())
		})
	}
	for _, state := range []supervisor.State{supervisor.StateBackoff, supervisor.StateParked} {
		s := reach(t, state)
		late := s.armed.Token
		s.on(lifecycle.InputRestart).in(supervisor.StateConnecting)
		require.Equal(t, late, s.find(lifecycle.EffectCancelTimer).Token)
		s.does(lifecycle.Input{Kind: lifecycle.InputTimer, Token: late}).in(supervisor.StateConnecting)
		require.Equal(t, uint64(1), s.Stale())
	}
}

func TestTimerActsOnce(t *testing.T) {
	s := reach(t, supervisor.StateReady).fire()
	require.Equal(t, []lifecycle.EffectKind{lifecycle.EffectResetBudget}, kinds(s.last))
	s.does(lifecycle.Input{Kind: lifecycle.InputTimer, Token: s.armed.Token})
	require.Equal(t, uint64(1), s.Stale())

	s = reach(t, supervisor.StateBackoff).fire().in(supervisor.StateConnecting)
	s.does(lifecycle.Input{Kind: lifecycle.InputTimer, Token: s.armed.Token}).in(supervisor.StateConnecting)
	require.Equal(t, uint64(1), s.Stale())
}

// An input that arrives twice, or in the wrong order, for the current epoch is ignored
// and not counted as stale.
func TestDuplicatesOfTheCurrentEpochAreIgnored(t *testing.T) {
	s := reach(t, supervisor.StateReady)
	for _, kind := range []lifecycle.InputKind{lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputReleased, lifecycle.InputFailed} {
		s.does(lifecycle.Input{Kind: kind, Epoch: s.Epoch(), Cause: permanentCause()}).in(supervisor.StateReady)
	}
	s.on(lifecycle.InputDied).in(supervisor.StateClosing)
	first := s.Cause()
	for _, kind := range []lifecycle.InputKind{lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputDied, lifecycle.InputFailed} {
		s.does(lifecycle.Input{Kind: kind, Epoch: s.Epoch(), Cause: permanentCause()}).in(supervisor.StateClosing)
	}
	require.Same(t, first, s.Cause(), "the first cause is the cause")
	s.on(lifecycle.InputReleased).in(supervisor.StateBackoff)
	s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: s.Epoch()}).in(supervisor.StateBackoff)
	require.Zero(t, s.Stale())
}

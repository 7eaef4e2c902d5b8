package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// An input about another incarnation is dropped and counted in every state.
func TestStaleEpochsAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(supervisor.States(), supervisor.StateNew) {
		for _, kind := range []supervisor.InputKind{supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputFailed, supervisor.InputDied, supervisor.InputReleased} {
			s := reach(t, state)
			for i, epoch := range []uint64{s.Epoch() + 1, s.Epoch() - 1} {
				s.does(supervisor.Input{Kind: kind, Epoch: epoch, Cause: permanentCause()}).in(state)
				require.Equal(t, uint64(i+1), s.Stale(), "%s in %s", kind, state)
			}
			require.NotEqual(t, permanentCause(), s.Cause())
		}
	}
}

func TestStaleTimersAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(supervisor.States(), supervisor.StateNew) {
		s := reach(t, state)
		for i, token := range []uint64{0, s.armed.Token + 1, s.armed.Token + 100} {
			s.does(supervisor.Input{Kind: supervisor.InputTimer, Token: token}).in(state)
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
		{"stability, died", func(s *script) *script { return s.on(supervisor.InputDied) }, supervisor.StateClosing},
		{"stability, backing off", func(s *script) *script { return s.crash() }, supervisor.StateBackoff},
		{"stability, ready again", func(s *script) *script { return s.crash().fire().start() }, supervisor.StateReady},
		{"stability, stopped", func(s *script) *script { return s.on(supervisor.InputStop).on(supervisor.InputReleased) }, supervisor.StateStopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := reach(t, supervisor.StateReady)
			late := s.armed.Token
			c.then(s).in(c.in)
			attempt := s.Attempt()
			s.does(supervisor.Input{Kind: supervisor.InputTimer, Token: late}).in(c.in)
			require.Equal(t, uint64(1), s.Stale())
			require.Equal(t, attempt, s.Attempt())
		})
	}
	for _, state := range []supervisor.State{supervisor.StateBackoff, supervisor.StateParked} {
		s := reach(t, state)
		late := s.armed.Token
		s.on(supervisor.InputRestart).in(supervisor.StateConnecting)
		require.Equal(t, late, s.find(supervisor.EffectCancelTimer).Token)
		s.does(supervisor.Input{Kind: supervisor.InputTimer, Token: late}).in(supervisor.StateConnecting)
		require.Equal(t, uint64(1), s.Stale())
	}
}

func TestTimerActsOnce(t *testing.T) {
	s := reach(t, supervisor.StateReady).fire()
	require.Equal(t, []supervisor.EffectKind{supervisor.EffectResetBudget}, kinds(s.last))
	s.does(supervisor.Input{Kind: supervisor.InputTimer, Token: s.armed.Token})
	require.Equal(t, uint64(1), s.Stale())

	s = reach(t, supervisor.StateBackoff).fire().in(supervisor.StateConnecting)
	s.does(supervisor.Input{Kind: supervisor.InputTimer, Token: s.armed.Token}).in(supervisor.StateConnecting)
	require.Equal(t, uint64(1), s.Stale())
}

// An input that arrives twice, or in the wrong order, for the current epoch is ignored
// and not counted as stale.
func TestDuplicatesOfTheCurrentEpochAreIgnored(t *testing.T) {
	s := reach(t, supervisor.StateReady)
	for _, kind := range []supervisor.InputKind{supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputReleased, supervisor.InputFailed} {
		s.does(supervisor.Input{Kind: kind, Epoch: s.Epoch(), Cause: permanentCause()}).in(supervisor.StateReady)
	}
	s.on(supervisor.InputDied).in(supervisor.StateClosing)
	first := s.Cause()
	for _, kind := range []supervisor.InputKind{supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputDied, supervisor.InputFailed} {
		s.does(supervisor.Input{Kind: kind, Epoch: s.Epoch(), Cause: permanentCause()}).in(supervisor.StateClosing)
	}
	require.Same(t, first, s.Cause(), "the first cause is the cause")
	s.on(supervisor.InputReleased).in(supervisor.StateBackoff)
	s.does(supervisor.Input{Kind: supervisor.InputReleased, Epoch: s.Epoch()}).in(supervisor.StateBackoff)
	require.Zero(t, s.Stale())
}

package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/mcpvisor/mcpvisor/supervisor"
)

// What speaks of another incarnation is dropped and counted in every state,
// whatever it says.
func TestStaleEpochsAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(States(), StateNew) {
		for _, kind := range []InputKind{InputOpened, InputDiscovered, InputFailed, InputDied, InputReleased} {
			s := reach(t, state)
			for i, epoch := range []uint64{s.Epoch() + 1, s.Epoch() - 1} {
				s.does(Input{Kind: kind, Epoch: epoch, Cause: hopeless()}).in(state)
				require.Equal(t, uint64(i+1), s.Stale(), "%s in %s", kind, state)
			}
			require.NotEqual(t, hopeless(), s.Cause())
		}
	}
}

func TestStaleTimersAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(States(), StateNew) {
		s := reach(t, state)
		for i, token := range []uint64{0, s.armed.Token + 1, s.armed.Token + 100} {
			s.does(Input{Kind: InputTimer, Token: token}).in(state)
			require.Equal(t, uint64(i+1), s.Stale(), "%s", state)
		}
	}
}

// A timer that fired while its cancellation was on the way must not act on
// the state that came after.
func TestCancelledTimerThatFiresAnywayIsStale(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(*script) *script
		in   State
	}{
		{"stability, died", func(s *script) *script { return s.on(InputDied) }, StateClosing},
		{"stability, backing off", func(s *script) *script { return s.crash() }, StateBackoff},
		{"stability, ready again", func(s *script) *script { return s.crash().fire().start() }, StateReady},
		{"stability, stopped", func(s *script) *script { return s.on(InputStop).on(InputReleased) }, StateStopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := reach(t, StateReady)
			late := s.armed.Token
			c.then(s).in(c.in)
			attempt := s.Attempt()
			s.does(Input{Kind: InputTimer, Token: late}).in(c.in)
			require.Equal(t, uint64(1), s.Stale())
			require.Equal(t, attempt, s.Attempt())
		})
	}
	for _, state := range []State{StateBackoff, StateParked} {
		s := reach(t, state)
		late := s.armed.Token
		s.on(InputRestart).in(StateConnecting)
		require.Equal(t, late, s.find(EffectCancelTimer).Token)
		s.does(Input{Kind: InputTimer, Token: late}).in(StateConnecting)
		require.Equal(t, uint64(1), s.Stale())
	}
}

func TestTimerActsOnce(t *testing.T) {
	s := reach(t, StateReady).fire()
	require.Equal(t, []EffectKind{EffectResetBudget}, kinds(s.last))
	s.does(Input{Kind: InputTimer, Token: s.armed.Token})
	require.Equal(t, uint64(1), s.Stale())

	s = reach(t, StateBackoff).fire().in(StateConnecting)
	s.does(Input{Kind: InputTimer, Token: s.armed.Token}).in(StateConnecting)
	require.Equal(t, uint64(1), s.Stale())
}

// What arrives twice, or in the wrong order, for the current epoch is not
// stale, and does nothing.
func TestDuplicatesOfTheCurrentEpochAreIgnored(t *testing.T) {
	s := reach(t, StateReady)
	for _, kind := range []InputKind{InputOpened, InputDiscovered, InputReleased, InputFailed} {
		s.does(Input{Kind: kind, Epoch: s.Epoch(), Cause: hopeless()}).in(StateReady)
	}
	s.on(InputDied).in(StateClosing)
	first := s.Cause()
	for _, kind := range []InputKind{InputOpened, InputDiscovered, InputDied, InputFailed} {
		s.does(Input{Kind: kind, Epoch: s.Epoch(), Cause: hopeless()}).in(StateClosing)
	}
	require.Same(t, first, s.Cause(), "the first cause is the cause")
	s.on(InputReleased).in(StateBackoff)
	s.does(Input{Kind: InputReleased, Epoch: s.Epoch()}).in(StateBackoff)
	require.Zero(t, s.Stale())
}

package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/mcpvisor/mcpvisor/supervisor"
)

// What speaks of another incarnation is dropped and counted in every state,
// whatever it says.
func TestStaleEpochsAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(States(), New) {
		for _, kind := range []EventKind{EvOpened, EvDiscovered, EvFailed, EvDied, EvReleased} {
			s := reach(t, state)
			for i, epoch := range []uint64{s.Epoch() + 1, s.Epoch() - 1} {
				s.does(Event{Kind: kind, Epoch: epoch, Cause: hopeless()}).in(state)
				require.Equal(t, uint64(i+1), s.Stale(), "%s in %s", kind, state)
			}
			require.NotEqual(t, hopeless(), s.Cause())
		}
	}
}

func TestStaleTimersAreDroppedAndCounted(t *testing.T) {
	for _, state := range append(States(), New) {
		s := reach(t, state)
		for i, token := range []uint64{0, s.armed.Token + 1, s.armed.Token + 100} {
			s.does(Event{Kind: EvTimer, Token: token}).in(state)
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
		{"stability, died", func(s *script) *script { return s.on(EvDied) }, Closing},
		{"stability, backing off", func(s *script) *script { return s.crash() }, Backoff},
		{"stability, ready again", func(s *script) *script { return s.crash().fire().start() }, Ready},
		{"stability, stopped", func(s *script) *script { return s.on(EvStop).on(EvReleased) }, Stopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := reach(t, Ready)
			late := s.armed.Token
			c.then(s).in(c.in)
			attempt := s.Attempt()
			s.does(Event{Kind: EvTimer, Token: late}).in(c.in)
			require.Equal(t, uint64(1), s.Stale())
			require.Equal(t, attempt, s.Attempt())
		})
	}
	for _, state := range []State{Backoff, Parked} {
		s := reach(t, state)
		late := s.armed.Token
		s.on(EvRestart).in(Connecting)
		require.Equal(t, late, s.find(DoCancelTimer).Token)
		s.does(Event{Kind: EvTimer, Token: late}).in(Connecting)
		require.Equal(t, uint64(1), s.Stale())
	}
}

func TestTimerActsOnce(t *testing.T) {
	s := reach(t, Ready).fire()
	require.Equal(t, []EffectKind{DoResetBudget}, kinds(s.last))
	s.does(Event{Kind: EvTimer, Token: s.armed.Token})
	require.Equal(t, uint64(1), s.Stale())

	s = reach(t, Backoff).fire().in(Connecting)
	s.does(Event{Kind: EvTimer, Token: s.armed.Token}).in(Connecting)
	require.Equal(t, uint64(1), s.Stale())
}

// What arrives twice, or in the wrong order, for the current epoch is not
// stale, and does nothing.
func TestDuplicatesOfTheCurrentEpochAreIgnored(t *testing.T) {
	s := reach(t, Ready)
	for _, kind := range []EventKind{EvOpened, EvDiscovered, EvReleased, EvFailed} {
		s.does(Event{Kind: kind, Epoch: s.Epoch(), Cause: hopeless()}).in(Ready)
	}
	s.on(EvDied).in(Closing)
	first := s.Cause()
	for _, kind := range []EventKind{EvOpened, EvDiscovered, EvDied, EvFailed} {
		s.does(Event{Kind: kind, Epoch: s.Epoch(), Cause: hopeless()}).in(Closing)
	}
	require.Same(t, first, s.Cause(), "the first cause is the cause")
	s.on(EvReleased).in(Backoff)
	s.does(Event{Kind: EvReleased, Epoch: s.Epoch()}).in(Backoff)
	require.Zero(t, s.Stale())
}

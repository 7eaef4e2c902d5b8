package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// plannedStates are the states of planned rest.
var plannedStates = []supervisor.State{supervisor.StateStopped, supervisor.StateAsleep, supervisor.StateResting, supervisor.StateWaiting}

var (
	liveStates = []supervisor.State{supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateReady}
	restInputs = map[supervisor.State]lifecycle.InputKind{
		supervisor.StateStopped: lifecycle.InputHalt, supervisor.StateAsleep: lifecycle.InputUnwanted, supervisor.StateWaiting: lifecycle.InputHold,
	}
)

func newTransient(t *testing.T) *script {
	s := newScript(t, supervisor.Policy{MaxAttempts: 3, Base: time.Second}, true)
	s.Transient = true
	return s
}

// finish ends the session as a process does that exits with 0.
func (s *script) finish(busy bool) *script {
	code := 0
	s.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: s.Epoch(), Busy: busy, Cause: &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code, Message: "exit status 0"}})
	return s.on(lifecycle.InputReleased)
}

// A planned end spends no attempt and is no failure, and calls in flight get a cause that says so.
func TestPlannedEndIsNoFailure(t *testing.T) {
	for _, from := range liveStates {
		for rest, input := range restInputs {
			s := reach(t, from).on(input).in(supervisor.StateClosing)
			require.True(t, s.find(lifecycle.EffectEndSession).Cause.Asked(), "%s in %s", input, from)
			s.on(lifecycle.InputReleased).in(rest)
			require.Zero(t, s.Attempt())
			require.Zero(t, s.Failures())
			if rest != supervisor.StateWaiting {
				require.True(t, s.find(lifecycle.EffectAnnounceGone).Cause.Asked())
			}
		}
		s := reach(t, from).on(lifecycle.InputGiveUp).on(lifecycle.InputReleased).in(supervisor.StateEvicted)
		require.True(t, s.Cause().Asked())
		require.Zero(t, s.Failures())
	}
	s := newScript(t, supervisor.Retry(9, time.Second, supervisor.WithIntensity(1, time.Hour)), true).on(lifecycle.InputRegister)
	for range 4 {
		s.on(lifecycle.InputHold).on(lifecycle.InputReleased).on(lifecycle.InputClear).in(supervisor.StateConnecting)
	}
	s.crash().in(supervisor.StateBackoff)
	require.EqualValues(t, 1, s.Failures())
	s.fire().in(supervisor.StateWaiting).on(lifecycle.InputClear).crash().in(supervisor.StateEvicted) // each start asks the group
	require.EqualValues(t, 2, s.Failures())
}

// A server whose standby takes over stays in service: for its group that is no failure.
func TestTakeoverIsNoFailure(t *testing.T) {
	s := reach(t, supervisor.StateReady)
	s.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: s.Epoch(), Standby: s.NextEpoch(), Cause: exitCause()})
	s.in(supervisor.StateReady)
	require.Zero(t, s.Failures())
	s.crash()
	require.EqualValues(t, 1, s.Failures())
}

// Only a start wakes a server that the operator has stopped.
func TestOnlyStartWakesAStoppedServer(t *testing.T) {
	for _, from := range []supervisor.State{supervisor.StateReady, supervisor.StateClosing, supervisor.StateBackoff, supervisor.StateParked,
		supervisor.StateUnauthorized, supervisor.StateEvicted, supervisor.StateAsleep, supervisor.StateResting, supervisor.StateWaiting} {
		s := reachPlanned(t, from).on(lifecycle.InputHalt)
		if s.State() == supervisor.StateClosing {
			s.on(lifecycle.InputRestart).on(lifecycle.InputReleased)
		}
		s.in(supervisor.StateStopped)
		for _, kind := range []lifecycle.InputKind{lifecycle.InputRegister, lifecycle.InputRestart, lifecycle.InputWanted, lifecycle.InputUnwanted,
			lifecycle.InputClear, lifecycle.InputRenew, lifecycle.InputHold, lifecycle.InputGiveUp, lifecycle.InputHalt} {
			s.on(kind).in(supervisor.StateStopped)
		}
		s.fire().in(supervisor.StateStopped)
		s.step(lifecycle.Input{Kind: lifecycle.InputClear, Leave: true})
		s.on(lifecycle.InputStart).in(supervisor.StateConnecting)
		require.Zero(t, s.Attempt())
	}
}

// A halt, a hold and a want that cross the release of the session are seen when it is released.
func TestWishesDuringRelease(t *testing.T) {
	for name, c := range map[string]struct {
		inputs []lifecycle.InputKind
		want   supervisor.State
	}{
		"stop, start":             {[]lifecycle.InputKind{lifecycle.InputHalt, lifecycle.InputStart}, supervisor.StateConnecting},
		"idle, wanted":            {[]lifecycle.InputKind{lifecycle.InputUnwanted, lifecycle.InputWanted}, supervisor.StateConnecting},
		"hold, clear":             {[]lifecycle.InputKind{lifecycle.InputHold, lifecycle.InputClear}, supervisor.StateConnecting},
		"hold, stop":              {[]lifecycle.InputKind{lifecycle.InputHold, lifecycle.InputHalt}, supervisor.StateStopped},
		"hold, idle":              {[]lifecycle.InputKind{lifecycle.InputHold, lifecycle.InputUnwanted}, supervisor.StateAsleep},
		"idle, hold":              {[]lifecycle.InputKind{lifecycle.InputUnwanted, lifecycle.InputHold}, supervisor.StateAsleep},
		"idle, wanted, hold":      {[]lifecycle.InputKind{lifecycle.InputUnwanted, lifecycle.InputWanted, lifecycle.InputHold}, supervisor.StateWaiting},
		"restart, hold":           {[]lifecycle.InputKind{lifecycle.InputRestart, lifecycle.InputHold}, supervisor.StateWaiting},
		"restart, idle":           {[]lifecycle.InputKind{lifecycle.InputRestart, lifecycle.InputUnwanted}, supervisor.StateAsleep},
		"restart, stop":           {[]lifecycle.InputKind{lifecycle.InputRestart, lifecycle.InputHalt}, supervisor.StateStopped},
		"hold, give up":           {[]lifecycle.InputKind{lifecycle.InputHold, lifecycle.InputGiveUp}, supervisor.StateEvicted},
		"give up, clear":          {[]lifecycle.InputKind{lifecycle.InputGiveUp, lifecycle.InputClear}, supervisor.StateEvicted},
		"give up, renew":          {[]lifecycle.InputKind{lifecycle.InputGiveUp, lifecycle.InputRenew}, supervisor.StateConnecting},
		"give up, restart":        {[]lifecycle.InputKind{lifecycle.InputGiveUp, lifecycle.InputRestart}, supervisor.StateWaiting},
		"stop, fence":             {[]lifecycle.InputKind{lifecycle.InputHalt, lifecycle.InputFence}, supervisor.StateEvicted},
		"fence, stop":             {[]lifecycle.InputKind{lifecycle.InputFence, lifecycle.InputHalt}, supervisor.StateEvicted},
		"fence, give up, start":   {[]lifecycle.InputKind{lifecycle.InputFence, lifecycle.InputGiveUp, lifecycle.InputStart}, supervisor.StateEvicted},
		"hold, fence":             {[]lifecycle.InputKind{lifecycle.InputHold, lifecycle.InputFence}, supervisor.StateEvicted},
		"crash, idle":             {[]lifecycle.InputKind{lifecycle.InputDied, lifecycle.InputUnwanted}, supervisor.StateBackoff},
		"crash, hold":             {[]lifecycle.InputKind{lifecycle.InputDied, lifecycle.InputHold}, supervisor.StateBackoff},
		"crash, stop, start":      {[]lifecycle.InputKind{lifecycle.InputDied, lifecycle.InputHalt, lifecycle.InputStart}, supervisor.StateConnecting},
		"stop, start, stop":       {[]lifecycle.InputKind{lifecycle.InputHalt, lifecycle.InputStart, lifecycle.InputHalt}, supervisor.StateStopped},
		"hold, unregister, clear": {[]lifecycle.InputKind{lifecycle.InputHold, lifecycle.InputStop, lifecycle.InputClear}, supervisor.StateUnregistered},
	} {
		s := reach(t, supervisor.StateReady)
		for _, kind := range c.inputs {
			s.on(kind)
		}
		s.on(lifecycle.InputReleased)
		require.Equal(t, c.want, s.State(), name)
	}
}

// The group's hold does not shorten the delay of a retry, and the delay does not break the hold.
func TestHoldKeepsTheDelay(t *testing.T) {
	for _, state := range []supervisor.State{supervisor.StateBackoff, supervisor.StateParked} {
		s := reach(t, state).on(lifecycle.InputHold).in(state).on(lifecycle.InputClear).in(state)
		s.on(lifecycle.InputHold).fire().in(supervisor.StateWaiting).on(lifecycle.InputClear).in(supervisor.StateConnecting)
		s = reach(t, state).on(lifecycle.InputUnwanted).fire().in(supervisor.StateAsleep).on(lifecycle.InputWanted).in(supervisor.StateConnecting)
		require.Equal(t, reach(t, state).Attempt(), s.Attempt(), "waking gives no attempt back")
		reach(t, state).on(lifecycle.InputHold).on(lifecycle.InputRestart).in(supervisor.StateWaiting)
		reach(t, state).on(lifecycle.InputUnwanted).on(lifecycle.InputRenew).in(supervisor.StateAsleep)
	}
}

// A server in a group waits for the group when it comes back from rest; one that is in none does not.
func TestRestInAGroupIsHeld(t *testing.T) {
	for _, rest := range []supervisor.State{supervisor.StateStopped, supervisor.StateAsleep, supervisor.StateResting} {
		wake := lifecycle.InputWanted
		if rest == supervisor.StateStopped {
			wake = lifecycle.InputStart
		}
		s := newTransient(t).on(lifecycle.InputHold).on(lifecycle.InputRegister).in(supervisor.StateWaiting).on(lifecycle.InputClear).start()
		require.True(t, s.Grouped())
		if rest == supervisor.StateResting {
			s.finish(false)
		} else {
			s.on(restInputs[rest]).on(lifecycle.InputReleased)
		}
		require.True(t, s.in(rest).Held())
		s.on(lifecycle.InputClear).on(lifecycle.InputRenew).in(rest)
		require.True(t, s.Held(), "the next start waits for the group")
		s.on(wake).in(supervisor.StateWaiting).on(lifecycle.InputClear).in(supervisor.StateConnecting)
		require.False(t, s.Held())

		reachPlanned(t, rest).on(wake).in(supervisor.StateConnecting)
	}
	s := reach(t, supervisor.StateReady).on(lifecycle.InputClear)
	require.True(t, s.Grouped(), "a server that runs joins a group without a restart")
	s.step(lifecycle.Input{Kind: lifecycle.InputClear, Leave: true})
	require.False(t, s.Grouped())
}

// A transient server that exits with 0 outside a start and a call rests until it is wanted.
func TestTransient(t *testing.T) {
	s := newTransient(t).on(lifecycle.InputRegister)
	s.finish(false).in(supervisor.StateBackoff).fire() // in a start
	require.EqualValues(t, 1, s.Failures())
	s.start().finish(true).in(supervisor.StateBackoff).fire() // in a call
	s.start().finish(false).in(supervisor.StateResting)
	require.EqualValues(t, 2, s.Failures())
	require.True(t, s.Cause().Asked(), "no failure")
	require.Contains(t, s.Cause().Message, "has done its work: ")
	require.Equal(t, 0, *s.Cause().ExitCode)
	require.Equal(t, 2, s.Attempt())
	s.on(lifecycle.InputWanted).in(supervisor.StateConnecting).start().crash().in(supervisor.StateBackoff)
	s.fire().start()
	s.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: s.Epoch(), Cause: exitCause()})
	require.EqualValues(t, 4, s.Failures(), "another exit code is a failure")

	s = newScript(t, supervisor.Retry(1, time.Second), true).on(lifecycle.InputRegister).start().finish(false).in(supervisor.StateBackoff)
	require.EqualValues(t, 1, s.Failures(), "a permanent server must not end")

	s = newTransient(t).on(lifecycle.InputRegister).start()
	code := 0
	s.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: 1, Standby: s.NextEpoch(), Cause: &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code}})
	s.in(supervisor.StateClosing).on(lifecycle.InputWanted).on(lifecycle.InputReleased).in(supervisor.StateConnecting)
	require.Zero(t, s.Attempt(), "a call that crosses the exit is no failure")
}

// A group renews what was given up; a server that waits for its user, or is fenced, is not renewed.
func TestRenew(t *testing.T) {
	for state, want := range map[supervisor.State]supervisor.State{
		supervisor.StateEvicted: supervisor.StateConnecting, supervisor.StateParked: supervisor.StateConnecting, supervisor.StateBackoff: supervisor.StateConnecting,
		supervisor.StateWaiting: supervisor.StateConnecting, supervisor.StateUnauthorized: supervisor.StateUnauthorized, supervisor.StateReady: supervisor.StateReady,
	} {
		s := reachPlanned(t, state).on(lifecycle.InputRenew).in(want)
		require.Zero(t, s.Attempt())
	}
	for _, live := range liveStates { // what is not wanted is renewed, and does not start
		s := reach(t, live).on(lifecycle.InputUnwanted).on(lifecycle.InputGiveUp).on(lifecycle.InputRenew).on(lifecycle.InputReleased).in(supervisor.StateAsleep)
		require.Zero(t, s.Attempt())
	}
	reach(t, supervisor.StateEvicted).on(lifecycle.InputFence).on(lifecycle.InputRenew).on(lifecycle.InputStart).on(lifecycle.InputHalt).in(supervisor.StateEvicted)
}

// reachPlanned makes a lifecycle in the given state, also in one of planned rest; in no group, but for waiting.
func reachPlanned(t *testing.T, state supervisor.State) *script {
	t.Helper()
	switch state {
	case supervisor.StateResting:
		return newTransient(t).on(lifecycle.InputRegister).start().finish(false).in(state)
	case supervisor.StateStopped, supervisor.StateAsleep, supervisor.StateWaiting:
		return newScript(t, supervisor.Retry(3, time.Second), true).on(restInputs[state]).on(lifecycle.InputRegister).in(state)
	default:
	}
	return reach(t, state)
}

// wishes is a second description of what the flags do: a lifecycle may start only what they allow.
type wishes struct{ halted, unwanted, held, fenced, over bool }

func (w *wishes) take(kind lifecycle.InputKind) {
	switch kind {
	case lifecycle.InputHalt:
		w.halted = true
	case lifecycle.InputStart:
		w.halted, w.unwanted = false, false
	case lifecycle.InputUnwanted:
		w.unwanted = true
	case lifecycle.InputWanted, lifecycle.InputRestart:
		w.unwanted = false
	case lifecycle.InputHold:
		w.held = true
	case lifecycle.InputClear, lifecycle.InputRenew:
		w.held = false
	case lifecycle.InputFence:
		w.fenced = true
	case lifecycle.InputStop:
		w.over = true
	default:
	}
}

// Random inputs, with the world of the model test as the judge of effects: nothing starts against the wishes,
// nothing runs against them for longer than its release takes, and what is wanted starts.
func TestPlannedInputsInRandomOrder(t *testing.T) {
	orders := []lifecycle.InputKind{lifecycle.InputHalt, lifecycle.InputStart, lifecycle.InputStart, lifecycle.InputUnwanted, lifecycle.InputWanted, lifecycle.InputWanted,
		lifecycle.InputHold, lifecycle.InputClear, lifecycle.InputClear, lifecycle.InputRenew, lifecycle.InputGiveUp, lifecycle.InputRestart}
	rare := []lifecycle.InputKind{lifecycle.InputFence, lifecycle.InputStop}
	seen := map[supervisor.State]int{}
	missing := func() (all []supervisor.State) {
		for _, s := range supervisor.States() {
			if s != supervisor.StateUnauthorized && seen[s] == 0 {
				all = append(all, s)
			}
		}
		return all
	}
	check := func(t *rapid.T) {
		p := policies(0, 3, true, true).Draw(t, "policy")
		lc, w, want, now := lifecycle.NewLifecycle(p, true, nil), &world{t: t}, &wishes{}, epochStart
		lc.Transient = rapid.Bool().Draw(t, "transient")
		feed := func(in lifecycle.Input) {
			if !w.stale2(in) {
				w.happens(in)
			}
			want.take(in.Kind)
			before, failures, attempt := lc.State(), lc.Failures(), lc.Attempt()
			effects := lc.Step(now, in)
			w.carryOut(now, in, effects, nil)
			seen[lc.State()]++
			for _, e := range effects {
				if e.Kind == lifecycle.EffectDial {
					require.False(t, want.halted || want.unwanted || want.fenced || want.over, "a start against the wishes %+v, on %q in %q", *want, in.Kind, before)
					require.False(t, lc.Held(), "a start of a server that is held")
				}
			}
			if in.Kind != lifecycle.InputFailed && in.Kind != lifecycle.InputDied {
				require.Equal(t, failures, lc.Failures(), "a failure by %q", in.Kind)
				if in.Kind != lifecycle.InputReleased {
					require.LessOrEqual(t, lc.Attempt(), attempt)
				}
			}
			switch lc.State() {
			case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateReady:
				require.False(t, want.halted || want.unwanted || lc.Held(), "%+v runs after %q", *want, in.Kind)
			case supervisor.StateStopped:
				require.True(t, want.halted)
			case supervisor.StateAsleep:
				require.True(t, want.unwanted && !want.halted)
			case supervisor.StateWaiting:
				require.True(t, want.held && !want.halted && !want.unwanted || lc.Held() && lc.Grouped())
			default:
			}
		}
		feed(lifecycle.Input{Kind: lifecycle.InputRegister})
		answer := func() bool {
			epoch := lc.Epoch()
			switch lc.State() {
			case supervisor.StateConnecting:
				feed(lifecycle.Input{Kind: lifecycle.InputOpened, Epoch: epoch})
			case supervisor.StateDiscovering:
				feed(lifecycle.Input{Kind: lifecycle.InputDiscovered, Epoch: epoch})
			case supervisor.StateClosing, supervisor.StateStopping:
				feed(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: epoch})
			case supervisor.StateBackoff, supervisor.StateParked:
				now = lc.RetryAt()
				feed(lifecycle.Input{Kind: lifecycle.InputTimer, Token: w.armed().token})
			default:
				return false
			}
			return true
		}
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			switch n := rapid.IntRange(0, 19).Draw(t, "step"); {
			case n < 7:
				answer()
			case n < 10:
				code := rapid.IntRange(0, 1).Draw(t, "code")
				feed(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: lc.Epoch(), Busy: rapid.Bool().Draw(t, "busy"), Cause: &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code}})
			case n < 19:
				feed(lifecycle.Input{Kind: rapid.SampledFrom(orders).Draw(t, "order"), Leave: rapid.IntRange(0, 5).Draw(t, "leave") == 0})
			default:
				feed(lifecycle.Input{Kind: rapid.SampledFrom(rare).Draw(t, "rare")})
			}
		}
		for _, kind := range []lifecycle.InputKind{lifecycle.InputStart, lifecycle.InputRenew} {
			feed(lifecycle.Input{Kind: kind})
			for lc.State() != supervisor.StateReady && answer() {
			}
		}
		switch {
		case want.over:
			require.Equal(t, supervisor.StateUnregistered, lc.State())
		case want.fenced:
			require.Equal(t, supervisor.StateEvicted, lc.State())
		default:
			require.Equal(t, supervisor.StateReady, lc.State(), "a server that is wanted and cleared starts")
		}
	}
	rapid.Check(t, check)
	for tries := 0; len(missing()) > 0; tries++ { // a hundred schedules may not come to all states
		require.Less(t, tries, 50, "no schedule came to %v", missing())
		rapid.Check(t, check)
	}
}

// stale2 is stale for all inputs: those of operator, users and group are never stale.
func (w *world) stale2(in lifecycle.Input) bool {
	switch in.Kind {
	case lifecycle.InputTimer, lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputFailed, lifecycle.InputDied, lifecycle.InputReleased:
		return w.stale(in)
	default:
	}
	return false
}

package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/mcpvisor/mcpvisor/supervisor"
)

// standbyScript drives one standby by hand and in virtual time.
type standbyScript struct {
	*Standby
	t     *testing.T
	now   time.Time
	epoch uint64   // the highest that was given out
	last  []Effect // of the last step
	armed Effect   // the last one that armed a timer
}

func newStandbyScript(t *testing.T, p Policy) *standbyScript {
	t.Helper()
	require.NoError(t, p.Validate())
	s := &standbyScript{t: t, now: epochStart, epoch: 1} // epoch 1 is in service
	s.Standby = NewStandby(p, func() uint64 { s.epoch++; return s.epoch }, func() float64 { return 0.5 })
	return s
}

func (s *standbyScript) step(in Input) {
	s.last = s.Step(s.now, in)
	for _, e := range s.last {
		if e.Kind == EffectArmStandby {
			s.armed = e
		}
	}
}

// on feeds an input about the current session and timer.
func (s *standbyScript) on(kinds ...InputKind) *standbyScript {
	for _, kind := range kinds {
		if kind == InputTimer {
			s.now = s.now.Add(s.armed.Delay)
		}
		s.step(Input{Kind: kind, Epoch: s.Epoch(), Token: s.armed.Token, Attempt: 1})
	}
	return s
}

func (s *standbyScript) in(want StandbyState) *standbyScript {
	s.t.Helper()
	require.Equal(s.t, want, s.State())
	return s
}

// standbyRoads are the inputs that lead from idle to each state, with a policy of
// one retry.
var standbyRoads = map[StandbyState][]InputKind{
	StandbyIdle:        nil,
	StandbyWaiting:     {InputServing},
	StandbyDraining:    {InputServing, InputTimer, InputOpened, InputDiscovered, InputTakenOver, InputTimer},
	StandbyConnecting:  {InputServing, InputTimer},
	StandbyDiscovering: {InputServing, InputTimer, InputOpened},
	StandbyReady:       {InputServing, InputTimer, InputOpened, InputDiscovered},
	StandbyClosing:     {InputServing, InputTimer, InputFailed},
	StandbyStopping:    {InputServing, InputTimer, InputWithdrawn},
	StandbyGivenUp:     {InputServing, InputTimer, InputFailed, InputReleased, InputTimer, InputFailed, InputReleased},
}

func reachStandby(t *testing.T, state StandbyState) *standbyScript {
	t.Helper()
	return newStandbyScript(t, Retry(1, time.Second)).on(standbyRoads[state]...).in(state)
}

// standbyRows is what the standby must do, written a second time and from the
// promises rather than from the table. A row without a road starts in its state.
var standbyRows = []struct {
	from StandbyState
	on   InputKind
	when Guard
	to   StandbyState
	do   []EffectKind
	road []InputKind
}{
	{StandbyIdle, InputServing, GuardAlways, StandbyWaiting, done(EffectArmStandby), nil},
	{StandbyIdle, InputDrained, GuardAlways, StandbyIdle, nil, nil},

	{StandbyWaiting, InputTimer, GuardDraining, StandbyDraining, nil,
		[]InputKind{InputServing, InputTimer, InputOpened, InputDiscovered, InputTakenOver}},
	{StandbyWaiting, InputTimer, GuardAlways, StandbyConnecting, done(EffectDial), nil},
	{StandbyWaiting, InputDrained, GuardAlways, StandbyWaiting, nil, nil},
	{StandbyWaiting, InputWithdrawn, GuardAlways, StandbyIdle, done(EffectCancelTimer), nil},

	{StandbyDraining, InputDrained, GuardAlways, StandbyConnecting, done(EffectDial), nil},
	{StandbyDraining, InputWithdrawn, GuardAlways, StandbyIdle, nil, nil},

	{StandbyConnecting, InputOpened, GuardAlways, StandbyDiscovering, done(EffectDiscover), nil},
	{StandbyConnecting, InputFailed, GuardAlways, StandbyClosing, done(EffectEndSession, EffectAnnounceLost), nil},
	{StandbyConnecting, InputDied, GuardAlways, StandbyClosing, done(EffectEndSession, EffectAnnounceLost), nil},
	{StandbyConnecting, InputWithdrawn, GuardAlways, StandbyStopping, done(EffectEndSession), nil},

	{StandbyDiscovering, InputDiscovered, GuardAlways, StandbyReady, done(EffectAnnounceStandby), nil},
	{StandbyDiscovering, InputFailed, GuardAlways, StandbyClosing, done(EffectEndSession, EffectAnnounceLost), nil},
	{StandbyDiscovering, InputDied, GuardAlways, StandbyClosing, done(EffectEndSession, EffectAnnounceLost), nil},
	{StandbyDiscovering, InputWithdrawn, GuardAlways, StandbyStopping, done(EffectEndSession), nil},

	{StandbyReady, InputTakenOver, GuardAlways, StandbyWaiting, done(EffectArmStandby), nil},
	{StandbyReady, InputDied, GuardAlways, StandbyClosing, done(EffectEndSession, EffectAnnounceLost), nil},
	{StandbyReady, InputWithdrawn, GuardAlways, StandbyStopping, done(EffectEndSession), nil},

	{StandbyClosing, InputReleased, GuardStandbyRetry, StandbyWaiting, done(EffectArmStandby), nil},
	{StandbyClosing, InputReleased, GuardAlways, StandbyGivenUp, nil,
		[]InputKind{InputServing, InputTimer, InputFailed, InputReleased, InputTimer, InputFailed}},
	{StandbyClosing, InputWithdrawn, GuardAlways, StandbyStopping, nil, nil},

	{StandbyStopping, InputReleased, GuardAlways, StandbyIdle, nil, nil},

	{StandbyGivenUp, InputWithdrawn, GuardAlways, StandbyIdle, nil, nil},
}

func TestStandbyEachRow(t *testing.T) {
	for _, r := range standbyRows {
		t.Run(string(r.from)+" "+string(r.on)+" "+string(r.when), func(t *testing.T) {
			road := r.road
			if road == nil {
				road = standbyRoads[r.from]
			}
			s := newStandbyScript(t, Retry(1, time.Second)).on(road...).in(r.from)
			s.on(r.on).in(r.to)
			require.Equal(t, r.do, kinds(s.last))
			require.Equal(t, r.to.Live(), s.Epoch() != 0, "a live state has an epoch")
			for _, e := range s.last {
				needsCause := e.Kind == EffectEndSession || e.Kind == EffectAnnounceLost
				require.Equal(t, needsCause, e.Cause != nil, "%s", e.Kind)
				if needsCause || e.Kind == EffectDial {
					require.Equal(t, s.Epoch(), e.Epoch, "%s", e.Kind)
				}
			}
		})
	}
}

// The table in the code and the one above hold the same rows, so that a row
// cannot be added without a statement of what it must do.
func TestStandbyTableHoldsTheseRows(t *testing.T) {
	want := []StandbyTransition{}
	for _, r := range standbyRows {
		want = append(want, StandbyTransition{r.from, r.on, r.when, r.to, r.do})
	}
	require.Equal(t, want, StandbyTransitions())
	covered := map[StandbyState]bool{}
	for _, r := range StandbyTransitions() {
		covered[r.From], covered[r.To] = true, true
	}
	require.Len(t, covered, len(StandbyStates()))
	for _, s := range StandbyStates() {
		require.True(t, covered[s], "%s", s)
	}
}

// A guarded group of rows ends with an unguarded one: otherwise an input could be
// swallowed, or a later row could be unreachable.
func TestStandbyGuardedRowsEndWithAnUnguardedOne(t *testing.T) {
	type group struct {
		from StandbyState
		on   InputKind
	}
	closed := map[group]bool{}
	for _, r := range StandbyTransitions() {
		g := group{r.From, r.On}
		require.False(t, closed[g], "row %v is never reached", r)
		closed[g] = r.When == GuardAlways
	}
	for g, ok := range closed {
		require.True(t, ok, "%v may match no row", g)
	}
}

func TestStandbyInputsWithoutARowAreIgnored(t *testing.T) {
	has := map[StandbyState]map[InputKind]bool{}
	for _, r := range standbyRows {
		if has[r.from] == nil {
			has[r.from] = map[InputKind]bool{}
		}
		has[r.from][r.on] = true
	}
	kinds := []InputKind{InputOpened, InputDiscovered, InputFailed, InputDied, InputReleased, InputServing, InputTakenOver,
		InputWithdrawn, InputDrained, InputRegister, InputRestart, InputStop, "unknown"}
	for _, state := range StandbyStates() {
		for _, kind := range kinds {
			if has[state][kind] {
				continue
			}
			s := reachStandby(t, state)
			epoch := s.Epoch()
			s.on(kind).in(state)
			require.Nil(t, s.last, "%s in %s", kind, state)
			require.Equal(t, epoch, s.Epoch())
			require.Zero(t, s.Stale())
		}
	}
}

func TestStandbyStaleInputsAreDroppedAndCounted(t *testing.T) {
	for _, state := range StandbyStates() {
		s := reachStandby(t, state)
		stale := []Input{{Kind: InputTimer}, {Kind: InputTimer, Token: s.armed.Token + 1}}
		for _, kind := range []InputKind{InputOpened, InputDiscovered, InputFailed, InputDied, InputReleased} {
			stale = append(stale, Input{Kind: kind, Epoch: s.Epoch() + 1})
		}
		for i, in := range stale {
			s.step(in)
			s.in(state)
			require.Nil(t, s.last)
			require.EqualValues(t, i+1, s.Stale(), "%s in %s", in.Kind, state)
		}
	}
}

func TestStandbyTransitionsAreACopy(t *testing.T) {
	rows := StandbyTransitions()
	rows[0].To, rows[0].Do[0] = StandbyGivenUp, EffectAnnounceGone
	require.Equal(t, StandbyWaiting, StandbyTransitions()[0].To)
	require.Equal(t, EffectArmStandby, StandbyTransitions()[0].Do[0])
}

func TestStandbyRandomHasADefault(t *testing.T) {
	s := NewStandby(Retry(3, time.Second, WithJitter(0.5)), func() uint64 { return 2 }, nil)
	arm := s.Step(epochStart, Input{Kind: InputServing})[0]
	require.Zero(t, arm.Delay)
	s.Step(epochStart, Input{Kind: InputTimer, Token: arm.Token})
	require.True(t, s.Owns(2))
	require.False(t, s.Owns(0))
	s.Step(epochStart, Input{Kind: InputFailed, Epoch: 2})
	d := s.Step(epochStart, Input{Kind: InputReleased, Epoch: 2})[0].Delay
	require.GreaterOrEqual(t, d, 500*time.Millisecond)
	require.LessOrEqual(t, d, 1500*time.Millisecond)
	require.False(t, s.Owns(2))
}

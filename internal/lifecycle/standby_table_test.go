package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// standbyScript drives one standby by hand and in virtual time.
type standbyScript struct {
	*lifecycle.Standby
	t     *testing.T
	now   time.Time
	epoch uint64             // the highest that was given out
	last  []lifecycle.Effect // of the last step
	armed lifecycle.Effect   // the last one that armed a timer
}

func newStandbyScript(t *testing.T, p supervisor.Policy) *standbyScript {
	t.Helper()
	require.NoError(t, p.Validate())
	s := &standbyScript{t: t, now: epochStart, epoch: 1} // epoch 1 is in service
	s.Standby = lifecycle.NewStandby(p, func() uint64 { s.epoch++; return s.epoch }, func() float64 { return 0.5 })
	return s
}

func (s *standbyScript) step(in lifecycle.Input) {
	s.last = s.Step(s.now, in)
	for _, e := range s.last {
		if e.Kind == lifecycle.EffectArmStandby {
			s.armed = e
		}
	}
}

// on feeds an input about the current session and timer.
func (s *standbyScript) on(kinds ...lifecycle.InputKind) *standbyScript {
	for _, kind := range kinds {
		if kind == lifecycle.InputTimer {
			s.now = s.now.Add(s.armed.Delay)
		}
		s.step(lifecycle.Input{Kind: kind, Epoch: s.Epoch(), Token: s.armed.Token, Attempt: 1})
	}
	return s
}

func (s *standbyScript) in(want lifecycle.StandbyState) *standbyScript {
	s.t.Helper()
	require.Equal(s.t, want, s.State())
	return s
}

// standbyRoads are the inputs that lead from idle to each state, with a policy of
// one retry.
var standbyRoads = map[lifecycle.StandbyState][]lifecycle.InputKind{
	lifecycle.StandbyIdle:        nil,
	lifecycle.StandbyWaiting:     {lifecycle.InputServing},
	lifecycle.StandbyDraining:    {lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputTakenOver, lifecycle.InputTimer},
	lifecycle.StandbyConnecting:  {lifecycle.InputServing, lifecycle.InputTimer},
	lifecycle.StandbyDiscovering: {lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputOpened},
	lifecycle.StandbyReady:       {lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputOpened, lifecycle.InputDiscovered},
	lifecycle.StandbyClosing:     {lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputFailed},
	lifecycle.StandbyStopping:    {lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputWithdrawn},
	lifecycle.StandbyGivenUp:     {lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputFailed, lifecycle.InputReleased, lifecycle.InputTimer, lifecycle.InputFailed, lifecycle.InputReleased},
}

func reachStandby(t *testing.T, state lifecycle.StandbyState) *standbyScript {
	t.Helper()
	return newStandbyScript(t, supervisor.Retry(1, time.Second)).on(standbyRoads[state]...).in(state)
}

// standbyRows is what the standby must do, written a second time and from the
// promises rather than from the table. A row without a road starts in its state.
var standbyRows = []struct {
	from lifecycle.StandbyState
	on   lifecycle.InputKind
	when lifecycle.Guard
	to   lifecycle.StandbyState
	do   []lifecycle.EffectKind
	road []lifecycle.InputKind
}{
	{lifecycle.StandbyIdle, lifecycle.InputServing, lifecycle.GuardAlways, lifecycle.StandbyWaiting, done(lifecycle.EffectArmStandby), nil},
	{lifecycle.StandbyIdle, lifecycle.InputDrained, lifecycle.GuardAlways, lifecycle.StandbyIdle, nil, nil},

	{lifecycle.StandbyWaiting, lifecycle.InputTimer, lifecycle.GuardDraining, lifecycle.StandbyDraining, nil,
		[]lifecycle.InputKind{lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputTakenOver}},
	{lifecycle.StandbyWaiting, lifecycle.InputTimer, lifecycle.GuardAlways, lifecycle.StandbyConnecting, done(lifecycle.EffectDial), nil},
	{lifecycle.StandbyWaiting, lifecycle.InputDrained, lifecycle.GuardAlways, lifecycle.StandbyWaiting, nil, nil},
	{lifecycle.StandbyWaiting, lifecycle.InputWithdrawn, lifecycle.GuardAlways, lifecycle.StandbyIdle, done(lifecycle.EffectCancelTimer), nil},

	{lifecycle.StandbyDraining, lifecycle.InputDrained, lifecycle.GuardAlways, lifecycle.StandbyConnecting, done(lifecycle.EffectDial), nil},
	{lifecycle.StandbyDraining, lifecycle.InputWithdrawn, lifecycle.GuardAlways, lifecycle.StandbyIdle, nil, nil},

	{lifecycle.StandbyConnecting, lifecycle.InputOpened, lifecycle.GuardAlways, lifecycle.StandbyDiscovering, done(lifecycle.EffectDiscover), nil},
	{lifecycle.StandbyConnecting, lifecycle.InputFailed, lifecycle.GuardAlways, lifecycle.StandbyClosing, done(lifecycle.EffectEndSession, lifecycle.EffectAnnounceLost), nil},
	{lifecycle.StandbyConnecting, lifecycle.InputDied, lifecycle.GuardAlways, lifecycle.StandbyClosing, done(lifecycle.EffectEndSession, lifecycle.EffectAnnounceLost), nil},
	{lifecycle.StandbyConnecting, lifecycle.InputWithdrawn, lifecycle.GuardAlways, lifecycle.StandbyStopping, done(lifecycle.EffectEndSession), nil},

	{lifecycle.StandbyDiscovering, lifecycle.InputDiscovered, lifecycle.GuardAlways, lifecycle.StandbyReady, done(lifecycle.EffectAnnounceStandby), nil},
	{lifecycle.StandbyDiscovering, lifecycle.InputFailed, lifecycle.GuardAlways, lifecycle.StandbyClosing, done(lifecycle.EffectEndSession, lifecycle.EffectAnnounceLost), nil},
	{lifecycle.StandbyDiscovering, lifecycle.InputDied, lifecycle.GuardAlways, lifecycle.StandbyClosing, done(lifecycle.EffectEndSession, lifecycle.EffectAnnounceLost), nil},
	{lifecycle.StandbyDiscovering, lifecycle.InputWithdrawn, lifecycle.GuardAlways, lifecycle.StandbyStopping, done(lifecycle.EffectEndSession), nil},

	{lifecycle.StandbyReady, lifecycle.InputTakenOver, lifecycle.GuardAlways, lifecycle.StandbyWaiting, done(lifecycle.EffectArmStandby), nil},
	{lifecycle.StandbyReady, lifecycle.InputDied, lifecycle.GuardAlways, lifecycle.StandbyClosing, done(lifecycle.EffectEndSession, lifecycle.EffectAnnounceLost), nil},
	{lifecycle.StandbyReady, lifecycle.InputWithdrawn, lifecycle.GuardAlways, lifecycle.StandbyStopping, done(lifecycle.EffectEndSession), nil},

	{lifecycle.StandbyClosing, lifecycle.InputReleased, lifecycle.GuardStandbyRetry, lifecycle.StandbyWaiting, done(lifecycle.EffectArmStandby), nil},
	{lifecycle.StandbyClosing, lifecycle.InputReleased, lifecycle.GuardAlways, lifecycle.StandbyGivenUp, nil,
		[]lifecycle.InputKind{lifecycle.InputServing, lifecycle.InputTimer, lifecycle.InputFailed, lifecycle.InputReleased, lifecycle.InputTimer, lifecycle.InputFailed}},
	{lifecycle.StandbyClosing, lifecycle.InputWithdrawn, lifecycle.GuardAlways, lifecycle.StandbyStopping, nil, nil},

	{lifecycle.StandbyStopping, lifecycle.InputReleased, lifecycle.GuardAlways, lifecycle.StandbyIdle, nil, nil},

	{lifecycle.StandbyGivenUp, lifecycle.InputWithdrawn, lifecycle.GuardAlways, lifecycle.StandbyIdle, nil, nil},
}

func TestStandbyEachRow(t *testing.T) {
	for _, r := range standbyRows {
		t.Run(string(r.from)+" "+string(r.on)+" "+string(r.when), func(t *testing.T) {
			road := r.road
			if road == nil {
				road = standbyRoads[r.from]
			}
			s := newStandbyScript(t, supervisor.Retry(1, time.Second)).on(road...).in(r.from)
			s.on(r.on).in(r.to)
			require.Equal(t, r.do, kinds(s.last))
			require.Equal(t, r.to.Live(), s.Epoch() != 0, "a live state has an epoch")
			for _, e := range s.last {
				needsCause := e.Kind == lifecycle.EffectEndSession || e.Kind == lifecycle.EffectAnnounceLost
				require.Equal(t, needsCause, e.Cause != nil, "%s", e.Kind)
				if needsCause || e.Kind == lifecycle.EffectDial {
					require.Equal(t, s.Epoch(), e.Epoch, "%s", e.Kind)
				}
			}
		})
	}
}

// The table in the code and the one above hold the same rows, so that a row
// cannot be added without a statement of what it must do.
func TestStandbyTableHoldsTheseRows(t *testing.T) {
	want := []lifecycle.StandbyTransition{}
	for _, r := range standbyRows {
		want = append(want, lifecycle.StandbyTransition{r.from, r.on, r.when, r.to, r.do})
	}
	require.Equal(t, want, lifecycle.StandbyTransitions())
	covered := map[lifecycle.StandbyState]bool{}
	for _, r := range lifecycle.StandbyTransitions() {
		covered[r.From], covered[r.To] = true, true
	}
	require.Len(t, covered, len(lifecycle.StandbyStates()))
	for _, s := range lifecycle.StandbyStates() {
		require.True(t, covered[s], "%s", s)
	}
}

// A guarded group of rows ends with an unguarded one: otherwise an input could be
// swallowed, or a later row could be unreachable.
func TestStandbyGuardedRowsEndWithAnUnguardedOne(t *testing.T) {
	requireUnguardedEnds(t, lifecycle.StandbyTransitions(), func(r lifecycle.StandbyTransition) (any, lifecycle.Guard) {
		return [2]any{r.From, r.On}, r.When
	})
}

func TestStandbyInputsWithoutARowAreIgnored(t *testing.T) {
	has := map[lifecycle.StandbyState]map[lifecycle.InputKind]bool{}
	for _, r := range standbyRows {
		if has[r.from] == nil {
			has[r.from] = map[lifecycle.InputKind]bool{}
		}
		has[r.from][r.on] = true
	}
	kinds := []lifecycle.InputKind{lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputFailed, lifecycle.InputDied, lifecycle.InputReleased, lifecycle.InputServing, lifecycle.InputTakenOver,
		lifecycle.InputWithdrawn, lifecycle.InputDrained, lifecycle.InputRegister, lifecycle.InputRestart, lifecycle.InputStop, "unknown"}
	for _, state := range lifecycle.StandbyStates() {
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
	for _, state := range lifecycle.StandbyStates() {
		s := reachStandby(t, state)
		stale := []lifecycle.Input{{Kind: lifecycle.InputTimer}, {Kind: lifecycle.InputTimer, Token: s.armed.Token + 1}}
		for _, kind := range []lifecycle.InputKind{lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputFailed, lifecycle.InputDied, lifecycle.InputReleased} {
			stale = append(stale, lifecycle.Input{Kind: kind, Epoch: s.Epoch() + 1})
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
	rows := lifecycle.StandbyTransitions()
	rows[0].To, rows[0].Do[0] = lifecycle.StandbyGivenUp, lifecycle.EffectAnnounceGone
	require.Equal(t, lifecycle.StandbyWaiting, lifecycle.StandbyTransitions()[0].To)
	require.Equal(t, lifecycle.EffectArmStandby, lifecycle.StandbyTransitions()[0].Do[0])
}

func TestStandbyRandomHasADefault(t *testing.T) {
	s := lifecycle.NewStandby(supervisor.Retry(3, time.Second, supervisor.WithJitter(0.5)), func() uint64 { return 2 }, nil)
	arm := s.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputServing})[0]
	require.Zero(t, arm.Delay)
	s.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputTimer, Token: arm.Token})
	require.True(t, s.Owns(2))
	require.False(t, s.Owns(0))
	s.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 2})
	d := s.Step(epochStart, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 2})[0].Delay
	require.GreaterOrEqual(t, d, 500*time.Millisecond)
	require.LessOrEqual(t, d, 1500*time.Millisecond)
	require.False(t, s.Owns(2))
}

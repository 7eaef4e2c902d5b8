package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// standbyScript drives one standby by hand and in virtual time.
type standbyScript struct {
	*supervisor.Standby
	t     *testing.T
	now   time.Time
	epoch uint64              // the highest that was given out
	last  []supervisor.Effect // of the last step
	armed supervisor.Effect   // the last one that armed a timer
}

func newStandbyScript(t *testing.T, p supervisor.Policy) *standbyScript {
	t.Helper()
	require.NoError(t, p.Validate())
	s := &standbyScript{t: t, now: epochStart, epoch: 1} // epoch 1 is in service
	s.Standby = supervisor.NewStandby(p, func() uint64 { s.epoch++; return s.epoch }, func() float64 { return 0.5 })
	return s
}

func (s *standbyScript) step(in supervisor.Input) {
	s.last = s.Step(s.now, in)
	for _, e := range s.last {
		if e.Kind == supervisor.EffectArmStandby {
			s.armed = e
		}
	}
}

// on feeds an input about the current session and timer.
func (s *standbyScript) on(kinds ...supervisor.InputKind) *standbyScript {
	for _, kind := range kinds {
		if kind == supervisor.InputTimer {
			s.now = s.now.Add(s.armed.Delay)
		}
		s.step(supervisor.Input{Kind: kind, Epoch: s.Epoch(), Token: s.armed.Token, Attempt: 1})
	}
	return s
}

func (s *standbyScript) in(want supervisor.StandbyState) *standbyScript {
	s.t.Helper()
	require.Equal(s.t, want, s.State())
	return s
}

// standbyRoads are the inputs that lead from idle to each state, with a policy of
// one retry.
var standbyRoads = map[supervisor.StandbyState][]supervisor.InputKind{
	supervisor.StandbyIdle:        nil,
	supervisor.StandbyWaiting:     {supervisor.InputServing},
	supervisor.StandbyDraining:    {supervisor.InputServing, supervisor.InputTimer, supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputTakenOver, supervisor.InputTimer},
	supervisor.StandbyConnecting:  {supervisor.InputServing, supervisor.InputTimer},
	supervisor.StandbyDiscovering: {supervisor.InputServing, supervisor.InputTimer, supervisor.InputOpened},
	supervisor.StandbyReady:       {supervisor.InputServing, supervisor.InputTimer, supervisor.InputOpened, supervisor.InputDiscovered},
	supervisor.StandbyClosing:     {supervisor.InputServing, supervisor.InputTimer, supervisor.InputFailed},
	supervisor.StandbyStopping:    {supervisor.InputServing, supervisor.InputTimer, supervisor.InputWithdrawn},
	supervisor.StandbyGivenUp:     {supervisor.InputServing, supervisor.InputTimer, supervisor.InputFailed, supervisor.InputReleased, supervisor.InputTimer, supervisor.InputFailed, supervisor.InputReleased},
}

func reachStandby(t *testing.T, state supervisor.StandbyState) *standbyScript {
	t.Helper()
	return newStandbyScript(t, supervisor.Retry(1, time.Second)).on(standbyRoads[state]...).in(state)
}

// standbyRows is what the standby must do, written a second time and from the
// promises rather than from the table. A row without a road starts in its state.
var standbyRows = []struct {
	from supervisor.StandbyState
	on   supervisor.InputKind
	when supervisor.Guard
	to   supervisor.StandbyState
	do   []supervisor.EffectKind
	road []supervisor.InputKind
}{
	{supervisor.StandbyIdle, supervisor.InputServing, supervisor.GuardAlways, supervisor.StandbyWaiting, done(supervisor.EffectArmStandby), nil},
	{supervisor.StandbyIdle, supervisor.InputDrained, supervisor.GuardAlways, supervisor.StandbyIdle, nil, nil},

	{supervisor.StandbyWaiting, supervisor.InputTimer, supervisor.GuardDraining, supervisor.StandbyDraining, nil,
		[]supervisor.InputKind{supervisor.InputServing, supervisor.InputTimer, supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputTakenOver}},
	{supervisor.StandbyWaiting, supervisor.InputTimer, supervisor.GuardAlways, supervisor.StandbyConnecting, done(supervisor.EffectDial), nil},
	{supervisor.StandbyWaiting, supervisor.InputDrained, supervisor.GuardAlways, supervisor.StandbyWaiting, nil, nil},
	{supervisor.StandbyWaiting, supervisor.InputWithdrawn, supervisor.GuardAlways, supervisor.StandbyIdle, done(supervisor.EffectCancelTimer), nil},

	{supervisor.StandbyDraining, supervisor.InputDrained, supervisor.GuardAlways, supervisor.StandbyConnecting, done(supervisor.EffectDial), nil},
	{supervisor.StandbyDraining, supervisor.InputWithdrawn, supervisor.GuardAlways, supervisor.StandbyIdle, nil, nil},

	{supervisor.StandbyConnecting, supervisor.InputOpened, supervisor.GuardAlways, supervisor.StandbyDiscovering, done(supervisor.EffectDiscover), nil},
	{supervisor.StandbyConnecting, supervisor.InputFailed, supervisor.GuardAlways, supervisor.StandbyClosing, done(supervisor.EffectEndSession, supervisor.EffectAnnounceLost), nil},
	{supervisor.StandbyConnecting, supervisor.InputDied, supervisor.GuardAlways, supervisor.StandbyClosing, done(supervisor.EffectEndSession, supervisor.EffectAnnounceLost), nil},
	{supervisor.StandbyConnecting, supervisor.InputWithdrawn, supervisor.GuardAlways, supervisor.StandbyStopping, done(supervisor.EffectEndSession), nil},

	{supervisor.StandbyDiscovering, supervisor.InputDiscovered, supervisor.GuardAlways, supervisor.StandbyReady, done(supervisor.EffectAnnounceStandby), nil},
	{supervisor.StandbyDiscovering, supervisor.InputFailed, supervisor.GuardAlways, supervisor.StandbyClosing, done(supervisor.EffectEndSession, supervisor.EffectAnnounceLost), nil},
	{supervisor.StandbyDiscovering, supervisor.InputDied, supervisor.GuardAlways, supervisor.StandbyClosing, done(supervisor.EffectEndSession, supervisor.EffectAnnounceLost), nil},
	{supervisor.StandbyDiscovering, supervisor.InputWithdrawn, supervisor.GuardAlways, supervisor.StandbyStopping, done(supervisor.EffectEndSession), nil},

	{supervisor.StandbyReady, supervisor.InputTakenOver, supervisor.GuardAlways, supervisor.StandbyWaiting, done(supervisor.EffectArmStandby), nil},
	{supervisor.StandbyReady, supervisor.InputDied, supervisor.GuardAlways, supervisor.StandbyClosing, done(supervisor.EffectEndSession, supervisor.EffectAnnounceLost), nil},
	{supervisor.StandbyReady, supervisor.InputWithdrawn, supervisor.GuardAlways, supervisor.StandbyStopping, done(supervisor.EffectEndSession), nil},

	{supervisor.StandbyClosing, supervisor.InputReleased, supervisor.GuardStandbyRetry, supervisor.StandbyWaiting, done(supervisor.EffectArmStandby), nil},
	{supervisor.StandbyClosing, supervisor.InputReleased, supervisor.GuardAlways, supervisor.StandbyGivenUp, nil,
		[]supervisor.InputKind{supervisor.InputServing, supervisor.InputTimer, supervisor.InputFailed, supervisor.InputReleased, supervisor.InputTimer, supervisor.InputFailed}},
	{supervisor.StandbyClosing, supervisor.InputWithdrawn, supervisor.GuardAlways, supervisor.StandbyStopping, nil, nil},

	{supervisor.StandbyStopping, supervisor.InputReleased, supervisor.GuardAlways, supervisor.StandbyIdle, nil, nil},

	{supervisor.StandbyGivenUp, supervisor.InputWithdrawn, supervisor.GuardAlways, supervisor.StandbyIdle, nil, nil},
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
				needsCause := e.Kind == supervisor.EffectEndSession || e.Kind == supervisor.EffectAnnounceLost
				require.Equal(t, needsCause, e.Cause != nil, "%s", e.Kind)
				if needsCause || e.Kind == supervisor.EffectDial {
					require.Equal(t, s.Epoch(), e.Epoch, "%s", e.Kind)
				}
			}
		})
	}
}

// The table in the code and the one above hold the same rows, so that a row
// cannot be added without a statement of what it must do.
func TestStandbyTableHoldsTheseRows(t *testing.T) {
	want := []supervisor.StandbyTransition{}
	for _, r := range standbyRows {
		want = append(want, supervisor.StandbyTransition{r.from, r.on, r.when, r.to, r.do})
	}
	require.Equal(t, want, supervisor.StandbyTransitions())
	covered := map[supervisor.StandbyState]bool{}
	for _, r := range supervisor.StandbyTransitions() {
		covered[r.From], covered[r.To] = true, true
	}
	require.Len(t, covered, len(supervisor.StandbyStates()))
	for _, s := range supervisor.StandbyStates() {
		require.True(t, covered[s], "%s", s)
	}
}

// A guarded group of rows ends with an unguarded one: otherwise an input could be
// swallowed, or a later row could be unreachable.
func TestStandbyGuardedRowsEndWithAnUnguardedOne(t *testing.T) {
	requireUnguardedEnds(t, supervisor.StandbyTransitions(), func(r supervisor.StandbyTransition) (any, supervisor.Guard) {
		return [2]any{r.From, r.On}, r.When
	})
}

func TestStandbyInputsWithoutARowAreIgnored(t *testing.T) {
	has := map[supervisor.StandbyState]map[supervisor.InputKind]bool{}
	for _, r := range standbyRows {
		if has[r.from] == nil {
			has[r.from] = map[supervisor.InputKind]bool{}
		}
		has[r.from][r.on] = true
	}
	kinds := []supervisor.InputKind{supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputFailed, supervisor.InputDied, supervisor.InputReleased, supervisor.InputServing, supervisor.InputTakenOver,
		supervisor.InputWithdrawn, supervisor.InputDrained, supervisor.InputRegister, supervisor.InputRestart, supervisor.InputStop, "unknown"}
	for _, state := range supervisor.StandbyStates() {
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
	for _, state := range supervisor.StandbyStates() {
		s := reachStandby(t, state)
		stale := []supervisor.Input{{Kind: supervisor.InputTimer}, {Kind: supervisor.InputTimer, Token: s.armed.Token + 1}}
		for _, kind := range []supervisor.InputKind{supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputFailed, supervisor.InputDied, supervisor.InputReleased} {
			stale = append(stale, supervisor.Input{Kind: kind, Epoch: s.Epoch() + 1})
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
	rows := supervisor.StandbyTransitions()
	rows[0].To, rows[0].Do[0] = supervisor.StandbyGivenUp, supervisor.EffectAnnounceGone
	require.Equal(t, supervisor.StandbyWaiting, supervisor.StandbyTransitions()[0].To)
	require.Equal(t, supervisor.EffectArmStandby, supervisor.StandbyTransitions()[0].Do[0])
}

func TestStandbyRandomHasADefault(t *testing.T) {
	s := supervisor.NewStandby(supervisor.Retry(3, time.Second, supervisor.WithJitter(0.5)), func() uint64 { return 2 }, nil)
	arm := s.Step(epochStart, supervisor.Input{Kind: supervisor.InputServing})[0]
	require.Zero(t, arm.Delay)
	s.Step(epochStart, supervisor.Input{Kind: supervisor.InputTimer, Token: arm.Token})
	require.True(t, s.Owns(2))
	require.False(t, s.Owns(0))
	s.Step(epochStart, supervisor.Input{Kind: supervisor.InputFailed, Epoch: 2})
	d := s.Step(epochStart, supervisor.Input{Kind: supervisor.InputReleased, Epoch: 2})[0].Delay
	require.GreaterOrEqual(t, d, 500*time.Millisecond)
	require.LessOrEqual(t, d, 1500*time.Millisecond)
	require.False(t, s.Owns(2))
}

package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/mcpvisor/mcpvisor/supervisor"
)

func done(kinds ...EffectKind) []EffectKind { return kinds }

// rows is what the lifecycle must be, written a second time and from the
// promises rather than from the table: where to begin, what happens, where it
// ends and what has to be done.
var rows = []struct {
	from   State
	on     InputKind
	when   Guard
	to     State
	do     []EffectKind
	script func(*testing.T) *script // nil: the shortest road to from
}{
	{StateNew, InputRegister, GuardAlways, StateConnecting, done(EffectDial), nil},
	{StateNew, InputStop, GuardAlways, StateStopped, done(EffectAnnounceGone), nil},

	{StateConnecting, InputOpened, GuardAlways, StateDiscovering, done(EffectDiscover), nil},
	{StateConnecting, InputFailed, GuardAlways, StateClosing, done(EffectEndSession), nil},
	{StateConnecting, InputDied, GuardAlways, StateClosing, done(EffectEndSession), nil},
	{StateConnecting, InputRestart, GuardAlways, StateClosing, done(EffectEndSession), nil},
	{StateConnecting, InputStop, GuardAlways, StateStopping, done(EffectEndSession), nil},

	{StateDiscovering, InputDiscovered, GuardAlways, StateReady, done(EffectPublish, EffectArmStable), nil},
	{StateDiscovering, InputFailed, GuardAlways, StateClosing, done(EffectEndSession), nil},
	{StateDiscovering, InputDied, GuardAlways, StateClosing, done(EffectEndSession), nil},
	{StateDiscovering, InputRestart, GuardAlways, StateClosing, done(EffectEndSession), nil},
	{StateDiscovering, InputStop, GuardAlways, StateStopping, done(EffectEndSession), nil},

	{StateReady, InputTimer, GuardAlways, StateReady, done(EffectResetBudget), nil},
	{StateReady, InputDied, GuardStandbyReady, StateReady, done(EffectCancelTimer, EffectWithdraw, EffectEndSession, EffectTakeOver, EffectPublish, EffectArmStable), nil},
	{StateReady, InputDied, GuardAlways, StateClosing, done(EffectCancelTimer, EffectWithdraw, EffectEndSession), nil},
	{StateReady, InputRestart, GuardAlways, StateClosing, done(EffectCancelTimer, EffectWithdraw, EffectEndSession), nil},
	{StateReady, InputStop, GuardAlways, StateStopping, done(EffectCancelTimer, EffectWithdraw, EffectEndSession), nil},

	{StateClosing, InputReleased, GuardRestartRequested, StateConnecting, done(EffectResetBudget, EffectDial), func(t *testing.T) *script {
		return reach(t, StateClosing).on(InputRestart)
	}},
	{StateClosing, InputReleased, GuardFirstStart, StateStopped, done(EffectAnnounceGone), func(t *testing.T) *script {
		return newScript(t, Retry(3, time.Second), false).on(InputRegister).on(InputFailed)
	}},
	{StateClosing, InputReleased, GuardAuthRequired, StateUnauthorized, done(EffectAnnounceGone), func(t *testing.T) *script {
		s := reach(t, StateConnecting)
		s.step(Input{Kind: InputFailed, Epoch: 1, Cause: forbidden()})
		return s
	}},
	{StateClosing, InputReleased, GuardPermanent, StateEvicted, done(EffectAnnounceGone), func(t *testing.T) *script {
		s := reach(t, StateConnecting)
		s.step(Input{Kind: InputFailed, Epoch: 1, Cause: hopeless()})
		return s
	}},
	{StateClosing, InputReleased, GuardBudgetLeft, StateBackoff, done(EffectArmRetry), nil},
	{StateClosing, InputReleased, GuardMayPark, StateParked, done(EffectAnnounceGone, EffectArmPark), func(t *testing.T) *script {
		return newScript(t, Retry(0, 0, WithParking(time.Minute)), true).on(InputRegister).on(InputFailed)
	}},
	{StateClosing, InputReleased, GuardAlways, StateEvicted, done(EffectAnnounceGone), func(t *testing.T) *script {
		return newScript(t, NoRetry, true).on(InputRegister).on(InputFailed)
	}},
	{StateClosing, InputRestart, GuardAlways, StateClosing, nil, nil},
	{StateClosing, InputStop, GuardAlways, StateStopping, nil, nil},

	{StateBackoff, InputTimer, GuardAlways, StateConnecting, done(EffectDial), nil},
	{StateBackoff, InputRestart, GuardAlways, StateConnecting, done(EffectCancelTimer, EffectResetBudget, EffectDial), nil},
	{StateBackoff, InputStop, GuardAlways, StateStopped, done(EffectCancelTimer, EffectAnnounceGone), nil},

	{StateParked, InputTimer, GuardAlways, StateConnecting, done(EffectDial), nil},
	{StateParked, InputRestart, GuardAlways, StateConnecting, done(EffectCancelTimer, EffectResetBudget, EffectDial), nil},
	{StateParked, InputStop, GuardAlways, StateStopped, done(EffectCancelTimer, EffectAnnounceGone), nil},

	{StateUnauthorized, InputRestart, GuardAlways, StateConnecting, done(EffectResetBudget, EffectDial), nil},
	{StateUnauthorized, InputStop, GuardAlways, StateStopped, done(EffectAnnounceGone), nil},

	{StateEvicted, InputRestart, GuardAlways, StateConnecting, done(EffectResetBudget, EffectDial), nil},
	{StateEvicted, InputStop, GuardAlways, StateStopped, done(EffectAnnounceGone), nil},

	{StateStopping, InputReleased, GuardAlways, StateStopped, done(EffectAnnounceGone), nil},
}

func TestEachRow(t *testing.T) {
	for _, r := range rows {
		name := string(r.from) + " " + string(r.on) + " " + string(r.when)
		t.Run(name, func(t *testing.T) {
			drive := r.script
			if drive == nil {
				drive = func(t *testing.T) *script { return reach(t, r.from) }
			}
			s := drive(t).in(r.from)
			ev := Input{Kind: r.on, Epoch: s.Epoch()}
			if r.on == InputTimer {
				ev.Token = s.armed.Token
			}
			if r.when == GuardStandbyReady {
				ev.Spare = s.NextEpoch()
			}
			before := s.Epoch()
			s.now = s.now.Add(time.Hour)
			s.does(ev, r.do...).in(r.to)
			if r.from != r.to {
				require.Equal(t, s.now, s.Since())
			} else {
				require.Equal(t, s.now.Add(-time.Hour), s.Since())
			}
			for _, e := range s.last {
				switch e.Kind {
				case EffectDial:
					before++
				case EffectTakeOver:
					before = ev.Spare
				}
				require.Equal(t, before, e.Epoch, "the epoch of %s", e.Kind)
				needsCause := e.Kind == EffectWithdraw || e.Kind == EffectEndSession || e.Kind == EffectAnnounceGone
				require.Equal(t, needsCause, e.Cause != nil, "%s", e.Kind)
			}
		})
	}
}

// The table in the code and the one above hold the same rows, no more and no
// fewer, so that a row cannot be added without saying what it must do.
func TestTheTableHoldsTheseRows(t *testing.T) {
	type key struct {
		from State
		on   InputKind
		when Guard
	}
	want := map[key]bool{}
	for _, r := range rows {
		want[key{r.from, r.on, r.when}] = true
	}
	require.Len(t, want, len(rows), "two rows of the test are the same")
	got := map[key]bool{}
	for _, tr := range Transitions() {
		got[key{tr.From, tr.On, tr.When}] = true
	}
	require.Len(t, got, len(Transitions()), "two rows of the table are the same: the second is never taken")
	require.Equal(t, want, got)
}

// Where a state has no row for an event, the event means nothing there: no
// effect, no change of any kind.
func TestEventsWithoutARowAreIgnored(t *testing.T) {
	has := map[State]map[InputKind]bool{}
	for _, r := range rows {
		if has[r.from] == nil {
			has[r.from] = map[InputKind]bool{}
		}
		has[r.from][r.on] = true
	}
	events := []InputKind{InputRegister, InputOpened, InputDiscovered, InputFailed, InputDied, InputReleased, InputTimer, InputRestart, InputStop, "unheard of"}
	for _, state := range append(States(), StateNew) {
		for _, kind := range events {
			if has[state][kind] {
				continue
			}
			s := reach(t, state)
			since, attempt, restarts, cause := s.Since(), s.Attempt(), s.Restarts(), s.Cause()
			s.now = s.now.Add(time.Hour)
			s.does(Input{Kind: kind, Epoch: s.Epoch(), Cause: hopeless()}).in(state)
			require.Nil(t, s.last)
			require.Equal(t, []any{since, attempt, restarts, cause}, []any{s.Since(), s.Attempt(), s.Restarts(), s.Cause()}, "%s in %s", kind, state)
		}
	}
}

// Guarded rows are tried in order: one without a guard ends its group, or
// those behind it would be dead; a group that never ends could swallow an
// event that must not be lost.
func TestGuardedRowsEndWithAnUnguardedOne(t *testing.T) {
	type group struct {
		from State
		on   InputKind
	}
	closed := map[group]bool{}
	for _, tr := range Transitions() {
		g := group{tr.From, tr.On}
		require.False(t, closed[g], "row %v is never reached", tr)
		closed[g] = tr.When == GuardAlways
	}
	for g, ok := range closed {
		require.True(t, ok, "%v may match no row", g)
	}
}

func TestTransitionsAreACopy(t *testing.T) {
	rows := Transitions()
	rows[0].To, rows[0].Do[0] = StateEvicted, EffectAnnounceGone
	require.Equal(t, StateConnecting, Transitions()[0].To)
	require.Equal(t, EffectDial, Transitions()[0].Do[0])
	reach(t, StateNew).does(Input{Kind: InputRegister}, EffectDial).in(StateConnecting)
}

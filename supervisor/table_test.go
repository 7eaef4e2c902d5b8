package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func done(kinds ...supervisor.EffectKind) []supervisor.EffectKind { return kinds }

// rows is what the lifecycle must do, written a second time and from the promises
// rather than from the table.
var rows = []struct {
	from   supervisor.State
	on     supervisor.InputKind
	when   supervisor.Guard
	to     supervisor.State
	do     []supervisor.EffectKind
	script func(*testing.T) *script // nil: the shortest way to from
}{
	{supervisor.StateNew, supervisor.InputRegister, supervisor.GuardAlways, supervisor.StateConnecting, done(supervisor.EffectDial), nil},
	{supervisor.StateNew, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopped, done(supervisor.EffectAnnounceGone), nil},

	{supervisor.StateConnecting, supervisor.InputOpened, supervisor.GuardAlways, supervisor.StateDiscovering, done(supervisor.EffectDiscover), nil},
	{supervisor.StateConnecting, supervisor.InputFailed, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectEndSession), nil},
	{supervisor.StateConnecting, supervisor.InputDied, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectEndSession), nil},
	{supervisor.StateConnecting, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectEndSession), nil},
	{supervisor.StateConnecting, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopping, done(supervisor.EffectEndSession), nil},

	{supervisor.StateDiscovering, supervisor.InputDiscovered, supervisor.GuardAlways, supervisor.StateReady, done(supervisor.EffectPublish, supervisor.EffectArmStable), nil},
	{supervisor.StateDiscovering, supervisor.InputFailed, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectEndSession), nil},
	{supervisor.StateDiscovering, supervisor.InputDied, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectEndSession), nil},
	{supervisor.StateDiscovering, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectEndSession), nil},
	{supervisor.StateDiscovering, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopping, done(supervisor.EffectEndSession), nil},

	{supervisor.StateReady, supervisor.InputTimer, supervisor.GuardAlways, supervisor.StateReady, done(supervisor.EffectResetBudget), nil},
	{supervisor.StateReady, supervisor.InputDied, supervisor.GuardStandbyReady, supervisor.StateReady, done(supervisor.EffectCancelTimer, supervisor.EffectWithdraw, supervisor.EffectEndSession, supervisor.EffectTakeOver, supervisor.EffectPublish, supervisor.EffectArmStable), nil},
	{supervisor.StateReady, supervisor.InputDied, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectCancelTimer, supervisor.EffectWithdraw, supervisor.EffectEndSession), nil},
	{supervisor.StateReady, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateClosing, done(supervisor.EffectCancelTimer, supervisor.EffectWithdraw, supervisor.EffectEndSession), nil},
	{supervisor.StateReady, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopping, done(supervisor.EffectCancelTimer, supervisor.EffectWithdraw, supervisor.EffectEndSession), nil},

	{supervisor.StateClosing, supervisor.InputReleased, supervisor.GuardRestartRequested, supervisor.StateConnecting, done(supervisor.EffectResetBudget, supervisor.EffectDial), func(t *testing.T) *script {
		return reach(t, supervisor.StateClosing).on(supervisor.InputRestart)
	}},
	{supervisor.StateClosing, supervisor.InputReleased, supervisor.GuardFirstStart, supervisor.StateStopped, done(supervisor.EffectAnnounceGone), func(t *testing.T) *script {
		return newScript(t, supervisor.Retry(3, time.Second), false).on(supervisor.InputRegister).on(supervisor.InputFailed)
	}},
	{supervisor.StateClosing, supervisor.InputReleased, supervisor.GuardAuthRequired, supervisor.StateUnauthorized, done(supervisor.EffectAnnounceGone), func(t *testing.T) *script {
		s := reach(t, supervisor.StateConnecting)
		s.step(supervisor.Input{Kind: supervisor.InputFailed, Epoch: 1, Cause: authCause()})
		return s
	}},
	{supervisor.StateClosing, supervisor.InputReleased, supervisor.GuardPermanent, supervisor.StateEvicted, done(supervisor.EffectAnnounceGone), func(t *testing.T) *script {
		s := reach(t, supervisor.StateConnecting)
		s.step(supervisor.Input{Kind: supervisor.InputFailed, Epoch: 1, Cause: permanentCause()})
		return s
	}},
	{supervisor.StateClosing, supervisor.InputReleased, supervisor.GuardBudgetLeft, supervisor.StateBackoff, done(supervisor.EffectArmRetry), nil},
	{supervisor.StateClosing, supervisor.InputReleased, supervisor.GuardMayPark, supervisor.StateParked, done(supervisor.EffectAnnounceGone, supervisor.EffectArmPark), func(t *testing.T) *script {
		return newScript(t, supervisor.Retry(0, 0, supervisor.WithParking(time.Minute)), true).on(supervisor.InputRegister).on(supervisor.InputFailed)
	}},
	{supervisor.StateClosing, supervisor.InputReleased, supervisor.GuardAlways, supervisor.StateEvicted, done(supervisor.EffectAnnounceGone), func(t *testing.T) *script {
		return newScript(t, supervisor.NoRetry, true).on(supervisor.InputRegister).on(supervisor.InputFailed)
	}},
	{supervisor.StateClosing, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateClosing, nil, nil},
	{supervisor.StateClosing, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopping, nil, nil},

	{supervisor.StateBackoff, supervisor.InputTimer, supervisor.GuardAlways, supervisor.StateConnecting, done(supervisor.EffectDial), nil},
	{supervisor.StateBackoff, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateConnecting, done(supervisor.EffectCancelTimer, supervisor.EffectResetBudget, supervisor.EffectDial), nil},
	{supervisor.StateBackoff, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopped, done(supervisor.EffectCancelTimer, supervisor.EffectAnnounceGone), nil},

	{supervisor.StateParked, supervisor.InputTimer, supervisor.GuardAlways, supervisor.StateConnecting, done(supervisor.EffectDial), nil},
	{supervisor.StateParked, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateConnecting, done(supervisor.EffectCancelTimer, supervisor.EffectResetBudget, supervisor.EffectDial), nil},
	{supervisor.StateParked, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopped, done(supervisor.EffectCancelTimer, supervisor.EffectAnnounceGone), nil},

	{supervisor.StateUnauthorized, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateConnecting, done(supervisor.EffectResetBudget, supervisor.EffectDial), nil},
	{supervisor.StateUnauthorized, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopped, done(supervisor.EffectAnnounceGone), nil},

	{supervisor.StateEvicted, supervisor.InputRestart, supervisor.GuardAlways, supervisor.StateConnecting, done(supervisor.EffectResetBudget, supervisor.EffectDial), nil},
	{supervisor.StateEvicted, supervisor.InputStop, supervisor.GuardAlways, supervisor.StateStopped, done(supervisor.EffectAnnounceGone), nil},

	{supervisor.StateStopping, supervisor.InputReleased, supervisor.GuardAlways, supervisor.StateStopped, done(supervisor.EffectAnnounceGone), nil},
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
			ev := supervisor.Input{Kind: r.on, Epoch: s.Epoch()}
			if r.on == supervisor.InputTimer {
				ev.Token = s.armed.Token
			}
			if r.when == supervisor.GuardStandbyReady {
				ev.Standby = s.NextEpoch()
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
				case supervisor.EffectDial:
					before++
				case supervisor.EffectTakeOver:
					before = ev.Standby
				}
				require.Equal(t, before, e.Epoch, "the epoch of %s", e.Kind)
				needsCause := e.Kind == supervisor.EffectWithdraw || e.Kind == supervisor.EffectEndSession || e.Kind == supervisor.EffectAnnounceGone
				require.Equal(t, needsCause, e.Cause != nil, "%s", e.Kind)
			}
		})
	}
}

// The table in the code and the one above hold the same rows, so that a row cannot be
// added without a statement of what it must do.
func TestTableHoldsTheseRows(t *testing.T) {
	type key struct {
		from supervisor.State
		on   supervisor.InputKind
		when supervisor.Guard
	}
	want := map[key]bool{}
	for _, r := range rows {
		want[key{r.from, r.on, r.when}] = true
	}
	require.Len(t, want, len(rows), "two rows of the test are the same")
	got := map[key]bool{}
	for _, tr := range supervisor.Transitions() {
		got[key{tr.From, tr.On, tr.When}] = true
	}
	require.Len(t, got, len(supervisor.Transitions()), "two rows of the table are the same: the second is never taken")
	require.Equal(t, want, got)
}

// An input without a row in a state has no effect and changes nothing.
func TestInputsWithoutARowAreIgnored(t *testing.T) {
	has := map[supervisor.State]map[supervisor.InputKind]bool{}
	for _, r := range rows {
		if has[r.from] == nil {
			has[r.from] = map[supervisor.InputKind]bool{}
		}
		has[r.from][r.on] = true
	}
	events := []supervisor.InputKind{supervisor.InputRegister, supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputFailed, supervisor.InputDied, supervisor.InputReleased, supervisor.InputTimer, supervisor.InputRestart, supervisor.InputStop, "unknown"}
	for _, state := range append(supervisor.States(), supervisor.StateNew) {
		for _, kind := range events {
			if has[state][kind] {
				continue
			}
			s := reach(t, state)
			since, attempt, restarts, cause := s.Since(), s.Attempt(), s.Restarts(), s.Cause()
			s.now = s.now.Add(time.Hour)
			s.does(supervisor.Input{Kind: kind, Epoch: s.Epoch(), Cause: permanentCause()}).in(state)
			require.Nil(t, s.last)
			require.Equal(t, []any{since, attempt, restarts, cause}, []any{s.Since(), s.Attempt(), s.Restarts(), s.Cause()}, "%s in %s", kind, state)
		}
	}
}

// A guarded group of rows ends with an unguarded one: otherwise an input could be
// swallowed, or a later row could be unreachable.
func TestGuardedRowsEndWithAnUnguardedOne(t *testing.T) {
	requireUnguardedEnds(t, supervisor.Transitions(), func(r supervisor.Transition) (any, supervisor.Guard) {
		return [2]any{r.From, r.On}, r.When
	})
}

// requireUnguardedEnds checks the rows of one table. describe returns the state and input
// of a row, and its guard.
func requireUnguardedEnds[Row any](t *testing.T, rows []Row, describe func(Row) (group any, when supervisor.Guard)) {
	t.Helper()
	closed := map[any]bool{}
	for _, r := range rows {
		group, when := describe(r)
		require.False(t, closed[group], "row %v is never reached", r)
		closed[group] = when == supervisor.GuardAlways
	}
	for group, ok := range closed {
		require.True(t, ok, "%v may match no row", group)
	}
}

func TestTransitionsAreACopy(t *testing.T) {
	rows := supervisor.Transitions()
	rows[0].To, rows[0].Do[0] = supervisor.StateEvicted, supervisor.EffectAnnounceGone
	require.Equal(t, supervisor.StateConnecting, supervisor.Transitions()[0].To)
	require.Equal(t, supervisor.EffectDial, supervisor.Transitions()[0].Do[0])
	reach(t, supervisor.StateNew).does(supervisor.Input{Kind: supervisor.InputRegister}, supervisor.EffectDial).in(supervisor.StateConnecting)
}

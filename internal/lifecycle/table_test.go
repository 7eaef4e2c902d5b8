package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func done(kinds ...lifecycle.EffectKind) []lifecycle.EffectKind { return kinds }

// rows is what the lifecycle must do, written a second time and from the promises
// rather than from the table.
var rows = []struct {
	from   supervisor.State
	on     lifecycle.InputKind
	when   lifecycle.Guard
	to     supervisor.State
	do     []lifecycle.EffectKind
	script func(*testing.T) *script // nil: the shortest way to from
}{
	{lifecycle.StateNew, lifecycle.InputRegister, lifecycle.GuardAlways, supervisor.StateConnecting, done(lifecycle.EffectDial), nil},
	{lifecycle.StateNew, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopped, done(lifecycle.EffectAnnounceGone), nil},

	{supervisor.StateConnecting, lifecycle.InputOpened, lifecycle.GuardAlways, supervisor.StateDiscovering, done(lifecycle.EffectDiscover), nil},
	{supervisor.StateConnecting, lifecycle.InputFailed, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateConnecting, lifecycle.InputDied, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateConnecting, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateConnecting, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateConnecting, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopping, done(lifecycle.EffectEndSession), nil},

	{supervisor.StateDiscovering, lifecycle.InputDiscovered, lifecycle.GuardAlways, supervisor.StateReady, done(lifecycle.EffectPublish, lifecycle.EffectArmStable), nil},
	{supervisor.StateDiscovering, lifecycle.InputFailed, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateDiscovering, lifecycle.InputDied, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateDiscovering, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateDiscovering, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectEndSession), nil},
	{supervisor.StateDiscovering, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopping, done(lifecycle.EffectEndSession), nil},

	{supervisor.StateReady, lifecycle.InputTimer, lifecycle.GuardAlways, supervisor.StateReady, done(lifecycle.EffectResetBudget), nil},
	{supervisor.StateReady, lifecycle.InputDied, lifecycle.GuardStandbyReady, supervisor.StateReady, done(lifecycle.EffectCancelTimer, lifecycle.EffectWithdraw, lifecycle.EffectEndSession, lifecycle.EffectTakeOver, lifecycle.EffectPublish, lifecycle.EffectArmStable), nil},
	{supervisor.StateReady, lifecycle.InputDied, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectCancelTimer, lifecycle.EffectWithdraw, lifecycle.EffectEndSession), nil},
	{supervisor.StateReady, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectCancelTimer, lifecycle.EffectWithdraw, lifecycle.EffectEndSession), nil},
	{supervisor.StateReady, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateClosing, done(lifecycle.EffectCancelTimer, lifecycle.EffectWithdraw, lifecycle.EffectEndSession), nil},
	{supervisor.StateReady, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopping, done(lifecycle.EffectCancelTimer, lifecycle.EffectWithdraw, lifecycle.EffectEndSession), nil},

	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardRestartRequested, supervisor.StateConnecting, done(lifecycle.EffectResetBudget, lifecycle.EffectDial), func(t *testing.T) *script {
		return reach(t, supervisor.StateClosing).on(lifecycle.InputRestart)
	}},
	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardFirstStart, supervisor.StateStopped, done(lifecycle.EffectAnnounceGone), func(t *testing.T) *script {
		return newScript(t, supervisor.Retry(3, time.Second), false).on(lifecycle.InputRegister).on(lifecycle.InputFailed)
	}},
	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardAuthRequired, supervisor.StateUnauthorized, done(lifecycle.EffectAnnounceGone), func(t *testing.T) *script {
		s := reach(t, supervisor.StateConnecting)
		s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1, Cause: authCause()})
		return s
	}},
	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardPermanent, supervisor.StateEvicted, done(lifecycle.EffectAnnounceGone), func(t *testing.T) *script {
		s := reach(t, supervisor.StateConnecting)
		s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1, Cause: permanentCause()})
		return s
	}},
	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardHost, supervisor.StateParked, done(lifecycle.EffectAnnounceGone, lifecycle.EffectArmPark), func(t *testing.T) *script {
		s := reach(t, supervisor.StateConnecting)
		s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1, Cause: &supervisor.Cause{Kind: supervisor.CauseSpawn, Host: true}})
		return s
	}},
	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardBudgetLeft, supervisor.StateBackoff, done(lifecycle.EffectArmRetry), nil},
	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardMayPark, supervisor.StateParked, done(lifecycle.EffectAnnounceGone, lifecycle.EffectArmPark), func(t *testing.T) *script {
		return newScript(t, supervisor.Retry(0, 0, supervisor.WithParking(time.Minute)), true).on(lifecycle.InputRegister).on(lifecycle.InputFailed)
	}},
	{supervisor.StateClosing, lifecycle.InputReleased, lifecycle.GuardAlways, supervisor.StateEvicted, done(lifecycle.EffectAnnounceGone), func(t *testing.T) *script {
		return newScript(t, supervisor.NoRetry(), true).on(lifecycle.InputRegister).on(lifecycle.InputFailed)
	}},
	{supervisor.StateClosing, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateClosing, nil, nil},
	{supervisor.StateClosing, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateClosing, nil, nil},
	{supervisor.StateClosing, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopping, nil, nil},

	{supervisor.StateBackoff, lifecycle.InputTimer, lifecycle.GuardAlways, supervisor.StateConnecting, done(lifecycle.EffectDial), nil},
	{supervisor.StateBackoff, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateConnecting, done(lifecycle.EffectCancelTimer, lifecycle.EffectResetBudget, lifecycle.EffectDial), nil},
	{supervisor.StateBackoff, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateEvicted, done(lifecycle.EffectCancelTimer, lifecycle.EffectAnnounceGone), nil},
	{supervisor.StateBackoff, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopped, done(lifecycle.EffectCancelTimer, lifecycle.EffectAnnounceGone), nil},

	{supervisor.StateParked, lifecycle.InputTimer, lifecycle.GuardAlways, supervisor.StateConnecting, done(lifecycle.EffectDial), nil},
	{supervisor.StateParked, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateConnecting, done(lifecycle.EffectCancelTimer, lifecycle.EffectResetBudget, lifecycle.EffectDial), nil},
	{supervisor.StateParked, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateEvicted, done(lifecycle.EffectCancelTimer, lifecycle.EffectAnnounceGone), nil},
	{supervisor.StateParked, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopped, done(lifecycle.EffectCancelTimer, lifecycle.EffectAnnounceGone), nil},

	{supervisor.StateUnauthorized, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateConnecting, done(lifecycle.EffectResetBudget, lifecycle.EffectDial), nil},
	{supervisor.StateUnauthorized, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateEvicted, done(lifecycle.EffectAnnounceGone), nil},
	{supervisor.StateUnauthorized, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopped, done(lifecycle.EffectAnnounceGone), nil},

	{supervisor.StateEvicted, lifecycle.InputRestart, lifecycle.GuardFenced, supervisor.StateEvicted, nil, func(t *testing.T) *script {
		return reach(t, supervisor.StateBackoff).on(lifecycle.InputFence)
	}},
	{supervisor.StateEvicted, lifecycle.InputRestart, lifecycle.GuardAlways, supervisor.StateConnecting, done(lifecycle.EffectResetBudget, lifecycle.EffectDial), nil},
	{supervisor.StateEvicted, lifecycle.InputFence, lifecycle.GuardAlways, supervisor.StateEvicted, nil, nil},
	{supervisor.StateEvicted, lifecycle.InputStop, lifecycle.GuardAlways, supervisor.StateStopped, done(lifecycle.EffectAnnounceGone), nil},

	{supervisor.StateStopping, lifecycle.InputReleased, lifecycle.GuardAlways, supervisor.StateStopped, done(lifecycle.EffectAnnounceGone), nil},
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
			ev := lifecycle.Input{Kind: r.on, Epoch: s.Epoch()}
			if r.on == lifecycle.InputTimer {
				ev.Token = s.armed.Token
			}
			if r.when == lifecycle.GuardStandbyReady {
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
				case lifecycle.EffectDial:
					before++
				case lifecycle.EffectTakeOver:
					before = ev.Standby
				default:
				}
				require.Equal(t, before, e.Epoch, "the epoch of %s", e.Kind)
				needsCause := e.Kind == lifecycle.EffectWithdraw || e.Kind == lifecycle.EffectEndSession || e.Kind == lifecycle.EffectAnnounceGone
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
		on   lifecycle.InputKind
		when lifecycle.Guard
	}
	want := map[key]bool{}
	for _, r := range rows {
		want[key{r.from, r.on, r.when}] = true
	}
	require.Len(t, want, len(rows), "two rows of the test are the same")
	got := map[key]bool{}
	for _, tr := range lifecycle.Transitions() {
		got[key{tr.From, tr.On, tr.When}] = true
	}
	require.Len(t, got, len(lifecycle.Transitions()), "two rows of the table are the same: the second is never taken")
	require.Equal(t, want, got)
}

// An input without a row in a state has no effect and changes nothing.
func TestInputsWithoutARowAreIgnored(t *testing.T) {
	has := map[supervisor.State]map[lifecycle.InputKind]bool{}
	for _, r := range rows {
		if has[r.from] == nil {
			has[r.from] = map[lifecycle.InputKind]bool{}
		}
		has[r.from][r.on] = true
	}
	events := []lifecycle.InputKind{lifecycle.InputRegister, lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputFailed, lifecycle.InputDied, lifecycle.InputReleased, lifecycle.InputTimer, lifecycle.InputRestart, lifecycle.InputFence, lifecycle.InputStop, "unknown"}
	for _, state := range append(supervisor.States(), lifecycle.StateNew) {
		for _, kind := range events {
			if has[state][kind] {
				continue
			}
			s := reach(t, state)
			since, attempt, restarts, cause := s.Since(), s.Attempt(), s.Restarts(), s.Cause()
			s.now = s.now.Add(time.Hour)
			s.does(lifecycle.Input{Kind: kind, Epoch: s.Epoch(), Cause: permanentCause()}).in(state)
			require.Nil(t, s.last)
			require.Equal(t, []any{since, attempt, restarts, cause}, []any{s.Since(), s.Attempt(), s.Restarts(), s.Cause()}, "%s in %s", kind, state)
		}
	}
}

// A guarded group of rows ends with an unguarded one: otherwise an input could be
// swallowed, or a later row could be unreachable.
func TestGuardedRowsEndWithAnUnguardedOne(t *testing.T) {
	requireUnguardedEnds(t, lifecycle.Transitions(), func(r lifecycle.Transition) (any, lifecycle.Guard) {
		return [2]any{r.From, r.On}, r.When
	})
}

// requireUnguardedEnds checks the rows of one table. describe returns the state and input
// of a row, and its guard.
func requireUnguardedEnds[Row any](t *testing.T, rows []Row, describe func(Row) (group any, when lifecycle.Guard)) {
	t.Helper()
	closed := map[any]bool{}
	for _, r := range rows {
		group, when := describe(r)
		require.False(t, closed[group], "row %v is never reached", r)
		closed[group] = when == lifecycle.GuardAlways
	}
	for group, ok := range closed {
		require.True(t, ok, "%v may match no row", group)
	}
}

func TestTransitionsAreACopy(t *testing.T) {
	rows := lifecycle.Transitions()
	rows[0].To, rows[0].Do[0] = supervisor.StateEvicted, lifecycle.EffectAnnounceGone
	require.Equal(t, supervisor.StateConnecting, lifecycle.Transitions()[0].To)
	require.Equal(t, lifecycle.EffectDial, lifecycle.Transitions()[0].Do[0])
	reach(t, lifecycle.StateNew).does(lifecycle.Input{Kind: lifecycle.InputRegister}, lifecycle.EffectDial).in(supervisor.StateConnecting)
}

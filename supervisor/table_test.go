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
	on     EventKind
	when   Guard
	to     State
	do     []EffectKind
	script func(*testing.T) *script // nil: the shortest road to from
}{
	{New, EvRegister, Always, Connecting, done(DoDial), nil},
	{New, EvStop, Always, Stopped, done(DoGone), nil},

	{Connecting, EvOpened, Always, Discovering, done(DoDiscover), nil},
	{Connecting, EvFailed, Always, Closing, done(DoReap), nil},
	{Connecting, EvDied, Always, Closing, done(DoReap), nil},
	{Connecting, EvRestart, Always, Closing, done(DoReap), nil},
	{Connecting, EvStop, Always, Stopping, done(DoReap), nil},

	{Discovering, EvDiscovered, Always, Ready, done(DoPublish, DoArmStable), nil},
	{Discovering, EvFailed, Always, Closing, done(DoReap), nil},
	{Discovering, EvDied, Always, Closing, done(DoReap), nil},
	{Discovering, EvRestart, Always, Closing, done(DoReap), nil},
	{Discovering, EvStop, Always, Stopping, done(DoReap), nil},

	{Ready, EvTimer, Always, Ready, done(DoResetBudget), nil},
	{Ready, EvDied, SpareReady, Ready, done(DoCancelTimer, DoWithdraw, DoReap, DoTakeOver, DoPublish, DoArmStable), nil},
	{Ready, EvDied, Always, Closing, done(DoCancelTimer, DoWithdraw, DoReap), nil},
	{Ready, EvRestart, Always, Closing, done(DoCancelTimer, DoWithdraw, DoReap), nil},
	{Ready, EvStop, Always, Stopping, done(DoCancelTimer, DoWithdraw, DoReap), nil},

	{Closing, EvReleased, RestartAsked, Connecting, done(DoResetBudget, DoDial), func(t *testing.T) *script {
		return reach(t, Closing).on(EvRestart)
	}},
	{Closing, EvReleased, FirstStart, Stopped, done(DoGone), func(t *testing.T) *script {
		return newScript(t, Retry(3, time.Second), false).on(EvRegister).on(EvFailed)
	}},
	{Closing, EvReleased, WantsAuth, Unauthorized, done(DoGone), func(t *testing.T) *script {
		s := reach(t, Connecting)
		s.step(Event{Kind: EvFailed, Epoch: 1, Cause: forbidden()})
		return s
	}},
	{Closing, EvReleased, Permanent, Evicted, done(DoGone), func(t *testing.T) *script {
		s := reach(t, Connecting)
		s.step(Event{Kind: EvFailed, Epoch: 1, Cause: hopeless()})
		return s
	}},
	{Closing, EvReleased, BudgetLeft, Backoff, done(DoArmRetry), nil},
	{Closing, EvReleased, MayPark, Parked, done(DoGone, DoArmPark), func(t *testing.T) *script {
		return newScript(t, Retry(0, 0, Park(time.Minute)), true).on(EvRegister).on(EvFailed)
	}},
	{Closing, EvReleased, Always, Evicted, done(DoGone), func(t *testing.T) *script {
		return newScript(t, NoRetry, true).on(EvRegister).on(EvFailed)
	}},
	{Closing, EvRestart, Always, Closing, nil, nil},
	{Closing, EvStop, Always, Stopping, nil, nil},

	{Backoff, EvTimer, Always, Connecting, done(DoDial), nil},
	{Backoff, EvRestart, Always, Connecting, done(DoCancelTimer, DoResetBudget, DoDial), nil},
	{Backoff, EvStop, Always, Stopped, done(DoCancelTimer, DoGone), nil},

	{Parked, EvTimer, Always, Connecting, done(DoDial), nil},
	{Parked, EvRestart, Always, Connecting, done(DoCancelTimer, DoResetBudget, DoDial), nil},
	{Parked, EvStop, Always, Stopped, done(DoCancelTimer, DoGone), nil},

	{Unauthorized, EvRestart, Always, Connecting, done(DoResetBudget, DoDial), nil},
	{Unauthorized, EvStop, Always, Stopped, done(DoGone), nil},

	{Evicted, EvRestart, Always, Connecting, done(DoResetBudget, DoDial), nil},
	{Evicted, EvStop, Always, Stopped, done(DoGone), nil},

	{Stopping, EvReleased, Always, Stopped, done(DoGone), nil},
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
			ev := Event{Kind: r.on, Epoch: s.Epoch()}
			if r.on == EvTimer {
				ev.Token = s.armed.Token
			}
			if r.when == SpareReady {
				ev.Spare = s.Reserve()
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
				case DoDial:
					before++
				case DoTakeOver:
					before = ev.Spare
				}
				require.Equal(t, before, e.Epoch, "the epoch of %s", e.Kind)
				needsCause := e.Kind == DoWithdraw || e.Kind == DoReap || e.Kind == DoGone
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
		on   EventKind
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
	has := map[State]map[EventKind]bool{}
	for _, r := range rows {
		if has[r.from] == nil {
			has[r.from] = map[EventKind]bool{}
		}
		has[r.from][r.on] = true
	}
	events := []EventKind{EvRegister, EvOpened, EvDiscovered, EvFailed, EvDied, EvReleased, EvTimer, EvRestart, EvStop, "unheard of"}
	for _, state := range append(States(), New) {
		for _, kind := range events {
			if has[state][kind] {
				continue
			}
			s := reach(t, state)
			since, attempt, restarts, cause := s.Since(), s.Attempt(), s.Restarts(), s.Cause()
			s.now = s.now.Add(time.Hour)
			s.does(Event{Kind: kind, Epoch: s.Epoch(), Cause: hopeless()}).in(state)
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
		on   EventKind
	}
	closed := map[group]bool{}
	for _, tr := range Transitions() {
		g := group{tr.From, tr.On}
		require.False(t, closed[g], "row %v is never reached", tr)
		closed[g] = tr.When == Always
	}
	for g, ok := range closed {
		require.True(t, ok, "%v may match no row", g)
	}
}

func TestTransitionsAreACopy(t *testing.T) {
	rows := Transitions()
	rows[0].To, rows[0].Do[0] = Evicted, DoGone
	require.Equal(t, Connecting, Transitions()[0].To)
	require.Equal(t, DoDial, Transitions()[0].Do[0])
	reach(t, New).does(Event{Kind: EvRegister}, DoDial).in(Connecting)
}

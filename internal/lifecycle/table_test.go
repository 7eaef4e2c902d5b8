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

// A guarded group of rows ends with an unguarded one: otherwise an input could be
// swallowed, or a later row could be unreachable.
func TestGuardedRowsEndWithAnUnguardedOne(t *testing.T) {
	requireUnguardedEnds(t, lifecycle.Transitions(), func(r lifecycle.Transition) (any, lifecycle.Guard) {
		return [2]any{r.From, r.On}, r.When
	})
	requireUnguardedEnds(t, lifecycle.StandbyTransitions(), func(r lifecycle.StandbyTransition) (any, lifecycle.Guard) {
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

var epochStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// script drives one lifecycle by hand and in virtual time.
type script struct {
	*lifecycle.Lifecycle
	t   *testing.T
	now time.Time
	// last holds the effects of the last step, armed those of the last step
	// that armed a timer.
	last  []lifecycle.Effect
	armed lifecycle.Effect
}

func newScript(t *testing.T, p supervisor.Policy, supervised bool) *script {
	t.Helper()
	require.NoError(t, p.Validate())
	return &script{
		Lifecycle: lifecycle.NewLifecycle(p, supervised, func() float64 { return 0.5 }),
		t:         t, now: epochStart,
	}
}

// does feeds one input and checks the effects by kind, in order.
func (s *script) does(ev lifecycle.Input, want ...lifecycle.EffectKind) *script {
	s.t.Helper()
	s.step(ev)
	require.Equal(s.t, want, kinds(s.last), "effects of %q", ev.Kind)
	return s
}

func (s *script) step(ev lifecycle.Input) {
	s.last = s.Step(s.now, ev)
	for _, e := range s.last {
		if e.Token != 0 && e.Kind != lifecycle.EffectCancelTimer {
			s.armed = e
		}
	}
}

// on feeds an input of the current epoch.
func (s *script) on(kind lifecycle.InputKind) *script {
	s.step(lifecycle.Input{Kind: kind, Epoch: s.Epoch()})
	return s
}

// fire lets the armed timer run out.
func (s *script) fire() *script {
	s.now = s.now.Add(s.armed.Delay)
	s.step(lifecycle.Input{Kind: lifecycle.InputTimer, Token: s.armed.Token})
	return s
}

// start takes a dialled server to ready.
func (s *script) start() *script { return s.on(lifecycle.InputOpened).on(lifecycle.InputDiscovered) }

// crash ends the session and releases it.
func (s *script) crash() *script {
	s.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: s.Epoch(), Cause: exitCause()})
	return s.on(lifecycle.InputReleased)
}

func (s *script) in(want supervisor.State) *script {
	s.t.Helper()
	require.Equal(s.t, want, s.State())
	return s
}

func exitCause() *supervisor.Cause {
	code := 3
	return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", ExitCode: &code}
}

func permanentCause() *supervisor.Cause {
	return &supervisor.Cause{Kind: supervisor.CauseConfig, Message: "not found; check the path", Permanent: true}
}

// authCause is a cause that only the user can correct.
func authCause() *supervisor.Cause {
	return &supervisor.Cause{Kind: supervisor.CauseAuth, Message: "401; check the token", Permanent: true}
}

func kinds(effects []lifecycle.Effect) []lifecycle.EffectKind {
	var out []lifecycle.EffectKind
	for _, e := range effects {
		out = append(out, e.Kind)
	}
	return out
}

// find returns the one effect of that kind in the last step.
func (s *script) find(kind lifecycle.EffectKind) lifecycle.Effect {
	s.t.Helper()
	var found []lifecycle.Effect
	for _, e := range s.last {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	require.Len(s.t, found, 1, "effects of kind %q", kind)
	return found[0]
}

// reach makes a lifecycle in the given state, by the shortest way.
func reach(t *testing.T, state supervisor.State) *script {
	t.Helper()
	policy := supervisor.Retry(3, time.Second)
	switch state {
	case supervisor.StateParked:
		policy = supervisor.Retry(0, 0, supervisor.WithParking(time.Minute))
	case supervisor.StateEvicted:
		policy = supervisor.NoRetry()
	default:
	}
	s := newScript(t, policy, true)
	switch state {
	case lifecycle.StateNew:
	case supervisor.StateConnecting:
		s.on(lifecycle.InputRegister)
	case supervisor.StateDiscovering:
		s.on(lifecycle.InputRegister).on(lifecycle.InputOpened)
	case supervisor.StateReady:
		s.on(lifecycle.InputRegister).start()
	case supervisor.StateClosing:
		s.on(lifecycle.InputRegister).start().on(lifecycle.InputDied)
	case supervisor.StateBackoff, supervisor.StateParked, supervisor.StateEvicted:
		s.on(lifecycle.InputRegister).start().crash()
	case supervisor.StateUnauthorized:
		s.on(lifecycle.InputRegister).start()
		s.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: 1, Cause: authCause()})
		s.on(lifecycle.InputReleased)
	case supervisor.StateStopping:
		s.on(lifecycle.InputRegister).on(lifecycle.InputStop)
	case supervisor.StateStopped:
		s.on(lifecycle.InputRegister).on(lifecycle.InputStop).on(lifecycle.InputReleased)
	}
	return s.in(state)
}

package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func done(kinds ...lifecycle.EffectKind) []lifecycle.EffectKind { return kinds }

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
	case supervisor.StateUnregistered:
		s.on(lifecycle.InputRegister).on(lifecycle.InputStop).on(lifecycle.InputReleased)
	default:
	}
	return s.in(state)
}

package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

var epochStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// script drives one lifecycle by hand and in virtual time.
type script struct {
	*supervisor.Lifecycle
	t   *testing.T
	now time.Time
	// last holds the effects of the last step, armed those of the last step
	// that armed a timer.
	last  []supervisor.Effect
	armed supervisor.Effect
}

func newScript(t *testing.T, p supervisor.Policy, supervised bool) *script {
	t.Helper()
	require.NoError(t, p.Validate())
	return &script{
		Lifecycle: supervisor.NewLifecycle(p, supervised, func() float64 { return 0.5 }),
		t:         t, now: epochStart,
	}
}

// does feeds one input and checks the effects by kind, in order.
func (s *script) does(ev supervisor.Input, want ...supervisor.EffectKind) *script {
	s.t.Helper()
	s.step(ev)
	require.Equal(s.t, want, kinds(s.last), "effects of %q", ev.Kind)
	return s
}

func (s *script) step(ev supervisor.Input) {
	s.last = s.Step(s.now, ev)
	for _, e := range s.last {
		if e.Token != 0 && e.Kind != supervisor.EffectCancelTimer {
			s.armed = e
		}
	}
}

// on feeds an input of the current epoch.
func (s *script) on(kind supervisor.InputKind) *script {
	s.step(supervisor.Input{Kind: kind, Epoch: s.Epoch()})
	return s
}

// fire lets the armed timer run out.
func (s *script) fire() *script {
	s.now = s.now.Add(s.armed.Delay)
	s.step(supervisor.Input{Kind: supervisor.InputTimer, Token: s.armed.Token})
	return s
}

// start takes a dialled server to ready.
func (s *script) start() *script { return s.on(supervisor.InputOpened).on(supervisor.InputDiscovered) }

// crash ends the session and releases it.
func (s *script) crash() *script {
	s.step(supervisor.Input{Kind: supervisor.InputDied, Epoch: s.Epoch(), Cause: exitCause()})
	return s.on(supervisor.InputReleased)
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

func kinds(effects []supervisor.Effect) []supervisor.EffectKind {
	var out []supervisor.EffectKind
	for _, e := range effects {
		out = append(out, e.Kind)
	}
	return out
}

// find returns the one effect of that kind in the last step.
func (s *script) find(kind supervisor.EffectKind) supervisor.Effect {
	s.t.Helper()
	var found []supervisor.Effect
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
		policy = supervisor.NoRetry
	}
	s := newScript(t, policy, true)
	switch state {
	case supervisor.StateNew:
	case supervisor.StateConnecting:
		s.on(supervisor.InputRegister)
	case supervisor.StateDiscovering:
		s.on(supervisor.InputRegister).on(supervisor.InputOpened)
	case supervisor.StateReady:
		s.on(supervisor.InputRegister).start()
	case supervisor.StateClosing:
		s.on(supervisor.InputRegister).start().on(supervisor.InputDied)
	case supervisor.StateBackoff, supervisor.StateParked, supervisor.StateEvicted:
		s.on(supervisor.InputRegister).start().crash()
	case supervisor.StateUnauthorized:
		s.on(supervisor.InputRegister).start()
		s.step(supervisor.Input{Kind: supervisor.InputDied, Epoch: 1, Cause: authCause()})
		s.on(supervisor.InputReleased)
	case supervisor.StateStopping:
		s.on(supervisor.InputRegister).on(supervisor.InputStop)
	case supervisor.StateStopped:
		s.on(supervisor.InputRegister).on(supervisor.InputStop).on(supervisor.InputReleased)
	}
	return s.in(state)
}

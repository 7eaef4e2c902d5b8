package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A standby that was up for StableAfter does not count as a failed start.
func TestStandbyThatWasStableBeginsANewRow(t *testing.T) {
	s := newStandbyScript(t, supervisor.Retry(2, time.Second, supervisor.WithStableAfter(time.Minute))).on(lifecycle.InputServing)
	for range 5 {
		s.on(lifecycle.InputTimer, lifecycle.InputOpened, lifecycle.InputDiscovered)
		s.now = s.now.Add(time.Minute)
		s.on(lifecycle.InputDied, lifecycle.InputReleased).in(lifecycle.StandbyWaiting)
		require.Equal(t, time.Second, s.armed.Delay)
	}
}

// standbyMachine puts one standby between a world that answers as it likes and a
// model made of facts: is the server in service, is a session there, is a start
// planned.
type standbyMachine struct {
	t    *rapid.T
	s    *lifecycle.Standby
	p    supervisor.Policy
	now  time.Time
	seen map[lifecycle.StandbyState]int

	serving, draining        bool
	session                  *standbySession // nil: none
	planned                  bool            // a start is due at some time
	failures                 int
	permanent                bool   // the last failure had a permanent cause
	token                    uint64 // of the armed timer; 0: none
	due                      time.Time
	epoch                    uint64
	dials, ends, taken, lost int
}

type standbySession struct {
	opened, listed, ending bool
	dialled                time.Time
}

func (m *standbyMachine) feed(in lifecycle.Input) {
	want := m.expect(in)
	effects := m.s.Step(m.now, in)
	require.Equal(m.t, want, kinds(effects), "effects of %q", in.Kind)
	for _, e := range effects {
		switch e.Kind {
		case lifecycle.EffectDial:
			require.False(m.t, m.draining, "never more than two sessions")
			require.True(m.t, m.serving, "nothing is dialled beside a server that is not in service")
			require.Equal(m.t, m.epoch, e.Epoch)
			m.dials++
		case lifecycle.EffectEndSession:
			require.NotNil(m.t, e.Cause)
			m.ends++
		case lifecycle.EffectAnnounceLost:
			m.lost++
		case lifecycle.EffectArmStandby:
			require.Greater(m.t, e.Token, m.token, "tokens count up")
			m.token, m.due = e.Token, m.now.Add(e.Delay)
			want := time.Duration(0)
			switch in.Kind {
			case lifecycle.InputTakenOver:
				want = max(lifecycle.TakeoverPause, m.p.Delay(in.Attempt, 0))
			case lifecycle.InputReleased:
				want = m.p.Delay(m.failures, 0)
			default:
			}
			require.Equal(m.t, want, e.Delay)
		default:
		}
	}
	m.seen[m.s.State()]++
}

// expect is the model: it changes the facts and says which effects follow.
func (m *standbyMachine) expect(in lifecycle.Input) []lifecycle.EffectKind {
	current := m.session != nil && in.Epoch == m.epoch
	running := current && !m.session.ending
	switch in.Kind {
	case lifecycle.InputServing:
		if !m.serving {
			m.serving, m.planned, m.failures, m.permanent = true, true, 0, false
			return done(lifecycle.EffectArmStandby)
		}
	case lifecycle.InputWithdrawn:
		return m.withdraw()
	case lifecycle.InputDrained:
		if m.draining = false; m.serving && m.planned && m.token == 0 {
			return m.dial()
		}
	case lifecycle.InputTakenOver:
		m.session, m.draining, m.planned = nil, true, true
		m.taken++
		return done(lifecycle.EffectArmStandby)
	case lifecycle.InputTimer:
		if m.token == 0 || in.Token != m.token {
			return nil
		}
		if m.token = 0; !m.draining {
			return m.dial()
		}
	case lifecycle.InputOpened:
		if running && !m.session.opened {
			m.session.opened = true
			return done(lifecycle.EffectDiscover)
		}
	case lifecycle.InputDiscovered:
		if running && m.session.opened && !m.session.listed {
			m.session.listed = true
			return done(lifecycle.EffectAnnounceStandby)
		}
	case lifecycle.InputFailed, lifecycle.InputDied:
		if running && (in.Kind == lifecycle.InputDied || !m.session.listed) {
			m.session.ending = true
			m.fail(in.Cause)
			return done(lifecycle.EffectEndSession, lifecycle.EffectAnnounceLost)
		}
	case lifecycle.InputReleased:
		if current && m.session.ending {
			m.session = nil
			if m.serving && !m.permanent && (m.p.MaxAttempts == supervisor.Unlimited || m.failures <= m.p.MaxAttempts) {
				m.planned = true
				return done(lifecycle.EffectArmStandby)
			}
		}
	default:
	}
	return nil
}

func (m *standbyMachine) dial() []lifecycle.EffectKind {
	m.planned, m.session = false, &standbySession{dialled: m.now}
	m.epoch++ // what nextEpoch gives out
	return done(lifecycle.EffectDial)
}

func (m *standbyMachine) withdraw() (effects []lifecycle.EffectKind) {
	if !m.serving {
		return nil
	}
	if m.token != 0 {
		effects = done(lifecycle.EffectCancelTimer)
	}
	m.serving, m.planned, m.token = false, false, 0
	if m.session != nil && !m.session.ending {
		m.session.ending = true
		effects = append(effects, lifecycle.EffectEndSession)
	}
	return effects
}

func (m *standbyMachine) fail(cause *supervisor.Cause) {
	stable := m.p.StableAfter
	if stable == 0 {
		stable = defaults.StableAfter
	}
	if m.failures++; m.now.Sub(m.session.dialled) >= stable {
		m.failures = 1
	}
	m.permanent = cause != nil && cause.Permanent
}

func (m *standbyMachine) check(*rapid.T) {
	require.Equal(m.t, m.session != nil, m.s.State().Live())
	require.Equal(m.t, m.session != nil, m.s.Owns(m.epoch) && m.epoch > 1)
	require.Equal(m.t, m.session != nil && m.session.listed && !m.session.ending, m.s.State() == lifecycle.StandbyReady)
	require.Equal(m.t, m.token != 0, m.s.State() == lifecycle.StandbyWaiting)
	live := 0
	if m.session != nil && !m.session.ending {
		live = 1
	}
	require.Equal(m.t, m.dials, m.ends+m.taken+live, "each session is ended or taken over, once")
	require.LessOrEqual(m.t, m.lost, m.ends)
}

// answer does what a good server would do next, or lets the timer run out.
func (m *standbyMachine) answer(t *rapid.T) {
	switch s := m.session; {
	case m.token != 0:
		m.now = m.due
		m.feed(lifecycle.Input{Kind: lifecycle.InputTimer, Token: m.token})
	case s == nil:
		t.Skip("nothing to wait for")
	case s.ending:
		m.feed(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: m.epoch})
	case !s.opened:
		m.feed(lifecycle.Input{Kind: lifecycle.InputOpened, Epoch: m.epoch})
	case !s.listed:
		m.feed(lifecycle.Input{Kind: lifecycle.InputDiscovered, Epoch: m.epoch})
	default:
		t.Skip("it is ready")
	}
}

// lifecycle does what the lifecycle beside it may decide at this moment.
func (m *standbyMachine) lifecycle(t *rapid.T) {
	ready := m.session != nil && m.session.listed && !m.session.ending
	switch n := rapid.IntRange(0, 5).Draw(t, "lifecycle"); {
	case m.draining && n < 3:
		m.feed(lifecycle.Input{Kind: lifecycle.InputDrained})
	case ready && n < 4:
		m.feed(lifecycle.Input{Kind: lifecycle.InputTakenOver, Attempt: rapid.IntRange(1, 3).Draw(t, "attempt")})
	case !m.serving && (m.session != nil || m.draining):
		t.Skip("the lifecycle waits until everything is released")
	case !m.serving:
		m.feed(lifecycle.Input{Kind: lifecycle.InputServing})
	case n == 5:
		m.feed(lifecycle.Input{Kind: lifecycle.InputWithdrawn, Cause: exitCause()})
	default:
		t.Skip("seldom")
	}
}

func (m *standbyMachine) end(t *rapid.T) {
	kind := rapid.SampledFrom([]lifecycle.InputKind{lifecycle.InputFailed, lifecycle.InputDied}).Draw(t, "kind")
	cause := rapid.SampledFrom([]*supervisor.Cause{nil, exitCause(), exitCause(), exitCause(), permanentCause()}).Draw(t, "cause")
	m.feed(lifecycle.Input{Kind: kind, Epoch: m.epoch, Cause: cause})
}

// stray is a late, repeated or unknown input.
func (m *standbyMachine) stray(t *rapid.T) {
	m.feed(lifecycle.Input{
		Kind: rapid.SampledFrom([]lifecycle.InputKind{lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputReleased, lifecycle.InputTimer, lifecycle.InputWithdrawn,
			lifecycle.InputRegister, lifecycle.InputStop}).Draw(t, "kind"),
		Epoch: rapid.Uint64Range(0, m.epoch+1).Draw(t, "epoch"),
		Token: rapid.Uint64Range(0, m.token+1).Draw(t, "token"),
		Cause: exitCause(),
	})
}

func (m *standbyMachine) wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "ms")) * time.Millisecond)
}

func TestStandbyAgainstAModel(t *testing.T) {
	seen := map[lifecycle.StandbyState]int{}
	for name, policy := range map[string]*rapid.Generator[supervisor.Policy]{
		"no retry":  rapid.Just(supervisor.NoRetry()),
		"retry":     policies(1, 3, false, false),
		"unlimited": policies(supervisor.Unlimited, supervisor.Unlimited, false, false),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &standbyMachine{t: t, p: policy.Draw(t, "policy"), now: epochStart, seen: seen, epoch: 1}
				next := uint64(1)
				m.s = lifecycle.NewStandby(m.p, func() uint64 { next++; return next }, nil)
				t.Repeat(map[string]func(*rapid.T){
					"": m.check, "answer": m.answer, "answer again": m.answer, "answer once more": m.answer,
					"lifecycle": m.lifecycle, "lifecycle again": m.lifecycle, "end": m.end, "stray": m.stray, "wait": m.wait,
				})
			})
		})
	}
	if testing.Short() {
		return // too few schedules to reach every state
	}
	for _, s := range lifecycle.StandbyStates() {
		require.NotZero(t, seen[s], "no schedule came to %s", s)
	}
}

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

package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Failed starts wait as retries do, and a new start of the server begins again.
func TestStandbyDelays(t *testing.T) {
	s := newStandbyScript(t, supervisor.Retry(2, time.Second)).on(supervisor.InputServing)
	require.Zero(t, s.armed.Delay, "the first standby starts at once")
	for _, want := range []time.Duration{time.Second, 2 * time.Second} {
		s.on(supervisor.InputTimer, supervisor.InputFailed, supervisor.InputReleased).in(supervisor.StandbyWaiting)
		require.Equal(t, want, s.armed.Delay)
	}
	s.on(supervisor.InputTimer, supervisor.InputFailed, supervisor.InputReleased).in(supervisor.StandbyGivenUp)
	s.on(supervisor.InputWithdrawn, supervisor.InputServing).in(supervisor.StandbyWaiting)
	require.Zero(t, s.armed.Delay)
	s.on(supervisor.InputTimer, supervisor.InputFailed, supervisor.InputReleased)
	require.Equal(t, time.Second, s.armed.Delay, "failures of the former session are forgotten")
}

// After a takeover the delay is that of the lifecycle's attempt.
func TestStandbyDelayAfterATakeover(t *testing.T) {
	s := reachStandby(t, supervisor.StandbyReady)
	s.step(supervisor.Input{Kind: supervisor.InputTakenOver, Attempt: 3})
	require.Equal(t, 4*time.Second, s.armed.Delay)
}

// A standby that was up for StableAfter does not count as a failed start.
func TestStandbyThatWasStableBeginsANewRow(t *testing.T) {
	s := newStandbyScript(t, supervisor.Retry(2, time.Second, supervisor.WithStableAfter(time.Minute))).on(supervisor.InputServing)
	for range 5 {
		s.on(supervisor.InputTimer, supervisor.InputOpened, supervisor.InputDiscovered)
		s.now = s.now.Add(time.Minute)
		s.on(supervisor.InputDied, supervisor.InputReleased).in(supervisor.StandbyWaiting)
		require.Equal(t, time.Second, s.armed.Delay)
	}
}

func TestStandbyPermanentCauseIsNotRetried(t *testing.T) {
	s := reachStandby(t, supervisor.StandbyConnecting)
	s.step(supervisor.Input{Kind: supervisor.InputFailed, Epoch: s.Epoch(), Cause: permanentCause()})
	require.Equal(t, permanentCause(), s.last[0].Cause)
	s.on(supervisor.InputReleased).in(supervisor.StandbyGivenUp)
}

func TestStandbyUnlimitedIsNeverGivenUp(t *testing.T) {
	s := newStandbyScript(t, supervisor.Retry(supervisor.Unlimited, time.Second)).on(supervisor.InputServing)
	for range 100 {
		s.on(supervisor.InputTimer, supervisor.InputFailed, supervisor.InputReleased).in(supervisor.StandbyWaiting)
	}
}

// standbyMachine puts one standby between a world that answers as it likes and a
// model made of facts: is the server in service, is a session there, is a start
// planned.
type standbyMachine struct {
	t    *rapid.T
	s    *supervisor.Standby
	p    supervisor.Policy
	now  time.Time
	seen map[supervisor.StandbyState]int

	serving, draining        bool
	session                  *standbySession // nil: none
	planned                  bool            // a start is due at some time
	failures                 int
	token                    uint64 // of the armed timer; 0: none
	due                      time.Time
	epoch                    uint64
	dials, ends, taken, lost int
}

type standbySession struct {
	opened, listed, ending bool
	dialled                time.Time
}

func (m *standbyMachine) feed(in supervisor.Input) {
	want := m.expect(in)
	effects := m.s.Step(m.now, in)
	require.Equal(m.t, want, kinds(effects), "effects of %q", in.Kind)
	for _, e := range effects {
		switch e.Kind {
		case supervisor.EffectDial:
			require.False(m.t, m.draining, "never more than two sessions")
			require.True(m.t, m.serving, "nothing is dialled beside a server that is not in service")
			require.Equal(m.t, m.epoch, e.Epoch)
			m.dials++
		case supervisor.EffectEndSession:
			require.NotNil(m.t, e.Cause)
			m.ends++
		case supervisor.EffectAnnounceLost:
			m.lost++
		case supervisor.EffectArmStandby:
			require.Greater(m.t, e.Token, m.token, "tokens count up")
			m.token, m.due = e.Token, m.now.Add(e.Delay)
			want := time.Duration(0)
			switch in.Kind {
			case supervisor.InputTakenOver:
				want = max(supervisor.TakeoverPause, m.p.Delay(in.Attempt, 0))
			case supervisor.InputReleased:
				want = m.p.Delay(m.failures, 0)
			}
			require.Equal(m.t, want, e.Delay)
		}
	}
	m.seen[m.s.State()]++
}

// expect is the model: it changes the facts and says which effects follow.
func (m *standbyMachine) expect(in supervisor.Input) []supervisor.EffectKind {
	current := m.session != nil && in.Epoch == m.epoch
	running := current && !m.session.ending
	switch in.Kind {
	case supervisor.InputServing:
		if !m.serving {
			m.serving, m.planned, m.failures = true, true, 0
			return done(supervisor.EffectArmStandby)
		}
	case supervisor.InputWithdrawn:
		return m.withdraw()
	case supervisor.InputDrained:
		if m.draining = false; m.serving && m.planned && m.token == 0 {
			return m.dial()
		}
	case supervisor.InputTakenOver:
		m.session, m.draining, m.planned = nil, true, true
		m.taken++
		return done(supervisor.EffectArmStandby)
	case supervisor.InputTimer:
		if m.token == 0 || in.Token != m.token {
			return nil
		}
		if m.token = 0; !m.draining {
			return m.dial()
		}
	case supervisor.InputOpened:
		if running && !m.session.opened {
			m.session.opened = true
			return done(supervisor.EffectDiscover)
		}
	case supervisor.InputDiscovered:
		if running && m.session.opened && !m.session.listed {
			m.session.listed = true
			return done(supervisor.EffectAnnounceStandby)
		}
	case supervisor.InputFailed, supervisor.InputDied:
		if running && (in.Kind == supervisor.InputDied || !m.session.listed) {
			m.session.ending = true
			m.fail(in.Cause)
			return done(supervisor.EffectEndSession, supervisor.EffectAnnounceLost)
		}
	case supervisor.InputReleased:
		if current && m.session.ending {
			m.session = nil
			if m.serving && (m.p.MaxAttempts == supervisor.Unlimited || m.failures <= m.p.MaxAttempts) {
				m.planned = true
				return done(supervisor.EffectArmStandby)
			}
		}
	}
	return nil
}

func (m *standbyMachine) dial() []supervisor.EffectKind {
	m.planned, m.session = false, &standbySession{dialled: m.now}
	m.epoch++ // what nextEpoch gives out
	return done(supervisor.EffectDial)
}

func (m *standbyMachine) withdraw() (effects []supervisor.EffectKind) {
	if !m.serving {
		return nil
	}
	if m.token != 0 {
		effects = done(supervisor.EffectCancelTimer)
	}
	m.serving, m.planned, m.token = false, false, 0
	if m.session != nil && !m.session.ending {
		m.session.ending = true
		effects = append(effects, supervisor.EffectEndSession)
	}
	return effects
}

func (m *standbyMachine) fail(cause *supervisor.Cause) {
	stable := m.p.StableAfter
	if stable == 0 {
		stable = supervisor.DefaultStableAfter
	}
	if m.failures++; m.now.Sub(m.session.dialled) >= stable {
		m.failures = 1
	}
	if cause != nil && cause.Permanent {
		m.failures = max(m.failures, m.p.MaxAttempts+1)
	}
}

func (m *standbyMachine) check(*rapid.T) {
	require.Equal(m.t, m.session != nil, m.s.State().Live())
	require.Equal(m.t, m.session != nil, m.s.Owns(m.epoch) && m.epoch > 1)
	require.Equal(m.t, m.session != nil && m.session.listed && !m.session.ending, m.s.State() == supervisor.StandbyReady)
	require.Equal(m.t, m.token != 0, m.s.State() == supervisor.StandbyWaiting)
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
		m.feed(supervisor.Input{Kind: supervisor.InputTimer, Token: m.token})
	case s == nil:
		t.Skip("nothing to wait for")
	case s.ending:
		m.feed(supervisor.Input{Kind: supervisor.InputReleased, Epoch: m.epoch})
	case !s.opened:
		m.feed(supervisor.Input{Kind: supervisor.InputOpened, Epoch: m.epoch})
	case !s.listed:
		m.feed(supervisor.Input{Kind: supervisor.InputDiscovered, Epoch: m.epoch})
	default:
		t.Skip("it is ready")
	}
}

// lifecycle does what the lifecycle beside it may decide at this moment.
func (m *standbyMachine) lifecycle(t *rapid.T) {
	ready := m.session != nil && m.session.listed && !m.session.ending
	switch n := rapid.IntRange(0, 5).Draw(t, "lifecycle"); {
	case m.draining && n < 3:
		m.feed(supervisor.Input{Kind: supervisor.InputDrained})
	case ready && n < 4:
		m.feed(supervisor.Input{Kind: supervisor.InputTakenOver, Attempt: rapid.IntRange(1, 3).Draw(t, "attempt")})
	case !m.serving && (m.session != nil || m.draining):
		t.Skip("the lifecycle waits until everything is released")
	case !m.serving:
		m.feed(supervisor.Input{Kind: supervisor.InputServing})
	case n == 5:
		m.feed(supervisor.Input{Kind: supervisor.InputWithdrawn, Cause: exitCause()})
	default:
		t.Skip("seldom")
	}
}

func (m *standbyMachine) end(t *rapid.T) {
	kind := rapid.SampledFrom([]supervisor.InputKind{supervisor.InputFailed, supervisor.InputDied}).Draw(t, "kind")
	cause := rapid.SampledFrom([]*supervisor.Cause{nil, exitCause(), exitCause(), exitCause(), permanentCause()}).Draw(t, "cause")
	m.feed(supervisor.Input{Kind: kind, Epoch: m.epoch, Cause: cause})
}

// stray is a late, repeated or unknown input.
func (m *standbyMachine) stray(t *rapid.T) {
	m.feed(supervisor.Input{
		Kind: rapid.SampledFrom([]supervisor.InputKind{supervisor.InputOpened, supervisor.InputDiscovered, supervisor.InputReleased, supervisor.InputTimer, supervisor.InputWithdrawn,
			supervisor.InputRegister, supervisor.InputStop}).Draw(t, "kind"),
		Epoch: rapid.Uint64Range(0, m.epoch+1).Draw(t, "epoch"),
		Token: rapid.Uint64Range(0, m.token+1).Draw(t, "token"),
		Cause: exitCause(),
	})
}

func (m *standbyMachine) wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "ms")) * time.Millisecond)
}

func TestStandbyAgainstAModel(t *testing.T) {
	seen := map[supervisor.StandbyState]int{}
	for name, policy := range map[string]*rapid.Generator[supervisor.Policy]{
		"no retry":  rapid.Just(supervisor.NoRetry),
		"retry":     policies(1, 3, false, false),
		"unlimited": policies(supervisor.Unlimited, supervisor.Unlimited, false, false),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &standbyMachine{t: t, p: policy.Draw(t, "policy"), now: epochStart, seen: seen, epoch: 1}
				next := uint64(1)
				m.s = supervisor.NewStandby(m.p, func() uint64 { next++; return next }, nil)
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
	for _, s := range supervisor.StandbyStates() {
		require.NotZero(t, seen[s], "no schedule came to %s", s)
	}
}

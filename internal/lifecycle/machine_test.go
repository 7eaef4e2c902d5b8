package lifecycle_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// machine puts one lifecycle between a world that answers at random (in time, late,
// twice, out of order, about sessions that have ended) and a model that knows the state
// it should be in.
type machine struct {
	t     *rapid.T
	lc    *lifecycle.Lifecycle
	now   time.Time
	world *world
	model *model
	seen  map[supervisor.State]int
	stale uint64
}

// feed makes one step, and every check that applies to it.
func (m *machine) feed(ev lifecycle.Input) {
	before, since := m.lc.State(), m.lc.Since()
	stale := m.world.stale(ev)
	if stale {
		m.stale++
	} else {
		m.world.happens(ev)
		m.model.take(m.now, ev)
	}
	effects := m.lc.Step(m.now, ev)
	m.world.carryOut(m.now, ev, effects, m.model.delay)

	after := m.lc.State()
	m.seen[after]++
	require.Equal(m.t, m.model.state(), after, "after %q in %s", ev.Kind, before)
	require.Equal(m.t, m.stale, m.lc.Stale())
	if stale || before == supervisor.StateUnregistered {
		require.Nil(m.t, effects, "%q, stale or after the end, has effects", ev.Kind)
	}
	if (before == supervisor.StateEvicted || before == supervisor.StateUnauthorized) && ev.Kind != lifecycle.InputRestart && ev.Kind != lifecycle.InputFence && ev.Kind != lifecycle.InputStop {
		require.Nil(m.t, effects, "%q restarted an evicted server", ev.Kind)
	}
	out := after == supervisor.StateEvicted || after == supervisor.StateUnauthorized || after == supervisor.StateParked || after == supervisor.StateUnregistered
	gone := slices.Contains(kinds(effects), lifecycle.EffectAnnounceGone)
	require.Equal(m.t, out && before != after, gone, "gone is announced on entering %s", after)
	if before == after {
		require.Equal(m.t, since, m.lc.Since())
	} else {
		require.Equal(m.t, m.now, m.lc.Since())
	}
}

func (m *machine) check(*rapid.T) {
	m.world.verify(m.lc, m.model.session != nil && m.model.session.stable)
	require.Equal(m.t, m.model.tries, m.lc.Attempt())
	require.Equal(m.t, m.model.fenced, m.lc.Fenced())
	if limit := m.model.policy.MaxAttempts; limit != supervisor.Unlimited {
		require.LessOrEqual(m.t, m.lc.Attempt(), limit)
	}
}

func (m *machine) cause(t *rapid.T) *supervisor.Cause {
	switch rapid.IntRange(0, 9).Draw(t, "cause") {
	case 0:
		return nil
	case 1:
		return permanentCause()
	case 2:
		return authCause()
	}
	return exitCause()
}

// answer does what a good server would do next, or lets the timer run out.
func (m *machine) answer(t *rapid.T) {
	epoch := m.lc.Epoch()
	switch m.lc.State() {
	case lifecycle.StateNew:
		m.feed(lifecycle.Input{Kind: lifecycle.InputRegister})
	case supervisor.StateConnecting:
		m.feed(lifecycle.Input{Kind: lifecycle.InputOpened, Epoch: epoch})
	case supervisor.StateDiscovering:
		m.feed(lifecycle.Input{Kind: lifecycle.InputDiscovered, Epoch: epoch})
	case supervisor.StateClosing, supervisor.StateStopping:
		m.feed(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: epoch})
	default:
		a := m.world.armed()
		if a == nil {
			t.Skip("nothing to wait for")
		}
		m.now = a.due
		m.feed(lifecycle.Input{Kind: lifecycle.InputTimer, Token: a.token})
	}
}

func (m *machine) end(t *rapid.T) {
	kind := rapid.SampledFrom([]lifecycle.InputKind{lifecycle.InputFailed, lifecycle.InputDied}).Draw(t, "kind")
	ev := lifecycle.Input{Kind: kind, Epoch: m.lc.Epoch(), Cause: m.cause(t)}
	if m.lc.State() == supervisor.StateReady && rapid.Bool().Draw(t, "standby") {
		ev.Standby = m.lc.NextEpoch()
		m.world.addStandby(ev.Standby)
	}
	m.feed(ev)
}

// stray is an input about any session or timer, past, present or unknown.
func (m *machine) stray(t *rapid.T) {
	kind := rapid.SampledFrom([]lifecycle.InputKind{
		lifecycle.InputRegister, lifecycle.InputOpened, lifecycle.InputDiscovered, lifecycle.InputFailed, lifecycle.InputDied, lifecycle.InputReleased, lifecycle.InputTimer, lifecycle.InputTimer,
	}).Draw(t, "kind")
	m.feed(lifecycle.Input{
		Kind:  kind,
		Epoch: rapid.Uint64Range(0, m.world.current()+1).Draw(t, "epoch"),
		Token: rapid.Uint64Range(0, uint64(len(m.world.timers))+1).Draw(t, "token"),
		Cause: m.cause(t),
	})
}

func (m *machine) restart(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "restart") > 0 {
		t.Skip("seldom")
	}
	m.feed(lifecycle.Input{Kind: lifecycle.InputRestart})
}

func (m *machine) fence(t *rapid.T) {
	if rapid.IntRange(0, 15).Draw(t, "fence") > 0 {
		t.Skip("rare")
	}
	m.feed(lifecycle.Input{Kind: lifecycle.InputFence})
}

func (m *machine) stop(t *rapid.T) {
	if rapid.IntRange(0, 15).Draw(t, "stop") > 0 {
		t.Skip("rare")
	}
	m.feed(lifecycle.Input{Kind: lifecycle.InputStop})
}

func (m *machine) wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "ms")) * time.Millisecond)
}

func TestLifecycleAgainstAModel(t *testing.T) {
	seen := map[supervisor.State]int{}
	for name, policy := range map[string]*rapid.Generator[supervisor.Policy]{
		"no retry":  rapid.Just(supervisor.NoRetry()),
		"retry":     policies(1, 4, false, false),
		"unlimited": policies(supervisor.Unlimited, supervisor.Unlimited, false, false),
		"park":      policies(0, 2, true, false),
		"intensity": policies(supervisor.Unlimited, 4, false, true),
		"all":       policies(supervisor.Unlimited, 3, true, true),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p, supervised := policy.Draw(t, "policy"), rapid.Bool().Draw(t, "supervised")
				require.NoError(t, p.Validate())
				m := &machine{
					t: t, now: epochStart, seen: seen,
					lc:    lifecycle.NewLifecycle(p, supervised, nil),
					world: &world{t: t},
					model: &model{policy: p, supervised: supervised},
				}
				t.Repeat(map[string]func(*rapid.T){
					"": m.check, "answer": m.answer, "answer again": m.answer, "answer once more": m.answer,
					"end": m.end, "stray": m.stray, "restart": m.restart, "fence": m.fence, "stop": m.stop, "wait": m.wait,
				})
			})
		})
	}
	if testing.Short() {
		return // too few schedules to reach every state
	}
	// A machine that never leaves its first state agrees with any model.
	for _, s := range supervisor.States() {
		if slices.Contains(plannedStates, s) {
			continue // TestPlannedInputsInRandomOrder comes to them
		}
		require.NotZero(t, seen[s], "no schedule came to %s", s)
	}
}

func policies(least, most int, parks, bounded bool) *rapid.Generator[supervisor.Policy] {
	return rapid.Custom(func(t *rapid.T) supervisor.Policy {
		p := supervisor.Retry(rapid.IntRange(least, most).Draw(t, "max"), time.Duration(rapid.IntRange(1, 90).Draw(t, "base"))*time.Second)
		if rapid.Bool().Draw(t, "capped") {
			p.Max = 2 * time.Minute
		}
		if rapid.Bool().Draw(t, "stable") {
			p.StableAfter = time.Minute
		}
		if parks {
			p.ParkEvery = time.Duration(rapid.IntRange(1, 600).Draw(t, "park")) * time.Second
		}
		if bounded {
			p.Intensity = supervisor.Intensity{Restarts: rapid.IntRange(1, 3).Draw(t, "restarts"), Window: time.Duration(rapid.IntRange(1, 300).Draw(t, "window")) * time.Second}
		}
		return p
	})
}

// model describes the lifecycle a second time, by facts instead of a table: is there a
// session, how far did it get, what did the user request. The state is derived from
// them.
type model struct {
	policy     supervisor.Policy
	supervised bool

	registered, over bool
	session          *progress           // nil between sessions
	resting          supervisor.State    // the state while there is no session
	requested        lifecycle.InputKind // InputRestart, InputStop or nothing
	served           bool                // a session became ready
	permanent        bool                // the last end was permanent
	unauthorized     bool                // and for lack of credentials
	fenced           bool
	tries            int
	ends             []time.Time // all of them, never pruned
	tooMany          bool
}

type progress struct{ opened, listed, stable, ending bool }

// take applies an input that is not stale.
func (m *model) take(now time.Time, ev lifecycle.Input) {
	s := m.session
	running := s != nil && !s.ending
	switch ev.Kind {
	case lifecycle.InputRegister:
		if !m.registered && !m.over {
			m.registered, m.session = true, &progress{}
		}
	case lifecycle.InputOpened:
		if running {
			s.opened = true
		}
	case lifecycle.InputDiscovered:
		if running && s.opened {
			s.listed, m.served = true, true
		}
	case lifecycle.InputFailed, lifecycle.InputDied:
		if running && (ev.Kind == lifecycle.InputDied || !s.listed) {
			s.ending = true
			m.permanent = ev.Cause != nil && ev.Cause.Permanent
			m.unauthorized = m.permanent && ev.Cause.Kind == supervisor.CauseAuth
			m.countEnd(now)
			if ev.Kind == lifecycle.InputDied && s.listed && ev.Standby != 0 && !m.permanent && m.left() > 0 && !m.tooMany {
				m.tries++
				m.session = &progress{opened: true, listed: true}
			}
		}
	case lifecycle.InputReleased:
		if s != nil && s.ending {
			m.session = nil
			m.judge()
		}
	case lifecycle.InputTimer:
		if s != nil {
			s.stable, m.tries = true, 0
		} else {
			m.session = &progress{}
		}
	case lifecycle.InputRestart, lifecycle.InputStop:
		m.request(ev.Kind)
	case lifecycle.InputFence:
		m.fence()
	default:
	}
}

func (m *model) request(kind lifecycle.InputKind) {
	stop := kind == lifecycle.InputStop
	switch {
	case m.over, !stop && (!m.registered || m.fenced || m.requested == lifecycle.InputStop):
	case m.session != nil:
		m.requested, m.session.ending = kind, true
	case stop:
		m.over = true
	default:
		m.begin()
	}
}

func (m *model) fence() {
	switch {
	case m.over, !m.registered, m.requested == lifecycle.InputStop:
		return
	case m.session != nil:
		m.session.ending, m.requested = true, ""
	default:
		m.resting = supervisor.StateEvicted
	}
	m.fenced, m.permanent, m.unauthorized = true, true, false
}

func (m *model) begin() {
	m.tries, m.ends, m.requested, m.session = 0, nil, "", &progress{}
}

func (m *model) countEnd(now time.Time) {
	in := m.policy.Intensity
	if in == (supervisor.Intensity{}) {
		return
	}
	m.ends = append(m.ends, now)
	inside := 0
	for _, e := range m.ends {
		if e.Add(in.Window).After(now) {
			inside++
		}
	}
	m.tooMany = inside > in.Restarts
}

func (m *model) left() int {
	if m.policy.MaxAttempts == supervisor.Unlimited {
		return math.MaxInt
	}
	return m.policy.MaxAttempts - m.tries
}

// judge decides what follows a session that is released.
func (m *model) judge() {
	switch {
	case m.requested == lifecycle.InputStop:
		m.over = true
	case m.requested == lifecycle.InputRestart:
		m.begin()
	case !m.served && !m.supervised:
		m.over = true
	case m.unauthorized:
		m.resting = supervisor.StateUnauthorized
	case m.permanent:
		m.resting = supervisor.StateEvicted
	case m.left() > 0 && !m.tooMany:
		m.tries++
		m.resting = supervisor.StateBackoff
	case m.policy.ParkEvery > 0:
		m.resting = supervisor.StateParked
	default:
		m.resting = supervisor.StateEvicted
	}
}

func (m *model) state() supervisor.State {
	switch s := m.session; {
	case m.over:
		return supervisor.StateUnregistered
	case s == nil && m.registered:
		return m.resting
	case s == nil:
		return lifecycle.StateNew
	case s.ending && m.requested == lifecycle.InputStop:
		return supervisor.StateStopping
	case s.ending:
		return supervisor.StateClosing
	case s.listed:
		return supervisor.StateReady
	case s.opened:
		return supervisor.StateDiscovering
	}
	return supervisor.StateConnecting
}

// delay is how long a timer of that kind must take; jitter is not modelled.
func (m *model) delay(kind lifecycle.EffectKind) time.Duration {
	switch kind {
	case lifecycle.EffectArmPark:
		return m.policy.ParkEvery
	case lifecycle.EffectArmStable:
		if m.policy.StableAfter == 0 {
			return defaults.StableAfter
		}
		return m.policy.StableAfter
	default:
	}
	limit := m.policy.Max
	if limit == 0 {
		limit = defaults.MaxDelay
	}
	return time.Duration(min(math.Ldexp(float64(m.policy.Base), m.tries-1), float64(limit)))
}

// world carries effects out. It knows no states and no policy. It keeps records of
// sessions, timers and what is visible, and rejects an effect that could not be carried
// out safely.
type world struct {
	t        require.TestingT
	sessions []*sessionRecord // sessions[i] is epoch i+1
	epoch    uint64           // the one in service
	timers   []*timer         // every one that was ever armed
	visible  uint64           // the epoch whose catalog users see; 0 none
}

// sessionRecord counts the inputs and effects of one epoch.
type sessionRecord struct {
	opened, discovered                                bool
	standby                                           bool // started beside the one in service, and never in service itself
	discover, publish, withdraw, endSession, released int
}

type timer struct {
	kind  lifecycle.EffectKind
	token uint64
	due   time.Time
	off   bool // fired or cancelled
}

func (w *world) current() uint64 { return w.epoch }

// addStandby records a standby that is ready.
func (w *world) addStandby(epoch uint64) {
	require.Equal(w.t, uint64(len(w.sessions))+1, epoch, "epochs count up")
	w.sessions = append(w.sessions, &sessionRecord{opened: true, discovered: true, standby: true})
}

// takeOver puts a standby in service.
func (w *world) takeOver(ev lifecycle.Input, e lifecycle.Effect) {
	require.Equal(w.t, lifecycle.InputDied, ev.Kind)
	require.Equal(w.t, ev.Standby, e.Epoch)
	old, s := w.sessions[w.epoch-1], w.sessions[e.Epoch-1]
	require.True(w.t, s.standby, "a standby takes over twice")
	require.Equal(w.t, 1, old.endSession, "two are in service")
	old.released = 1 // the supervising actor waits for its release
	s.standby, w.epoch = false, e.Epoch
}

func (w *world) armed() *timer {
	for _, t := range w.timers {
		if !t.off {
			return t
		}
	}
	return nil
}

// stale reports whether an input is out of date, by the records of the world.
func (w *world) stale(ev lifecycle.Input) bool {
	switch ev.Kind {
	case lifecycle.InputTimer:
		a := w.armed()
		return a == nil || a.token != ev.Token
	case lifecycle.InputRegister, lifecycle.InputRestart, lifecycle.InputFence, lifecycle.InputStop:
		return false
	default:
	}
	return ev.Epoch != w.current()
}

// happens records an input that is not stale.
func (w *world) happens(ev lifecycle.Input) {
	if ev.Kind == lifecycle.InputTimer {
		w.armed().off = true
		return
	}
	if ev.Epoch == 0 || ev.Epoch != w.current() {
		return
	}
	s := w.sessions[ev.Epoch-1]
	switch {
	case ev.Kind == lifecycle.InputOpened && s.endSession == 0:
		s.opened = true
	case ev.Kind == lifecycle.InputDiscovered && s.discover > 0 && s.endSession == 0:
		s.discovered = true
	case ev.Kind == lifecycle.InputReleased && s.endSession > 0:
		s.released = 1
	}
}

// carryOut records the effects of one input, in order.
func (w *world) carryOut(now time.Time, ev lifecycle.Input, effects []lifecycle.Effect, delay func(lifecycle.EffectKind) time.Duration) {
	for _, e := range effects {
		if e.Kind == lifecycle.EffectDial {
			w.dial(e)
			continue
		}
		if e.Kind == lifecycle.EffectTakeOver {
			w.takeOver(ev, e)
			continue
		}
		require.Equal(w.t, w.current(), e.Epoch, "%s of another epoch", e.Kind)
		switch e.Kind {
		case lifecycle.EffectArmRetry, lifecycle.EffectArmPark, lifecycle.EffectArmStable:
			want := e.Delay
			if delay != nil {
				want = delay(e.Kind)
			}
			w.arm(now, e, want)
		case lifecycle.EffectCancelTimer:
			w.cancel(e)
		case lifecycle.EffectAnnounceGone:
			require.NotNil(w.t, e.Cause, "gone without a cause")
		case lifecycle.EffectResetBudget:
		default:
			w.session(ev, e)
		}
	}
}

func (w *world) dial(e lifecycle.Effect) {
	require.Equal(w.t, uint64(len(w.sessions))+1, e.Epoch, "epochs count up, one dial each")
	for i, s := range w.sessions {
		if s.standby {
			continue
		}
		require.Equal(w.t, 1, s.released, "dial of %d while %d is not released", e.Epoch, i+1)
	}
	require.Zero(w.t, w.visible, "dial while a catalog is visible")
	require.Nil(w.t, w.armed(), "dial while a timer is armed")
	w.sessions = append(w.sessions, &sessionRecord{})
	w.epoch = e.Epoch
}

func (w *world) arm(now time.Time, e lifecycle.Effect, want time.Duration) {
	require.Nil(w.t, w.armed(), "two timers")
	for _, t := range w.timers {
		require.Greater(w.t, e.Token, t.token, "a token is used again")
	}
	require.Equal(w.t, want, e.Delay, "%s", e.Kind)
	w.timers = append(w.timers, &timer{kind: e.Kind, token: e.Token, due: now.Add(e.Delay)})
}

func (w *world) cancel(e lifecycle.Effect) {
	a := w.armed()
	if a == nil {
		require.Zero(w.t, e.Token, "a timer is cancelled that is not armed")
		return
	}
	require.Equal(w.t, a.token, e.Token, "the wrong timer is cancelled")
	a.off = true
}

func (w *world) session(ev lifecycle.Input, e lifecycle.Effect) {
	s := w.sessions[e.Epoch-1]
	switch e.Kind {
	case lifecycle.EffectDiscover:
		require.True(w.t, s.opened, "discovery on a session that is not open")
		s.discover++
	case lifecycle.EffectPublish:
		require.True(w.t, s.discovered, "publish without a catalog")
		if ev.Kind != lifecycle.InputDied {
			require.Equal(w.t, lifecycle.InputDiscovered, ev.Kind)
			require.Equal(w.t, e.Epoch, ev.Epoch, "the catalog of another epoch")
		}
		require.Zero(w.t, w.visible, "two catalogs visible")
		s.publish++
		w.visible = e.Epoch
	case lifecycle.EffectWithdraw:
		require.Equal(w.t, e.Epoch, w.visible, "withdraw of what is not visible")
		s.withdraw++
		w.visible = 0
	case lifecycle.EffectEndSession:
		require.Zero(w.t, w.visible, "session ended before withdraw")
		require.NotNil(w.t, e.Cause, "session ended without a cause")
		if ev.Cause != nil && !(ev.Kind == lifecycle.InputDied && e.Cause.Asked()) { // what a transient server did after its work was planned
			require.Same(w.t, ev.Cause, e.Cause)
		}
		s.endSession++
	default:
		require.Fail(w.t, "unknown effect", "%q", e.Kind)
	}
}

// verify compares the records with the state that the lifecycle reports.
func (w *world) verify(lc *lifecycle.Lifecycle, stable bool) {
	state := lc.State()
	require.Equal(w.t, w.current(), lc.Epoch())
	used := 0
	for i, s := range w.sessions {
		if s.standby {
			require.Zero(w.t, s.endSession+s.publish+s.discover, "a standby is not the lifecycle's business")
			continue
		}
		used++
		last := uint64(i+1) == w.epoch
		over := !last || state == supervisor.StateClosing || state == supervisor.StateStopping || !live(state)
		require.Equal(w.t, over, s.endSession == 1, "epoch %d is ended %d times in %s", i+1, s.endSession, state)
		require.Equal(w.t, !last || !live(state), s.released == 1, "epoch %d released in %s", i+1, state)
		require.LessOrEqual(w.t, s.discover, 1)
		require.LessOrEqual(w.t, s.publish, 1)
		require.Equal(w.t, last && state == supervisor.StateReady, s.publish > s.withdraw, "epoch %d published in %s", i+1, state)
	}
	require.Equal(w.t, max(used-1, 0), lc.Restarts())
	require.Equal(w.t, state == supervisor.StateReady, w.visible != 0, "visible in %s", state)

	want := map[supervisor.State]lifecycle.EffectKind{supervisor.StateBackoff: lifecycle.EffectArmRetry, supervisor.StateParked: lifecycle.EffectArmPark, supervisor.StateReady: lifecycle.EffectArmStable}[state]
	if stable && state == supervisor.StateReady {
		want = ""
	}
	a := w.armed()
	require.Equal(w.t, want != "", a != nil, "a timer in %s", state)
	due := time.Time{}
	if a != nil {
		require.Equal(w.t, want, a.kind)
		if state != supervisor.StateReady {
			due = a.due
		}
	}
	require.Equal(w.t, due, lc.RetryAt())
}

// live reports whether a state has a session that must be released before the next dial.
func live(s supervisor.State) bool {
	switch s {
	case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateReady, supervisor.StateClosing, supervisor.StateStopping:
		return true
	default:
	}
	return false
}

package lifecycle_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
	if stale || before == supervisor.StateStopped {
		require.Nil(m.t, effects, "%q, stale or after the end, has effects", ev.Kind)
	}
	if (before == supervisor.StateEvicted || before == supervisor.StateUnauthorized) && ev.Kind != lifecycle.InputRestart && ev.Kind != lifecycle.InputFence && ev.Kind != lifecycle.InputStop {
		require.Nil(m.t, effects, "%q restarted an evicted server", ev.Kind)
	}
	out := after == supervisor.StateEvicted || after == supervisor.StateUnauthorized || after == supervisor.StateParked || after == supervisor.StateStopped
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

package group_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// storm is one random tree in which messages are late by any amount, servers exit at any moment, and groups and
// servers panic.
type storm struct {
	*sim
	seed    uint64
	tree    []group.Config
	members map[string]group.Member
	configs map[string]group.Config
	event   int
	ready   map[string]int       // the last event at which a group knew of another that it was ready
	held    map[string]int       // the event at which a server was held last
	left    map[string]time.Time // when that was
	began   time.Time
	log     []string
}

// after is what a member comes after directly.
func (w *storm) after(name string) (names []string) {
	c := w.configs[w.parent[name]]
	if c.Strategy != supervisor.OneForOne {
		for _, m := range c.Members {
			if m.Name == name {
				break
			}
			names = append(names, m.Name)
		}
	}
	return append(names, w.members[name].After...)
}

func (w *storm) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", w.seed)
	for _, c := range w.tree {
		fmt.Fprintf(&b, "%s %s max=%d %s park=%v bound=%v parallel=%v:", c.Name, c.Strategy, c.Intensity.Restarts, c.WhenSpent, c.ParkEvery, c.StartBound, c.Parallel)
		for _, m := range c.Members {
			r := w.reportOf(m.Name)
			fmt.Fprintf(&b, " %s(%s %v)=%s/%s%d", m.Name, m.Restart, m.After, r.State, r.Order, r.Seq)
		}
		fmt.Fprintf(&b, " = %s\n", w.groups[c.Name].Report().State)
	}
	return b.String() + strings.Join(w.log, "\n")
}

func newStorm(t require.TestingT, seed uint64) *storm {
	r := rand.New(rand.NewPCG(seed, 2))
	w := &storm{seed: seed, members: map[string]group.Member{}, configs: map[string]group.Config{}, ready: map[string]int{}, held: map[string]int{}, left: map[string]time.Time{}}
	for {
		w.tree = randomTree(r, func(c *group.Config) {
			c.Intensity = supervisor.Intensity{Restarts: r.IntN(5), Window: time.Duration(r.IntN(20)) * time.Second}
			c.WhenSpent = []supervisor.WhenSpent{supervisor.SpentPark, supervisor.SpentEvict, supervisor.SpentParent, supervisor.SpentParent}[r.IntN(4)]
			c.ParkEvery = time.Duration(1+r.IntN(60)) * time.Second
			if r.IntN(3) == 0 {
				c.StartBound = time.Duration(1+r.IntN(20)) * time.Second
			}
			c.Parallel = c.Strategy == supervisor.OneForOne && r.IntN(2) == 0
		})
		var names []string
		for _, c := range w.tree {
			for _, m := range c.Members {
				names = append(names, m.Name)
			}
		}
		for i := range w.tree {
			for j := range w.tree[i].Members {
				if r.IntN(5) == 0 {
					w.tree[i].Members[j].After = []string{names[r.IntN(len(names))]}
				}
			}
		}
		if group.Validate(w.tree) == nil {
			break
		}
	}
	for _, c := range w.tree {
		w.configs[c.Name] = c
		for _, m := range c.Members {
			w.members[m.Name] = m
		}
	}
	w.sim = newSim(t, w.tree, func(m group.Member) supervisor.Policy {
		if m.Restart == group.Temporary {
			return supervisor.NoRetry()
		}
		p := supervisor.Policy{MaxAttempts: []int{supervisor.Unlimited, 2, 5}[r.IntN(3)], Base: time.Duration(1+r.IntN(5)) * time.Second}
		if r.IntN(3) == 0 {
			p.ParkEvery = time.Minute
		}
		return p
	}, r)
	w.onStart, w.onEnd, w.onEvent = w.started, w.ended, w.observe
	return w
}

// observe notes who is ready and held after an event.
func (w *storm) observe() {
	w.event++
	for _, g := range w.groups {
		for name, state := range g.seen {
			if key := g.config.Name + " " + name; state == group.StateReady {
				w.ready[key], w.left[key] = w.event, w.now
			}
		}
	}
	for name, x := range w.servers {
		if x.gone { // what comes after it in the order starts without it
			key := w.parent[name] + " " + name
			w.ready[key], w.left[key] = w.event, w.now
		}
		if !x.life.Held() {
			w.held[name] = 0
		} else if w.held[name] == 0 {
			w.held[name] = w.event
		}
	}
}

// started: a server starts when it is wanted and not stopped; and if it was held, when all that it comes after
// was ready meanwhile, or the bound has passed.
func (w *storm) started(x *simServer) {
	require.False(w.t, x.halted, "%s starts and is stopped\n%s", x.name, w.describe())
	require.False(w.t, x.unwanted, "%s starts and is not wanted\n%s", x.name, w.describe())
	bound := w.configs[w.parent[x.name]].StartBound
	if w.held[x.name] == 0 {
		return
	}
	for _, before := range w.after(x.name) {
		key := w.parent[x.name] + " " + before
		last := w.began
		if t := w.left[key]; t.After(last) {
			last = t
		}
		if w.members[before].Restart != group.Temporary && (bound == 0 || w.now.Sub(last) < bound) {
			require.GreaterOrEqual(w.t, w.ready[key], w.held[x.name], "%s starts before %s is ready\n%s", x.name, before, w.describe())
		}
	}
}

// ended: a member that runs is ended when those behind it have ended.
func (w *storm) ended(g *simGroup, e group.Effect) {
	if !group.Runs(g.ReportedBefore(e.Name)) {
		return
	}
	for _, m := range slices.Backward(g.config.Members) {
		if m.Name == e.Name {
			return
		}
		if x := w.servers[m.Name]; x != nil && x.revived {
			continue
		}
		require.False(w.t, g.RunsIn(m.Name), "%s ends before %s\n%s", e.Name, m.Name, w.describe())
	}
}

// run makes a random life.
func (w *storm) run(steps int, counts map[string]int) {
	lazy := map[string]bool{}
	for _, name := range w.names {
		lazy[name] = w.rnd.IntN(5) == 0
	}
	w.begin(lazy)
	w.began = w.now
	for range steps {
		x := w.servers[w.names[w.rnd.IntN(len(w.names))]]
		var what string
		switch n := w.rnd.IntN(100); {
		case n < 80:
			if !w.deliver() {
				w.fire()
			}
			continue
		case n < 82:
			w.fire()
			continue
		case x.gone && n < 99:
			what = "return"
			x.comeBack()
		case n < 88:
			what = "exit"
			x.exit(w.rnd.IntN(2))
		case n < 91:
			what = "halt"
			x.halt()
		case n < 94:
			what = "start"
			x.start()
		case n < 96:
			what = "want"
			x.want()
		case n < 97:
			what = "idle"
			x.idle()
		case n < 98:
			what = "leave"
			for _, name := range w.names { // several are replaced together
				if y := w.servers[name]; !y.gone && (y == x || w.rnd.IntN(4) == 0) {
					y.leave()
				}
			}
		case n < 99:
			what = "panic"
			x.panics()
		default:
			c := w.tree[w.rnd.IntN(len(w.tree))]
			what = "group panic"
			w.log = append(w.log, what+" "+c.Name)
			w.groups[c.Name].panics()
		}
		counts[what]++
		w.log = append(w.log, what+" "+x.name)
		w.observe()
	}
}

// rest checks that each member that waits has a reason, when all messages are delivered and no server exits.
func (w *storm) rest(counts map[string]int) {
	for _, x := range w.servers {
		if x.gone {
			x.comeBack()
		}
	}
	for i := 0; w.deliver() || w.fire(); i++ {
		require.Less(w.t, i, 100_000, "it does not come to rest\n%s", w.describe())
	}
	idle := func(r group.Report) bool {
		s := r.State
		if r.Within != "" {
			s = r.Within
		}
		return s == group.StateStopped || s == group.StateGivenUp || s == group.StateWaiting || s == group.StateBlocked || s == group.StateFailed
	}
	for name := range w.members {
		r := w.reportOf(name)
		counts["rests "+string(r.State)]++
		switch x := w.servers[name]; {
		case x != nil && x.halted && r.State != group.StateGivenUp:
			require.Equal(w.t, group.StateStopped, r.State, "%s\n%s", name, w.describe())
		case r.State == group.StateReady, r.State == group.StateAsleep, r.State == group.StateResting, r.State == group.StateGivenUp, r.State == group.StateStopped:
		case r.State == group.StateBlocked: // its members say what they wait for
		case r.State == group.StateFailed && w.members[name].Restart == group.Temporary:
		default:
			require.Contains(w.t, []group.State{group.StateWaiting, group.StateFailed}, r.State, "%s hangs\n%s", name, w.describe())
			why := idle(w.groups[w.parent[name]].Report())
			if w.groups[w.parent[name]].Report().State == group.StateBlocked {
				why = false
			}
			for _, before := range w.after(name) {
				why = why || idle(w.reportOf(before))
			}
			require.True(w.t, why, "%s waits for nothing\n%s", name, w.describe())
		}
	}
}

// wake starts and wants everybody and renews the root: everything is ready.
func (w *storm) wake() {
	for _, name := range w.names {
		w.servers[name].start()
	}
	root := w.groups["root"]
	root.step(group.Input{Kind: group.InputParent, Order: group.OrderRenew, Seq: root.Report().Seq + 1})
	for range 2 { // a second time for those that began to rest meanwhile
		for i := 0; w.deliver() || w.fire(); i++ {
			require.Less(w.t, i, 100_000, "it does not come to rest\n%s", w.describe())
		}
	}
	for name, m := range w.members {
		lasting := m.Restart != group.Temporary
		for p := w.parent[name]; p != ""; p = w.parent[p] {
			lasting = lasting && w.members[p].Restart != group.Temporary
		}
		for _, a := range w.depend(name, map[string]bool{}) {
			lasting = lasting && w.members[a].Restart != group.Temporary
		}
		if lasting {
			require.Equal(w.t, group.StateReady, w.reportOf(name).State, "%s is not ready in the end\n%s", name, w.describe())
		}
	}
}

// depend is all that a member comes after by name, and where that is. A temporary member that is gone does not count in its
// group, but one that waits does.
func (w *storm) depend(name string, seen map[string]bool) (all []string) {
	if name == "" || name == "root" || seen[name] {
		return nil
	}
	seen[name] = true
	all = append(w.depend(w.parent[name], seen), name)
	inGroup := func(a string) {
		if w.members[a].Restart != group.Temporary {
			all = append(all, w.depend(a, seen)...)
			return
		}
		names := w.depend(a, maps.Clone(seen)) // another path to it may be one by which it counts
		all = append(all, slices.DeleteFunc(names, func(n string) bool { return n == a })...)
	}
	for _, a := range w.after(name) {
		if w.parent[a] == w.parent[name] {
			inGroup(a)
		} else {
			all = append(all, w.depend(a, seen)...)
		}
	}
	for _, m := range w.configs[name].Members {
		inGroup(m.Name)
	}
	return all
}

func TestStorm(t *testing.T) {
	storms := 4000
	if testing.Short() {
		storms = 400
	}
	counts := map[string]int{}
	for seed := range uint64(storms) {
		w := newStorm(t, seed)
		w.run(30+w.rnd.IntN(400), counts)
		w.rest(counts)
		w.wake()
	}
	for _, what := range []string{"exit", "panic", "group panic", "leave", "return", "rests ready", "rests waiting", "rests stopped", "rests asleep", "rests resting", "rests given up", "rests blocked"} {
		require.Greater(t, counts[what], storms/100, "too rare: %s of %v", what, counts)
	}
}

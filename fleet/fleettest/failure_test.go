//go:build linux

package fleettest

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/internal/etcdtest"
)

// pick chooses between the sizes of `go test` and of the acceptance lines.
func pick[T any](short, long T) T {
	if *full {
		return long
	}
	return short
}

func ttl() time.Duration { return pick(4*time.Second, 8*time.Second) }

func servers() []Server { return Servers(pick(24, 200), pick(12, 60)) }

// startReady starts a fleet with the servers, all of which answer.
func startReady(t *testing.T, o Options) *Fleet {
	t.Helper()
	o.TTL = cmp.Or(o.TTL, ttl())
	f := Start(t, o)
	f.Apply(servers())
	f.answers(f.Nodes["a"], "after the start", time.Minute)
	return f
}

// answers requires that all names answer a node, and returns when the last one did.
func (f *Fleet) answers(n *Node, when string, timeout time.Duration, which ...bool) (last time.Duration) {
	f.t.Helper()
	for _, c := range must[[]Call](n, "probe", probeCommand{f.Names(which...), timeout}) {
		require.Equal(f.t, outcomeResult, c.Outcome, "%s, node %s: %s does not answer: %s", when, n.ID, c.Server, c.Error)
		last = max(last, c.Ended)
	}
	return last
}

// places are the nodes of the names, which the processes that answer know.
func (f *Fleet) places(n *Node) map[string]string {
	f.t.Helper()
	calls := must[[]Call](n, "probe", probeCommand{f.Names(), 30 * time.Second})
	parents := map[int]int{}
	for _, l := range f.Evidence().Lives {
		parents[l.PID] = l.Parent
	}
	ids := map[int]string{}
	for _, n := range f.Nodes {
		ids[n.PID()] = n.ID
	}
	places := map[string]string{}
	for _, c := range calls {
		require.Equal(f.t, outcomeResult, c.Outcome, "%s: %s", c.Server, c.Error)
		places[c.Server] = ids[parents[c.PID]]
	}
	return places
}

// on are the names that are on one of the nodes, and are exclusive or not, if that is given.
func (f *Fleet) on(places map[string]string, nodes []string, which ...bool) (names []string) {
	names = slices.DeleteFunc(f.Names(which...), func(name string) bool { return !slices.Contains(nodes, places[name]) })
	require.NotEmpty(f.t, names, "no server is on %v", nodes)
	return names
}

// start lets callers of a node call until stopLoad.
func (n *Node) load(key string, names []string, o callOptions) {
	n.fleet.t.Helper()
	must[any](n, "load", loadCommand{key, loadOptions{Names: names, Callers: 8, Pause: 4 * time.Millisecond, Seed: 1, Call: o}})
}

func (n *Node) unload(key string) *Load {
	n.fleet.t.Helper()
	return must[*Load](n, "unload", key)
}

// within prints what a bound of the acceptance lines is compared with. It is asserted as it is with
// -fleet.strict, and otherwise with a margin for machines that do other work.
func within(t *testing.T, what string, got, bound time.Duration) {
	t.Helper()
	t.Logf("%s: %v (bound %v)", what, got.Round(time.Millisecond), bound)
	if !*strict {
		bound = 3*bound + 5*time.Second
	}
	require.LessOrEqual(t, got, bound, what)
}

// livesOf are the lives of exclusive servers that a process of a node has started.
func (e *Evidence) livesOf(pid int) (lives []*Life) {
	for _, l := range e.Lives {
		if l.Exclusive && l.Parent == pid {
			lives = append(lives, l)
		}
	}
	return lives
}

// begunAfter are the lives that began after a time.
func (e *Evidence) begunAfter(at time.Duration) (lives []*Life) {
	for _, l := range e.Lives {
		if l.Began > at {
			lives = append(lives, l)
		}
	}
	return lives
}

// lastBegun is when the last one of the names began to live after a time.
func (e *Evidence) lastBegun(t *testing.T, names []string, after time.Duration) (last time.Duration) {
	t.Helper()
	begun := map[string]time.Duration{}
	for _, l := range e.begunAfter(after) {
		if first, ok := begun[l.Name]; !ok || l.Began < first {
			begun[l.Name] = l.Began
		}
	}
	for _, name := range names {
		require.Contains(t, begun, name, "it was not started again")
		last = max(last, begun[name])
	}
	return last
}

// TestKill is line 1 of the table in docs/fleet.md: a node is killed, and every name answers soon; no call outlives its context,
// and calls to servers of other nodes are not affected.
func TestKill(t *testing.T) {
	for name, c := range map[string]struct {
		noGuard bool
		bound   time.Duration
	}{"guard": {false, 2 * time.Second}, "no guard": {true, ttl() + 2*time.Second}} {
		t.Run(name, func(t *testing.T) {
			f := startReady(t, Options{NoGuard: c.noGuard})
			a, b := f.Nodes["a"], f.Nodes["b"]
			places := f.places(b)
			neighbours := f.on(places, []string{"b", "c"})
			short := callOptions{Timeout: 2 * time.Second}
			b.load("before", neighbours, short)
			time.Sleep(pick(time.Second, 5*time.Second)) // how long is measured
			before := b.unload("before")
			require.Zero(t, before.Failed(), before)

			b.load("all", f.Names(), short)
			b.load("neighbours", neighbours, short)
			killed := a.Kill()
			last := f.answers(b, "after the kill", 40*time.Second)
			all, after := b.unload("all"), b.unload("neighbours")
			within(t, "every name answers after the kill", last-killed, c.bound)
			t.Logf("all names: %v", all)
			t.Logf("neighbours before: %v", before)
			t.Logf("neighbours during: %v", after)
			require.Zero(t, after.Failed(), "neighbours: %v %v", after, after.Samples)
			if *strict {
				require.Less(t, after.P99, 2*before.P99+10*time.Millisecond)
			}
		})
	}
}

// TestStop is line 2 of the table in docs/fleet.md: a node is stopped for longer than its lease, and continues. Its guard ends its
// exclusive servers in time, others take them over, and it joins again.
func TestStop(t *testing.T) {
	f := startReady(t, Options{})
	a, b := f.Nodes["a"], f.Nodes["b"]
	exclusive := f.on(f.places(b), []string{"a"}, true)
	a.load("a", f.Names(), callOptions{Timeout: 2 * time.Second})
	b.load("b", f.Names(), callOptions{Timeout: 2 * time.Second})
	stopped := a.Stop()
	last := f.answers(b, "while a node is stopped", 60*time.Second, true)
	within(t, "every exclusive name answers after the stop", last-stopped, ttl()+2*time.Second)
	time.Sleep(max(0, stopped+pick(ttl()+2*time.Second, 15*time.Second)-boottime.Now())) // the fault
	lives := f.Evidence().livesOf(a.PID())
	require.GreaterOrEqual(t, len(lives), len(exclusive))
	var longest time.Duration
	for _, l := range lives {
		longest = max(longest, l.Last-stopped)
	}
	t.Logf("the last mark of an exclusive server of the node: %v after the stop", longest.Round(time.Millisecond))
	require.Less(t, longest, ttl(), "of a node that was stopped")
	continued := a.Continue()
	last = f.answers(a, "after the node continues", 60*time.Second)
	within(t, "every name answers the node that continues", last-continued, 2*time.Second)
	t.Logf("calls of a: %v", a.unload("a"))
	t.Logf("calls of b: %v", b.unload("b"))
}

// requireCutOff requires that the node says what a node without a lease is: no member, fenced once more, cut off
// since its lease has ended.
func (n *Node) requireCutOff(since time.Time, fences uint64) {
	n.fleet.t.Helper()
	s := must[fleet.Status](n, "status", nil)
	require.False(n.fleet.t, s.Member, "node %s says that it is a member", n.ID)
	require.Equal(n.fleet.t, fences, s.Fences, "fences of node %s", n.ID)
	require.WithinRange(n.fleet.t, s.CutOffSince, since, since.Add(n.fleet.o.TTL), "node %s is cut off", n.ID)
}

// TestCutFromStore is line 3 of the table in docs/fleet.md: a node that cannot reach etcd fences itself, and says so. Its exclusive servers run
// elsewhere; its shared ones continue, and answer its own callers.
func TestCutFromStore(t *testing.T) {
	for name, noGuard := range map[string]bool{"guard": false, "no guard": true} {
		t.Run(name, func(t *testing.T) { testCutFromStore(t, Options{NoGuard: noGuard}) })
	}
}

func testCutFromStore(t *testing.T, o Options) {
	f := startReady(t, o)
	a, b := f.Nodes["a"], f.Nodes["b"]
	places := f.places(b)
	shared := f.on(places, []string{"a"}, false)
	exclusive := f.on(places, []string{"a"}, true)
	a.load("shared", shared, callOptions{Timeout: 2 * time.Second})
	a.load("all", f.Names(), callOptions{Timeout: 2 * time.Second})
	b.load("all", f.Names(), callOptions{Timeout: 2 * time.Second})
	cut, since := boottime.Now(), time.Now()
	a.CutStore()
	time.Sleep(pick(ttl()+3*time.Second, 20*time.Second)) // the fault
	a.requireCutOff(since, 1)
	evidence := f.Evidence()
	for _, l := range evidence.livesOf(a.PID()) {
		require.Less(t, l.Last-cut, ttl(), "%s of a node that is cut off", l)
	}
	within(t, "every exclusive server runs elsewhere after the cut", evidence.lastBegun(t, exclusive, cut)-cut, ttl()+2*time.Second)
	l := a.unload("shared")
	t.Logf("calls of the node to its shared servers: %v", l)
	require.Zero(t, l.Failed(), "%v %v", l, l.Samples)
	healed := boottime.Now()
	a.HealStore()
	last := f.answers(a, "after the cut", 60*time.Second)
	within(t, "every name answers the node after the cut", last-healed, 5*time.Second)
	t.Logf("calls of a: %v", a.unload("all"))
	t.Logf("calls of b: %v", b.unload("all"))
	// Names answer by way of the others before the node has a lease again.
	require.Eventually(t, func() bool {
		s := must[fleet.Status](a, "status", nil)
		return s.Member && s.CutOffSince.IsZero()
	}, 20*time.Second, 20*time.Millisecond, "the node is a member again")
	within(t, "the node is a member again", boottime.Now()-healed, 6*time.Second)
	a.CutStore()
	time.Sleep(ttl())
	asked := boottime.Now()
	a.Leave() // as SIGTERM: it has nothing to hand over
	within(t, "a node that is cut off ends", boottime.Now()-asked, 5*time.Second)
}

// TestPeersCut is line 4 of the table in docs/fleet.md: nodes that reach etcd and not each other move nothing, and calls fail soon
// without having been sent.
func TestPeersCut(t *testing.T) {
	f := startReady(t, Options{})
	a, b := f.Nodes["a"], f.Nodes["b"]
	places := f.places(a)
	foreign, own := f.on(places, []string{"b", "c"}), f.on(places, []string{"a"})
	a.load("own", own, callOptions{Timeout: 2 * time.Second})
	cut := boottime.Now()
	for _, n := range f.Nodes {
		n.Peer.Cut(AnySource)
	}
	var first time.Duration
	for first == 0 {
		c := must[Call](a, "call", callCommand{foreign[0], callOptions{Timeout: 100 * time.Millisecond}})
		require.NotEqual(t, outcomeResult, c.Outcome)
		if c.Outcome == "not_sent" {
			first = c.Ended
		}
		require.Less(t, boottime.Now()-cut, 30*time.Second, "calls do not fail: %v", c)
	}
	within(t, "calls to other nodes fail and are not sent", first-cut, 3500*time.Millisecond)
	time.Sleep(pick(3*time.Second, 10*time.Second)) // in which something could move
	for _, name := range foreign[:min(len(foreign), 20)] {
		c := must[Call](a, "call", callCommand{name, callOptions{Timeout: 5 * time.Second}})
		require.Equal(t, "not_sent", c.Outcome, "%s: %s", name, c.Error)
		require.Less(t, c.Ended-c.Sent, time.Second)
	}
	require.Empty(t, f.Evidence().begunAfter(cut), "something was moved")
	l := a.unload("own")
	require.Zero(t, l.Failed(), "own servers: %v %v", l, l.Samples)
	healed := boottime.Now()
	for _, n := range f.Nodes {
		n.Peer.Heal(AnySource)
	}
	within(t, "every name answers again", max(f.answers(a, "after the cut", time.Minute), f.answers(b, "after the cut", time.Minute))-healed, 5*time.Second)
	require.Empty(t, f.Evidence().begunAfter(cut), "something was moved")
}

// TestEtcd is line 5 of the table in docs/fleet.md: the leader of etcd is killed, and no call notices. All members are killed:
// exclusive servers end, shared ones continue; all run soon after etcd is back.
func TestEtcd(t *testing.T) {
	life := 2 * ttl() // on a busy machine the members of etcd take seconds to choose another leader
	f := startReady(t, Options{Etcd: 3, TTL: life})
	nodes := slices.SortedFunc(maps.Values(f.Nodes), func(a, b *Node) int { return a.PID() - b.PID() })
	begun := boottime.Now()
	for _, n := range nodes {
		n.load("all", f.Names(), callOptions{Timeout: 5 * time.Second})
	}
	leader := slices.IndexFunc(f.Etcd, func(s *etcdtest.Member) bool { return s.Leads() })
	require.GreaterOrEqual(t, leader, 0, "etcd has no leader")
	f.Etcd[leader].Kill()
	time.Sleep(pick(life+time.Second, 12*time.Second)) // a renewal that has failed would end the life by then
	for _, n := range nodes {
		l := n.unload("all")
		t.Logf("calls of %s while the leader is killed: %v", n.ID, l)
		require.Zero(t, l.Failed(), "%v %v", l, l.Samples)
	}
	require.Empty(t, f.Evidence().begunAfter(begun), "something was started again")

	shared := f.Names(false)
	for _, n := range nodes {
		n.load("shared", shared, callOptions{Timeout: 5 * time.Second})
	}
	f.Etcd[leader].Run(t)
	killed, since := boottime.Now(), time.Now()
	for _, s := range f.Etcd {
		s.Kill()
	}
	time.Sleep(pick(life+2*time.Second, 30*time.Second)) // the fault
	for _, l := range f.Evidence().Lives {
		if l.Exclusive {
			require.Less(t, l.Last-killed, life, "%s without etcd", l)
		}
	}
	for _, n := range nodes {
		n.requireCutOff(since, 1)
		l := n.unload("shared")
		t.Logf("calls of %s to shared servers without etcd: %v", n.ID, l)
		require.Zero(t, l.Failed(), "%v %v", l, l.Samples)
		n.load("return", shared, callOptions{Timeout: 5 * time.Second})
	}
	f.runEtcd()
	back := boottime.Now()
	within(t, "every name answers after the return of etcd", f.answers(nodes[0], "after the return of etcd", time.Minute)-back, 5*time.Second)
	for _, n := range nodes {
		t.Logf("calls of %s to shared servers at the return of etcd: %v", n.ID, n.unload("return"))
	}
	moved := 0
	for _, l := range f.Evidence().begunAfter(killed) {
		if !l.Exclusive {
			moved++
		}
	}
	t.Logf("%d shared servers were placed again", moved)
}

package group_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// bench drives one group by hand: its members are what the test says.
type bench struct {
	t *testing.T
	*group.Group
	now   time.Time
	out   []group.Effect
	seqs  map[string]uint64
	order map[string]group.Order
}

func newBench(t *testing.T, c group.Config, held bool, seq uint64) *bench {
	t.Helper()
	return &bench{t: t, Group: group.New(c, &group.Report{Held: held}, seq), now: time.Unix(1000, 0), seqs: map[string]uint64{}, order: map[string]group.Order{}}
}

// config is a root group of servers.
func config(strategy supervisor.Strategy, names ...string) group.Config {
	c := group.Config{Name: "g", Root: true, Strategy: strategy}
	for _, n := range names {
		c.Members = append(c.Members, group.Member{Name: n})
	}
	return c
}

func (b *bench) step(in group.Input) *bench {
	b.out = b.Step(b.now, in)
	for _, e := range b.out {
		if e.Kind == group.EffectOrder {
			b.seqs[e.Name], b.order[e.Name] = e.Seq, e.Order
		}
	}
	return b
}

// add adds the members of the configuration, held.
func (b *bench) add(c group.Config) *bench {
	for _, m := range c.Members {
		b.step(group.Input{Kind: group.InputAdded, Name: m.Name, Report: group.Report{State: group.StateWaiting, Held: true, Grouped: true}})
	}
	return b
}

// report is what a member says after its last order.
func (b *bench) report(name string, s group.State) *bench {
	held := s != group.StateStarting && s != group.StateReady && s != group.StateFailed
	return b.step(group.Input{Kind: group.InputReport, Name: name, Report: group.Report{Seq: b.seqs[name], Order: b.order[name], State: s, Held: held, Grouped: true}})
}

func (b *bench) fails(name string, times uint64) *bench {
	return b.step(group.Input{Kind: group.InputReport, Name: name, Report: group.Report{Seq: b.seqs[name], Order: b.order[name], State: group.StateEnding, Grouped: true, Failures: times}})
}

// does says what the last step ordered, woke and announced.
func (b *bench) does(want ...string) *bench {
	b.t.Helper()
	var got []string
	for _, e := range b.out {
		switch e.Kind {
		case group.EffectOrder:
			got = append(got, string(e.Order)+" "+e.Name)
		case group.EffectWake:
			got = append(got, "wake "+e.Name)
		case group.EffectAnnounce:
			got = append(got, "announce "+string(e.Order))
			require.NotEmpty(b.t, e.Cause.Message)
		case group.EffectSetTimer:
			got = append(got, "timer "+e.Delay.String())
		default:
		}
	}
	require.Equal(b.t, want, got)
	return b
}

func (b *bench) fire() *bench {
	for _, e := range b.out {
		if e.Kind == group.EffectSetTimer {
			b.now = b.now.Add(e.Delay)
			return b.step(group.Input{Kind: group.InputTimer, Token: e.Token})
		}
	}
	require.Fail(b.t, "no timer was set")
	return b
}

func (b *bench) in(want group.State) *bench {
	b.t.Helper()
	require.Equal(b.t, want, b.Report().State)
	return b
}

// ready is a group whose members are ready.
func ready(t *testing.T, c group.Config) *bench {
	t.Helper()
	b := newBench(t, c, false, 0).add(c)
	for _, m := range c.Members {
		b.report(m.Name, group.StateReady)
	}
	return b.in(group.StateReady)
}

func TestMembersStartInOrderAndEndInReverse(t *testing.T) {
	c := config(supervisor.OneForOne, "a", "b", "c")
	b := newBench(t, c, false, 0).add(c).does("clear a").report("a", group.StateStarting).does().report("a", group.StateReady).does("clear b")
	b.report("b", group.StateReady).does("clear c").in(group.StateStarting).report("c", group.StateReady).does().in(group.StateReady)
	b.step(group.Input{Kind: group.InputParent, Order: group.OrderHold, Seq: 1}).does("hold c").in(group.StateEnding)
	b.report("c", group.StateEnding).does().report("c", group.StateWaiting).does("hold b").report("b", group.StateWaiting).does("hold a")
	b.report("a", group.StateWaiting).does().in(group.StateWaiting)
	require.EqualValues(t, 1, b.Report().Seq)
	require.True(t, b.Report().Held)
	b.step(group.Input{Kind: group.InputParent, Order: group.OrderClear, Seq: 1}).does()
	require.EqualValues(t, 1, b.Stale(), "an order that was taken is not taken twice")
	b.step(group.Input{Kind: group.InputParent, Order: group.OrderClear, Seq: 2}).does("clear a")
}

func TestParallelMembersStartAtOnce(t *testing.T) {
	c := config(supervisor.OneForOne, "a", "b", "c")
	c.Parallel, c.Members[1].After = true, []string{"c"}
	newBench(t, c, false, 0).add(c).does("clear a", "clear c").report("c", group.StateReady).does("clear b")
}

// The bound counts while a member waits; a member that is late after all is no failure.
func TestStartBound(t *testing.T) {
	c := config(supervisor.RestForOne, "a", "b")
	c.StartBound = time.Minute
	b := newBench(t, c, false, 0).add(c).does("clear a", "timer 1m0s")
	timer := b.out
	b.report("a", group.StateStarting).does()
	b.out = timer
	b.fire().does("clear b").report("b", group.StateReady).in(group.StateReady)
	b.report("a", group.StateReady).does()
	b.out = timer
	b.fire().does()
	require.EqualValues(t, 1, b.Stale())
}

// The timer of an earlier wait does not count for a later one.
func TestStartBoundOfAnEarlierWait(t *testing.T) {
	c := config(supervisor.OneForOne, "a")
	c.StartBound, c.Members[0].After = time.Minute, []string{"db"}
	db := func(s group.State) group.Input {
		return group.Input{Kind: group.InputOutside, Name: "db", Report: group.Report{State: s}}
	}
	b := newBench(t, c, false, 0).step(db(group.StateStarting)).add(c).does("timer 1m0s")
	old := b.out
	b.step(db(group.StateReady)).does("clear a").report("a", group.StateReady).step(db(group.StateDown)).does()
	b.step(group.Input{Kind: group.InputParent, Order: group.OrderHold, Seq: 1}).report("a", group.StateWaiting)
	b.step(group.Input{Kind: group.InputParent, Order: group.OrderClear, Seq: 2}).does("timer 1m0s")
	timer := b.out
	b.out = old
	b.fire().does()
	b.out = timer
	b.fire().does("clear a")
}

func TestStaleReportIsIgnored(t *testing.T) {
	b := ready(t, config(supervisor.OneForAll, "a", "b"))
	old := group.Report{Seq: b.seqs["b"], Order: group.OrderClear, State: group.StateReady, Grouped: true}
	b.fails("a", 1).does("hold b", "hold a")
	b.step(group.Input{Kind: group.InputReport, Name: "b", Report: old}).does()
	old.State, old.Held = group.StateWaiting, true
	b.step(group.Input{Kind: group.InputReport, Name: "b", Report: old}).does()
	require.EqualValues(t, 2, b.Stale())
	b.report("a", group.StateWaiting).does().report("b", group.StateWaiting).does("clear a").report("a", group.StateReady).does("clear b")
}

// A failure in a drain is not counted, and neither is one that crosses the order.
func TestIntensity(t *testing.T) {
	c := config(supervisor.OneForOne, "a", "b")
	c.Intensity, c.WhenSpent, c.ParkEvery = supervisor.Intensity{Restarts: 2, Window: time.Minute}, supervisor.SpentPark, time.Hour
	b := ready(t, c).fails("a", 1).does().fails("b", 1).does()
	b.now = b.now.Add(time.Minute)
	b.fails("a", 2).does().fails("b", 2).does()
	b.fails("b", 2).does() // said twice, counted once
	b.fails("b", 3).does("park b", "park a").in(group.StateEnding)
	b.report("b", group.StateWaiting).does().report("a", group.StateWaiting).does("announce park", "timer 1h0m0s").in(group.StateDown)
	require.EqualValues(t, 1, b.Report().Failures)
	b.fire().does("renew a").report("a", group.StateReady).does("renew b").report("b", group.StateReady).in(group.StateReady)
	b.fails("a", 1).does().fails("a", 2).does() // the count is fresh
	b.fails("a", 3).does("park b", "park a")
}

// The budget of a member is spent: the group has failed, whatever its intensity.
func TestGivenUpMember(t *testing.T) {
	for spent, order := range map[supervisor.WhenSpent]string{supervisor.SpentPark: "park", supervisor.SpentEvict: "evict", supervisor.SpentParent: "park"} {
		c := config(supervisor.OneForOne, "a", "b")
		c.WhenSpent, c.Root = spent, false
		b := ready(t, c).report("b", group.StateGivenUp).does(order+" b").report("b", group.StateGivenUp).does(order+" a").report("a", group.StateWaiting)
		b.in(map[supervisor.WhenSpent]group.State{supervisor.SpentPark: group.StateDown, supervisor.SpentEvict: group.StateGivenUp, supervisor.SpentParent: group.StateFailed}[spent])
		require.True(t, b.Report().Cause.Asked())
		require.Contains(t, b.Report().Cause.Message, `"b" is given up`)
		b.step(group.Input{Kind: group.InputParent, Order: group.OrderClear, Seq: 7}).does()
		b.step(group.Input{Kind: group.InputParent, Order: group.OrderRenew, Seq: 8}).does("renew a")
	}
	c := config(supervisor.OneForOne, "a", "b")
	c.Members[1].Restart = group.Temporary
	ready(t, c).fails("b", 1).does().report("b", group.StateGivenUp).does().in(group.StateReady)
	c.Members[1].Restart = group.Permanent
	ready(t, c).report("b", group.StateGivenUp).does("evict b").report("b", group.StateGivenUp).report("a", group.StateGivenUp).does("announce evict").in(group.StateGivenUp)
}

// One that comes after a stopped member waits, without a failure; one that comes after a sleeper wakes it.
func TestAfter(t *testing.T) {
	c := config(supervisor.RestForOne, "a", "b")
	c.StartBound = time.Second
	b := newBench(t, c, false, 0)
	b.step(group.Input{Kind: group.InputAdded, Name: c.Members[0].Name, Report: group.Report{State: group.StateStopped, Held: true, Grouped: true}}).does()
	b.step(group.Input{Kind: group.InputAdded, Name: c.Members[1].Name, Report: group.Report{State: group.StateWaiting, Held: true, Grouped: true}}).does().in(group.StateBlocked)
	b.report("a", group.StateAsleep).does("wake a").report("a", group.StateAsleep).does("wake a")             // the want crossed the report
	b.step(group.Input{Kind: group.InputRemoved, Name: "x"}).step(group.Input{Kind: group.InputTimer}).does() // not twice for one report
	b.report("a", group.StateWaiting).does("clear a", "timer 1s").report("a", group.StateReady).does("clear b")

	c = config(supervisor.RestForOne, "s", "a", "b")
	b = newBench(t, c, false, 0)
	for i, s := range []group.State{group.StateStopped, group.StateAsleep, group.StateWaiting} {
		b.step(group.Input{Kind: group.InputAdded, Name: c.Members[i].Name, Report: group.Report{State: s, Held: true, Grouped: true}})
	}
	b.does() // what cannot start wakes nothing

	c = config(supervisor.OneForOne, "a", "b")
	b = newBench(t, c, false, 0)
	b.step(group.Input{Kind: group.InputAdded, Name: c.Members[0].Name, Report: group.Report{State: group.StateAsleep, Held: true, Grouped: true}})
	b.step(group.Input{Kind: group.InputAdded, Name: c.Members[1].Name, Report: group.Report{State: group.StateWaiting, Held: true, Grouped: true}}).does("clear b")

	c = config(supervisor.OneForOne, "a")
	c.Members[0].After = []string{"db"}
	b = newBench(t, c, false, 0).add(c).does()
	for _, s := range []group.State{group.StateStopped, group.StateStarting, group.StateGivenUp} {
		b.step(group.Input{Kind: group.InputOutside, Name: "db", Report: group.Report{State: s}}).does()
	}
	b.step(group.Input{Kind: group.InputOutside, Name: "db", Report: group.Report{State: group.StateResting}}).does("wake db")
	b.step(group.Input{Kind: group.InputOutside, Name: "db", Report: group.Report{State: group.StateReady}}).does("clear a")
}

// One that comes after a later member, which waits for one that is stopped, waits for that, too.
func TestAfterALaterMember(t *testing.T) {
	c := config(supervisor.OneForOne, "a", "b", "c")
	c.Parallel, c.Members[0].After, c.Members[1].After = true, []string{"b"}, []string{"c"}
	newBench(t, c, false, 0).add(c).does("clear c").report("c", group.StateStopped).does().in(group.StateBlocked).
		report("c", group.StateWaiting).does("clear c").in(group.StateStarting)
}

// members gives the group its members; joins adds one.
func (b *bench) members(names ...string) *bench {
	return b.step(group.Input{Kind: group.InputMembers, Members: config("", names...).Members})
}

func (b *bench) joins(name string, r group.Report) *bench {
	return b.step(group.Input{Kind: group.InputAdded, Name: name, Report: r})
}

// Members come and go: one that runs is not restarted, and one that waits takes its place.
func TestAddAndRemove(t *testing.T) {
	b := ready(t, config(supervisor.RestForOne, "a", "c"))
	b.members("a", "b", "c").joins("b", group.Report{State: group.StateReady}).does("keep b")
	b.report("b", group.StateReady).does().fails("a", 1).does("hold c", "hold a").report("a", group.StateWaiting).does()
	b.step(group.Input{Kind: group.InputRemoved, Name: "c"}).does().members("a", "b").does("hold b")
	b.members("a", "b", "d").joins("d", group.Report{State: group.StateAsleep}).does("keep d")
	b.report("b", group.StateWaiting).does("clear a").report("a", group.StateReady).does("clear b").report("b", group.StateReady).in(group.StateReady)
	b.members("a", "b", "d", "e").joins("e", group.Report{State: group.StateGivenUp}).does("keep e")
	b.report("d", group.StateAsleep).report("e", group.StateGivenUp).does("wake d").report("d", group.StateWaiting).does("clear d").report("d", group.StateReady).does("renew e")
	b.step(group.Input{Kind: group.InputParent, Order: group.OrderHold, Seq: 1})
	b.members("a", "b", "d", "e", "f").joins("f", group.Report{State: group.StateReady}).does("hold f")
}

// Members that are replaced together come back in any order: each takes its place, and is the group's.
func TestMembersComeBack(t *testing.T) {
	b := ready(t, config(supervisor.RestForOne, "a", "b", "c"))
	for _, name := range []string{"c", "b", "a"} {
		b.step(group.Input{Kind: group.InputRemoved, Name: name})
	}
	b.members("a").does().members("a", "c").does().members("a", "b", "c").does()
	waits := group.Report{State: group.StateWaiting, Held: true, Grouped: true}
	b.joins("b", waits).does().joins("a", group.Report{State: group.StateReady}).does().joins("c", waits).does("keep a", "clear b")
	b.report("a", group.StateReady).does().report("b", group.StateReady).does("clear c")
}

// rebuilt makes a group again from what its members report.
func rebuilt(t *testing.T, c group.Config, reports ...group.Report) *bench {
	t.Helper()
	b := newBench(t, c, false, 1<<32)
	for i, m := range c.Members {
		reports[i].Grouped = true
		b.seqs[m.Name], b.order[m.Name] = reports[i].Seq, reports[i].Order
		b.step(group.Input{Kind: group.InputAdded, Name: m.Name, Report: reports[i]})
		require.True(t, i == len(reports)-1 || len(b.out) == 0, "it waits for all reports")
	}
	// Every member is ordered to continue, so that older orders are too late. That is answered, and not shown.
	var shown []group.Effect
	for queue := b.out; len(queue) > 0; queue = queue[1:] {
		e := queue[0]
		if e.Kind != group.EffectOrder || e.Order != group.OrderKeep {
			shown = append(shown, e)
			continue
		}
		require.Greater(t, e.Seq, uint64(1<<32))
		i := slices.IndexFunc(c.Members, func(m group.Member) bool { return m.Name == e.Name })
		b.order[e.Name], reports[i].Seq = reports[i].Order, e.Seq
		b.step(group.Input{Kind: group.InputReport, Name: e.Name, Report: reports[i]})
		queue = append(queue, b.out...)
	}
	b.out = shown
	return b
}

// A group that panics in the middle of anything, and is made again, continues.
func TestRebuild(t *testing.T) {
	run := func(seq uint64) group.Report {
		return group.Report{Seq: seq, OrderSeq: seq, Order: group.OrderClear, State: group.StateReady}
	}
	down := func(seq uint64, o group.Order) group.Report {
		return group.Report{Seq: seq, OrderSeq: seq, Order: o, State: group.StateWaiting, Held: true}
	}
	gone := func(seq uint64, o group.Order) group.Report {
		return group.Report{Seq: seq, OrderSeq: seq, Order: o, State: group.StateGivenUp}
	}
	failed := func(seq uint64) group.Report {
		return group.Report{Seq: seq, OrderSeq: seq, Order: group.OrderClear, State: group.StateEnding, Failures: 1}
	}
	all, rest, one := config(supervisor.OneForAll, "a", "b", "c"), config(supervisor.RestForOne, "a", "b", "c"), config(supervisor.OneForOne, "a", "b", "c")
	rebuilt(t, all, run(1), run(2), run(3)).does().in(group.StateReady)
	// The failure is in no report that was dealt with.
	rebuilt(t, all, run(1), failed(2), run(3)).does("hold c", "hold b")
	rebuilt(t, rest, run(1), failed(2), run(3)).does("hold c", "hold b").report("b", group.StateWaiting).report("c", group.StateWaiting).does("clear b")
	rebuilt(t, one, run(1), failed(2), run(3)).does().fails("b", 1).does()
	// In the middle of the end.
	rebuilt(t, all, run(1), down(5, group.OrderHold), down(4, group.OrderHold)).does("hold a").report("a", group.StateWaiting).does("clear a")
	rebuilt(t, rest, run(1), down(4, group.OrderHold), run(3)).does("hold c").report("c", group.StateWaiting).does("clear b")
	ending := group.Report{Seq: 4, OrderSeq: 4, Order: group.OrderHold, State: group.StateEnding, Held: true}
	rebuilt(t, all, down(6, group.OrderHold), down(5, group.OrderHold), ending).does().report("c", group.StateWaiting).does("clear a")
	// In the middle of the start.
	rebuilt(t, all, run(7), down(5, group.OrderHold), down(4, group.OrderHold)).does("clear b")
	rebuilt(t, one, run(1), down(5, group.OrderHold), run(3)).does("clear b")
	// After it has failed, and in the middle of its fresh start.
	rebuilt(t, all, run(1), run(2), gone(4, group.OrderEvict)).does("evict c").report("c", group.StateGivenUp).does("evict b").report("b", group.StateGivenUp).does("evict a").report("a", group.StateGivenUp).does("announce evict")
	rebuilt(t, all, run(9), gone(5, group.OrderEvict), gone(4, group.OrderEvict)).does("renew b").report("b", group.StateReady).does("renew c")
	rebuilt(t, all, run(1), gone(2, group.OrderClear), run(3)).does("evict c", "evict b")
	for _, c := range []*group.Config{&all, &one} {
		c.WhenSpent, c.ParkEvery = supervisor.SpentPark, time.Hour
		b := rebuilt(t, *c, down(6, group.OrderPark), down(5, group.OrderPark), down(4, group.OrderPark))
		for _, name := range []string{"c", "b", "a"} {
			b.report(name, group.StateWaiting)
		}
		b.does("announce park", "timer 1h0m0s").fire().does("renew a")
		rebuilt(t, *c, run(9), down(5, group.OrderPark), down(4, group.OrderPark)).does("renew b")
	}
	// The parent holds it.
	b := newBench(t, one, true, 1<<32)
	for i, m := range one.Members {
		b.step(group.Input{Kind: group.InputAdded, Name: m.Name, Report: run(uint64(i + 1))})
	}
	b.does("hold c").in(group.StateEnding)
	// A temporary member that was ended is no sign of a failure.
	all.Members[1].Restart = group.Temporary
	rebuilt(t, all, run(7), gone(5, group.OrderEnd), down(4, group.OrderHold)).does("clear c")
}

// A nested group is a member: what it does with its failure, it says its parent.
func TestNested(t *testing.T) {
	c := config(supervisor.OneForOne, "a", "n", "t")
	c.Members[1].Group, c.Members[2].Group, c.Members[2].Restart = true, true, group.Temporary
	b := ready(t, c)
	b.step(group.Input{Kind: group.InputReport, Name: "n", Report: group.Report{Seq: b.seqs["n"], Order: group.OrderClear, State: group.StateFailed, Grouped: true, Failures: 1}}).does("renew n")
	b.step(group.Input{Kind: group.InputReport, Name: "t", Report: group.Report{Seq: b.seqs["t"], Order: group.OrderClear, State: group.StateFailed, Grouped: true, Failures: 1}}).does()

	n := ready(t, group.Config{Name: "n", Members: []group.Member{{Name: "x"}, {Name: "y", Restart: group.Temporary}}})
	n.report("y", group.StateGivenUp).does()
	n.step(group.Input{Kind: group.InputParent, Order: group.OrderHold, Seq: 1}).does("hold x").report("x", group.StateWaiting)
	n.step(group.Input{Kind: group.InputParent, Order: group.OrderClear, Seq: 2}).does("clear x").report("x", group.StateReady).does("renew y")
	n.report("y", group.StateReady)
	n.step(group.Input{Kind: group.InputParent, Order: group.OrderEnd, Seq: 3}).does("evict y").report("y", group.StateGivenUp).report("x", group.StateGivenUp).does().in(group.StateGivenUp)
	require.Zero(t, n.Report().Failures, "it was ended, and has not failed")
	require.False(t, slices.ContainsFunc(n.out, func(e group.Effect) bool { return e.Kind == group.EffectAnnounce }))
	n.step(group.Input{Kind: group.InputRenew}).does().in(group.StateWaiting) // the operator does not change the order of the parent
	n.step(group.Input{Kind: group.InputParent, Order: group.OrderRenew, Seq: 4}).does("renew x")
}

// A temporary group that has failed, and a group in it, do not start again by themselves: one that comes after either waits,
// as for one that is given up.
func TestAfterAFailedTemporaryGroup(t *testing.T) {
	once := supervisor.Intensity{Window: time.Minute}
	for _, first := range []string{"inner", "outer"} {
		s := newSim(t, []group.Config{
			{Name: "root", Root: true, Members: []group.Member{{Name: "outer", Group: true, Restart: group.Temporary}, {Name: "h", Group: true}}},
			{Name: "outer", Members: []group.Member{{Name: "inner", Group: true}}, Intensity: once, WhenSpent: supervisor.SpentParent},
			{Name: "inner", Members: []group.Member{{Name: "a"}}, Intensity: once, WhenSpent: supervisor.SpentParent},
			{Name: "h", Members: []group.Member{{Name: "b", After: []string{first}}}, Intensity: once, WhenSpent: supervisor.SpentParent},
		}, policy, nil)
		s.begin(nil)
		s.settle(1000)
		require.Equal(t, group.StateReady, s.reportOf("h").State)
		for _, name := range []string{"a", "b"} {
			s.servers[name].exit(1)
			s.settle(1000)
		}
		require.Equal(t, group.StateFailed, s.reportOf("outer").State)
		require.Equal(t, group.StateFailed, s.reportOf("inner").State)
		require.Equal(t, group.StateBlocked, s.reportOf("h").State, "it waits for nothing that comes")
		s.groups["outer"].step(group.Input{Kind: group.InputRenew})
		s.settle(1000)
		require.Equal(t, group.StateReady, s.reportOf("h").State)
	}
}

// A server takes each order once, and answers with what it is.
func TestLinkAndReport(t *testing.T) {
	life := lifecycle.NewLifecycle(supervisor.Retry(1, time.Second), true, nil)
	var link group.Link
	now := time.Unix(0, 0)
	take := func(o group.Order, seq uint64, want bool) {
		t.Helper()
		in, ok := link.Take(life, group.Effect{Order: o, Seq: seq, Cause: &supervisor.Cause{Message: "why"}})
		require.Equal(t, want, ok)
		if ok {
			require.Equal(t, "why", in.Cause.Message)
			life.Step(now, in)
		}
	}
	state := func(want group.State, failures uint64) {
		t.Helper()
		r := group.ReportOf(life, &link)
		require.Equal(t, want, r.State)
		require.Equal(t, failures, r.Failures)
	}
	state(group.StateUnknown, 0)
	take(group.OrderHold, 1, true)
	life.Step(now, lifecycle.Input{Kind: lifecycle.InputRegister})
	state(group.StateWaiting, 0)
	take(group.OrderClear, 2, true)
	state(group.StateStarting, 0)
	take(group.OrderHold, 2, false)
	take(group.OrderHold, 1, false)
	state(group.StateStarting, 0)
	life.Step(now, lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 1})
	state(group.StateEnding, 1)
	life.Step(now, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 1})
	state(group.StateDown, 1)
	take(group.OrderClear, 3, true)
	state(group.StateDown, 1)
	take(group.OrderPark, 4, true)
	state(group.StateDown, 0)
	take(group.OrderEvict, 5, true)
	state(group.StateGivenUp, 0)
	take(group.OrderRenew, 6, true)
	state(group.StateStarting, 0)
	life.Step(now, lifecycle.Input{Kind: lifecycle.InputFence})
	life.Step(now, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 2})
	state(group.StateStopped, 0)
	require.Equal(t, group.OrderRenew, group.ReportOf(life, &link).Order)
}

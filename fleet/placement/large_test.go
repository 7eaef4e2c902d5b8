package placement

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	large      = flag.Bool("placement.large", false, "run TestPlanner_large: 1,000 nodes and 100,000 servers, about a minute and 1 GB")
	commitRate = flag.Int("placement.commits", 10000, "commits a second that the store of TestPlanner_large carries out")
)

// largeFleet is a fleet whose nodes see everything at the same time, a tick after the store had it.
// The rate of the store in commits a second, which it carries out in the order in which they come.
type largeFleet struct {
	*fleet
	queue            []wish
	perTick          int
	commits, refused int
	busiest          int // commits in one second
	places           []time.Duration
}

type wish struct {
	life string
	Effect
}

const tick = 50 * time.Millisecond

// run lets time pass until all names are placed, and returns how long the last one and the median
// took.
func (f *largeFleet) run(t *testing.T, what string) {
	t.Helper()
	begin, cpu := f.now, time.Now()
	before, refused, second := f.commits, f.refused, f.commits
	f.places = f.places[:0]
	f.busiest = 0
	total := f.view.Unplaced()
	for f.view.Unplaced() > 0 || len(f.queue) > 0 {
		for _, life := range f.lives {
			if p := f.planners[life]; p != nil {
				for _, e := range p.Step(f.now, f.view) {
					f.queue = append(f.queue, wish{life, e})
				}
			}
		}
		f.now += tick
		for range min(f.perTick, len(f.queue)) {
			f.commit(f.queue[0], begin)
			f.queue = f.queue[1:]
		}
		if (f.now-begin)%time.Second == 0 {
			f.busiest = max(f.busiest, f.commits-second)
			second = f.commits
		}
		require.Less(t, f.now-begin, 10*time.Minute, "%d names are not placed", f.view.Unplaced())
	}
	f.busiest = max(f.busiest, f.commits-second)
	slices.Sort(f.places)
	nodes := len(f.view.Nodes())
	commits := f.commits - before
	t.Logf("%s: %d names placed, half of them in %v, all in %v; %d commits (%d refused), at most %d a second; %d events to watches; the simulation took %v",
		what, total, f.places[len(f.places)/2], f.places[len(f.places)-1], commits, f.refused-refused, f.busiest,
		(commits-(f.refused-refused))*nodes, time.Since(cpu).Round(time.Millisecond))
}

func (f *largeFleet) commit(w wish, begin time.Duration) {
	f.commits++
	place, revision := f.view.Place(w.Name)
	switch {
	case w.Kind == EffectRelease:
		place.Released = true
		f.view.SetPlace(f.now, w.Name, place, f.next())
		return
	case revision == w.Revision && (revision == 0 || place.Released || !f.view.Alive(place.Life)):
		f.view.SetPlace(f.now, w.Name, Place{Node: w.life, Life: w.life, Epoch: place.Epoch + 1}, f.next())
		f.places = append(f.places, f.now-begin)
	default:
		f.refused++
	}
	if p := f.planners[w.life]; p != nil {
		p.Claimed(w.Name)
	}
}

// TestPlanner_large shows what a fleet beyond our machines would cost: docs/fleet.md has its output.
func TestPlanner_large(t *testing.T) {
	if !*large {
		t.Skip("it takes a minute; run it with -placement.large")
	}
	const nodes, names = 1000, 100_000
	f := &largeFleet{fleet: newFleet(t, Policy{}), perTick: *commitRate * int(tick) / int(time.Second)}
	f.specs(names, Spec{Exclusive: true})
	for i := range nodes {
		f.join(Node{ID: fmt.Sprintf("node%04d", i)})
	}
	ranking := time.Now()
	for _, n := range f.view.unplaced {
		f.view.candidatesOf(n)
	}
	t.Logf("one node ranks the candidates of all names in %v", time.Since(ranking).Round(time.Millisecond))
	f.run(t, "start of all nodes")
	loads := []int{}
	for _, load := range f.loads() {
		loads = append(loads, load)
	}
	slices.Sort(loads)
	t.Logf("loads: %d to %d, mean %d", loads[0], loads[nodes-1], names/nodes)
	require.LessOrEqual(t, loads[nodes-1], names/nodes*5/4)

	f.die("node0500")
	f.run(t, "a node dies")
	for i := range 100 {
		f.die(fmt.Sprintf("node%04d", i))
	}
	f.run(t, "100 nodes die at once")
	f.join(Node{ID: "node0900", Draining: true})
	f.drain(t, "node0900")
}

func (f *largeFleet) drain(t *testing.T, life string) {
	t.Helper()
	begin, before, owned := f.now, f.commits, len(f.view.Owned(life))
	for len(f.view.Owned(life)) > 0 {
		for _, e := range f.planners[life].Step(f.now, f.view) {
			f.queue = append(f.queue, wish{life, e})
		}
		f.run(t, "part of a drain")
	}
	t.Logf("a node drains: %d names, %v, %d commits", owned, f.now-begin, f.commits-before)
}

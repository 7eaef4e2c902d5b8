package placement

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fleet is a view that all its nodes share, with their planners. Commits are carried out at once.
type fleet struct {
	t        *testing.T
	view     *View
	planners map[string]*Planner // by life
	lives    []string
	now      time.Duration
	revision int64
	claims   map[string]int // by life, since the start
	releases map[string]int
}

func newFleet(t *testing.T, p Policy) *fleet {
	return &fleet{t: t, view: NewView(p), planners: map[string]*Planner{}, revision: 1, claims: map[string]int{}, releases: map[string]int{}}
}

func (f *fleet) next() int64 { f.revision++; return f.revision }

// join adds a node; its life has its name.
func (f *fleet) join(n Node) {
	n.Life = n.ID
	f.view.SetNode(f.now, n, f.next())
	if f.planners[n.Life] == nil {
		f.planners[n.Life] = NewPlanner(f.view.policy, n.Life, f.now)
		f.lives = append(f.lives, n.Life)
	}
}

func (f *fleet) joinMany(count int) {
	for i := range count {
		f.join(Node{ID: fmt.Sprint("node", i)})
	}
}

func (f *fleet) die(life string) {
	f.view.RemoveNode(f.now, life)
	delete(f.planners, life)
}

func (f *fleet) specs(count int, s Spec) {
	for i := range count {
		f.view.SetSpec(f.now, fmt.Sprintf("server%04d", i), s)
	}
}

// step lets every node plan once, and returns what it wants.
func (f *fleet) step() (effects map[string][]Effect) {
	effects = map[string][]Effect{}
	for _, life := range f.lives {
		if p := f.planners[life]; p != nil {
			effects[life] = p.Step(f.now, f.view)
		}
	}
	return effects
}

// run plans and commits until a time, in steps.
func (f *fleet) run(lasts, step time.Duration) {
	for until := f.now + lasts; f.now < until; f.now += step {
		effects := f.step()
		for _, life := range f.lives {
			for _, e := range effects[life] {
				f.carryOut(life, e)
			}
		}
	}
}

func (f *fleet) carryOut(life string, e Effect) {
	place, revision := f.view.Place(e.Name)
	switch {
	case e.Kind == EffectRelease:
		f.releases[life]++
		require.Equal(f.t, life, place.Life)
		place.Released = true
		f.view.SetPlace(f.now, e.Name, place, f.next())
	case revision == e.Revision && (revision == 0 || place.Released || !f.view.Alive(place.Life)):
		f.claims[life]++
		f.view.SetPlace(f.now, e.Name, Place{Node: life, Life: life, Epoch: place.Epoch + 1}, f.next())
	}
	if e.Kind == EffectClaim {
		f.planners[life].Claimed(e.Name)
	}
}

func (f *fleet) loads() (loads map[string]int) {
	loads = map[string]int{}
	for _, n := range f.view.Nodes() {
		loads[n.ID] = len(f.view.Owned(n.Life))
	}
	return loads
}

const short = 100 * time.Millisecond

func TestPlanner_boundsLoads(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5, 20} {
		f := newFleet(t, Policy{})
		f.joinMany(nodes)
		f.specs(200, Spec{})
		f.run(10*time.Second, short)
		require.Zero(t, f.view.Unplaced())
		for id, load := range f.loads() {
			require.LessOrEqual(t, load, (200*5/4+nodes-1)/nodes, "%s of %d", id, nodes)
		}
		f.run(time.Minute, time.Second)
		require.Empty(t, f.releases, "what is placed stays")
	}
}

func TestPlanner_followsWeights(t *testing.T) {
	f := newFleet(t, Policy{})
	f.join(Node{ID: "large", Weight: 8})
	f.join(Node{ID: "small"})
	f.join(Node{ID: "tiny", Weight: 0.001})
	f.specs(900, Spec{})
	f.run(time.Minute, short)
	loads := f.loads()
	require.InDelta(t, 800, loads["large"], 40)
	require.InDelta(t, 100, loads["small"], 40)
	require.LessOrEqual(t, loads["tiny"], 1)
}

func TestPlanner_respectsLabelsAndCapacity(t *testing.T) {
	f := newFleet(t, Policy{})
	f.join(Node{ID: "a", Labels: map[string]string{"browser": "yes"}})
	f.join(Node{ID: "b", Labels: map[string]string{"browser": "yes"}, Capacity: 30})
	f.join(Node{ID: "c", Labels: map[string]string{"browser": "no"}})
	f.join(Node{ID: "d"})
	f.specs(100, Spec{Labels: map[string]string{"browser": "yes"}})
	f.run(time.Minute, short)
	require.Zero(t, f.view.Unplaced(), "a name that fits two nodes goes beyond their bounds")
	require.Equal(t, map[string]int{"a": 70, "b": 30, "c": 0, "d": 0}, f.loads())

	f.join(Node{ID: "a"}) // it has lost its label, and no node can take its names
	f.run(time.Minute, short)
	require.Equal(t, 70, f.view.Unplaced())
	require.Equal(t, 30, f.loads()["b"])
}

func TestPlanner_candidatesTakeTurns(t *testing.T) {
	f := newFleet(t, Policy{Settle: time.Millisecond})
	f.joinMany(4)
	f.now = time.Hour
	f.specs(1, Spec{})
	for rank, candidate := range f.view.candidatesOf(f.view.names["server0000"]) {
		p, due := f.planners[candidate.Life], time.Hour+time.Duration(rank)*time.Second
		if rank > 0 {
			require.Empty(t, p.Step(due-1, f.view))
			require.Equal(t, due, p.Due())
		}
		require.Len(t, p.Step(due, f.view), 1, "candidate %d", rank)
	}
}

func TestPlanner_settlesBeforeItClaims(t *testing.T) {
	f := newFleet(t, Policy{Settle: time.Second})
	f.joinMany(1)
	f.specs(1, Spec{})
	require.Empty(t, f.step()["node0"])
	require.Equal(t, time.Second, f.planners["node0"].Due())
	f.now = time.Second
	require.Len(t, f.step()["node0"], 1)
}

func TestPlanner_pacesClaims(t *testing.T) {
	f := newFleet(t, Policy{MaxClaims: 3})
	f.joinMany(1)
	f.specs(10, Spec{})
	f.now = time.Minute
	first := f.step()["node0"]
	require.Len(t, first, 3)
	require.Empty(t, f.step()["node0"], "until one is answered")
	f.carryOut("node0", first[0])
	require.Len(t, f.step()["node0"], 1)
}

func TestPlanner_repeatsAClaim(t *testing.T) {
	f := newFleet(t, Policy{Retry: time.Second})
	f.joinMany(1)
	f.specs(1, Spec{})
	f.now = time.Minute
	require.Len(t, f.step()["node0"], 1)
	f.planners["node0"].Claimed("server0000") // its outcome is unknown
	require.Empty(t, f.step()["node0"])
	require.Equal(t, f.now+time.Second, f.planners["node0"].Due())
	f.now += time.Second
	require.Len(t, f.step()["node0"], 1)

	f.now += time.Minute
	require.Empty(t, f.step()["node0"], "it is not answered yet")
	f.planners["node0"].Claimed("server0000")
	f.now += time.Second
	require.Len(t, f.step()["node0"], 1)
}

func TestPlanner_movesOnlyWhatItMust(t *testing.T) {
	f := newFleet(t, Policy{})
	f.joinMany(5)
	f.specs(500, Spec{})
	f.run(20*time.Second, short)
	before := map[string]Place{}
	for _, name := range f.view.Names() {
		before[name], _ = f.view.Place(name)
	}
	f.die("node3")
	f.run(20*time.Second, short)
	require.Zero(t, f.view.Unplaced())
	for name, was := range before {
		place, _ := f.view.Place(name)
		if was.Node != "node3" {
			require.Equal(t, was, place)
		} else {
			require.Equal(t, was.Epoch+1, place.Epoch)
		}
	}
}

func TestPlanner_handsSurplusToANodeThatJoins(t *testing.T) {
	f := newFleet(t, Policy{})
	f.joinMany(2)
	f.specs(200, Spec{})
	f.run(10*time.Second, short)
	f.join(Node{ID: "late"})
	f.run(9*time.Second, short)
	require.Equal(t, 0, f.loads()["late"], "a node that joins moves nothing")
	f.run(time.Minute, short)
	require.Zero(t, f.view.Unplaced())
	loads := f.loads()
	require.LessOrEqual(t, loads["node0"], 84)
	require.LessOrEqual(t, loads["node1"], 84)
	require.Equal(t, loads["late"], f.releases["node0"]+f.releases["node1"], "and nothing moves twice")
}

func TestPlanner_drains(t *testing.T) {
	f := newFleet(t, Policy{MaxReleases: 5})
	f.joinMany(3)
	f.specs(90, Spec{})
	f.run(10*time.Second, short)
	f.join(Node{ID: "node1", Draining: true})
	effects := f.step()["node1"]
	require.Len(t, effects, 5)
	for _, e := range effects {
		require.Equal(t, EffectRelease, e.Kind)
		f.carryOut("node1", e)
	}
	f.run(20*time.Second, short)
	require.Zero(t, f.loads()["node1"])
	require.Zero(t, f.view.Unplaced())

	f.join(Node{ID: "node0", Draining: true})
	f.join(Node{ID: "node2", Draining: true})
	f.run(20*time.Second, short)
	require.Equal(t, 90, f.view.Unplaced(), "a node that drains takes nothing, and waits for no node")
}

func TestPlanner_releasesWhatWasRemoved(t *testing.T) {
	f := newFleet(t, Policy{})
	f.joinMany(2)
	f.specs(10, Spec{})
	f.run(5*time.Second, short)
	f.view.RemoveSpec(f.now, "server0003")
	f.run(5*time.Second, short)
	place, _ := f.view.Place("server0003")
	require.True(t, place.Released)
	f.view.SetSpec(f.now, "server0003", Spec{})
	f.run(5*time.Second, short)
	again, _ := f.view.Place("server0003")
	require.Equal(t, place.Epoch+1, again.Epoch, "epochs grow over a removal")
}

// TestPlanner_refuses: a node that cannot run a name hands it over, and never takes it; it takes it
// again when it can.
func TestPlanner_refuses(t *testing.T) {
	f := newFleet(t, Policy{RebalanceAfter: time.Hour})
	f.joinMany(2)
	f.specs(20, Spec{})
	f.run(10*time.Second, short)
	first, second := f.lives[0], f.lives[1]
	require.NotZero(t, f.loads()[first])
	for _, name := range f.view.Names() {
		f.planners[first].Refuse(name, true)
	}
	f.run(time.Minute, short)
	require.Zero(t, f.loads()[first])
	require.Equal(t, 20, f.loads()[second])
	claims := f.claims[first]
	f.die(second)
	f.run(10*time.Second, short)
	require.Equal(t, 20, f.view.Unplaced())
	require.Equal(t, claims, f.claims[first])
	for _, name := range f.view.Names() {
		f.planners[first].Refuse(name, false)
	}
	f.run(10*time.Second, short)
	require.Equal(t, 20, f.loads()[first])
}

// TestPlanner_holds: what runs here already is claimed here, whichever node is the first candidate.
func TestPlanner_holds(t *testing.T) {
	f := newFleet(t, Policy{Settle: time.Millisecond})
	f.joinMany(4)
	f.now = time.Minute
	f.specs(1, Spec{})
	candidates := f.view.candidatesOf(f.view.names["server0000"])
	last := f.planners[candidates[3].Life]
	require.Empty(t, last.Step(f.now, f.view))
	last.Hold("server0000", true)
	require.Len(t, last.Step(f.now, f.view), 1)
}

// TestPlanner_oldLife: two lives of a node live for a while; the older claims nothing.
func TestPlanner_oldLife(t *testing.T) {
	v := NewView(Policy{})
	v.SetNode(0, Node{ID: "a", Life: "2"}, 20)
	v.SetNode(0, Node{ID: "a", Life: "1"}, 10)
	v.SetSpec(0, "server", Spec{})
	require.Empty(t, NewPlanner(Policy{}, "1", 0).Step(time.Minute, v))
	require.Len(t, NewPlanner(Policy{}, "2", 0).Step(time.Minute, v), 1)
	v.RemoveNode(0, "2")
	require.Len(t, NewPlanner(Policy{}, "1", 0).Step(time.Minute, v), 1)
}

// TestHash_spreads: names and nodes that differ in a digit get independent scores.
func TestHash_spreads(t *testing.T) {
	v := NewView(Policy{})
	for i := range 3 {
		id := fmt.Sprint("node-", i)
		v.SetNode(0, Node{ID: id, Life: id}, int64(i))
	}
	first := map[string]int{}
	for i := range 3000 {
		n := &name{hash: hashOf(fmt.Sprint("server-", i)), spec: &Spec{}}
		for _, l := range v.lives {
			l.full = false
		}
		first[v.candidatesOf(n)[0].ID]++
	}
	for id, count := range first {
		require.InDelta(t, 1000, count, 100, id)
	}
}

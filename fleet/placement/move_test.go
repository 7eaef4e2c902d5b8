package placement

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// moved returns a fleet of three nodes with 30 servers, all placed, and one of them with its owner
// and another node.
func moved(t *testing.T) (f *fleet, server, from, to string) {
	f = newFleet(t, Policy{})
	f.joinMany(3)
	f.specs(30, Spec{})
	f.run(10*time.Second, short)
	require.Zero(t, f.view.Unplaced())
	server = "server0007"
	place, _ := f.view.Place(server)
	for _, n := range f.view.Nodes() {
		if n.ID != place.Node {
			to = n.ID
		}
	}
	return f, server, place.Node, to
}

func (f *fleet) owner(server string) string {
	place, _ := f.view.Place(server)
	return place.Node
}

func TestPlanner_moves(t *testing.T) {
	f, server, from, to := moved(t)
	f.claims = map[string]int{}
	f.view.SetMove(server, to)
	require.Equal(t, to, f.view.Move(server))
	require.Equal(t, []string{server}, f.view.Moves())
	f.run(time.Second, short)
	require.Equal(t, to, f.owner(server))
	require.Equal(t, map[string]int{from: 1}, f.releases)
	require.Equal(t, map[string]int{to: 1}, f.claims)
	f.view.SetMove(server, "")
	require.Empty(t, f.view.Moves())
	f.run(time.Minute, time.Second)
	require.Equal(t, to, f.owner(server), "it stays")
}

// TestPlanner_movesAgain: a node takes a name at once that it was a late candidate of a moment before, however
// soon the moves follow each other, and what it had planned for then is not kept.
func TestPlanner_movesAgain(t *testing.T) {
	for _, pause := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		f, server, _, _ := moved(t)
		nodes := f.view.Nodes()
		for i := range 24 {
			to := nodes[i%3].ID
			if to == f.owner(server) {
				continue
			}
			f.view.SetMove(server, to)
			f.run(time.Second, short)
			require.Equal(t, to, f.owner(server), "move %d, %v after the one before", i, pause)
			f.view.SetMove(server, "")
			f.run(pause, short)
		}
		f.run(10*time.Second, short)
		for id, p := range f.planners {
			require.Empty(t, p.queue, id)
			require.Empty(t, p.queued, id)
		}
	}
}

// TestView_moveTarget: it is the first candidate, once.
func TestView_moveTarget(t *testing.T) {
	f, server, _, _ := moved(t)
	for _, n := range f.view.Nodes() {
		f.view.SetMove(server, n.ID)
		candidates := f.view.candidatesOf(f.view.names[server])
		require.Len(t, candidates, 3)
		require.Equal(t, n.ID, candidates[0].ID)
	}
}

// TestPlanner_movesToFullNode: the bound does not keep a name away. What is surplus then is another
// name, which has been there longer.
func TestPlanner_movesToFullNode(t *testing.T) {
	f, _, _, to := moved(t)
	f.run(20*time.Second, short)
	handed := f.releases[to]
	for _, n := range f.view.Nodes() {
		for _, server := range slices.Backward(f.view.Owned(n.Life)) {
			if n.ID == to || f.releases[to] > 3 {
				break
			}
			f.view.SetMove(server, to)
			f.run(time.Second, short)
			require.Equal(t, to, f.owner(server))
			f.view.SetMove(server, "")
			f.run(5*time.Second, short)
			require.Equal(t, to, f.owner(server))
		}
	}
	f.run(time.Minute, time.Second)
	require.Zero(t, f.view.Unplaced())
	life := f.view.lives[to]
	require.LessOrEqual(t, life.load, f.view.bound(life))
	require.Greater(t, f.releases[to], handed)
}

// TestPlanner_movesNot: a node that may not take a name gets none, and the owner keeps it.
func TestPlanner_movesNot(t *testing.T) {
	for name, spoil := range map[string]func(f *fleet, server, to string) string{
		"unknown":         func(*fleet, string, string) string { return "unknown" },
		"the owner":       func(f *fleet, server, _ string) string { return f.owner(server) },
		"a draining node": func(f *fleet, _, to string) string { f.join(Node{ID: to, Draining: true}); return to },
		"a dead node":     func(f *fleet, _, to string) string { f.die(to); return to },
		"a spent node":    func(f *fleet, _, to string) string { f.join(Node{ID: to, Capacity: 1}); return to },
		"a node without the labels": func(f *fleet, server, to string) string {
			f.join(Node{ID: f.owner(server), Labels: map[string]string{"a": "b"}})
			f.view.SetSpec(f.now, server, Spec{Labels: map[string]string{"a": "b"}})
			return to
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, server, from, to := moved(t)
			to = spoil(f, server, to)
			f.run(30*time.Second, short)
			require.Equal(t, from, f.owner(server))
			place, _ := f.view.Place(server)
			f.view.SetMove(server, to)
			f.run(30*time.Second, short)
			after, _ := f.view.Place(server)
			require.Equal(t, place, after)
		})
	}
}

// TestPlanner_moveWithoutAnAnswer: others claim what the node does not, later than otherwise; and at
// once when the move is no longer wanted.
func TestPlanner_moveWithoutAnAnswer(t *testing.T) {
	for _, ends := range []bool{false, true} {
		f, server, _, to := moved(t)
		delete(f.planners, to) // it hangs
		f.view.SetMove(server, to)
		f.run(short, short)
		require.Contains(t, f.view.unplaced, server)
		begin := f.now
		if ends {
			f.run(time.Second, short)
			f.view.SetMove(server, "")
		}
		for len(f.view.unplaced) > 0 && f.now < begin+time.Minute {
			f.run(short, short)
		}
		require.NotEqual(t, to, f.owner(server))
		if took := f.now - begin; ends {
			require.Less(t, took, 2500*time.Millisecond)
		} else {
			require.GreaterOrEqual(t, took, 3500*time.Millisecond)
			require.Less(t, took, 6*time.Second)
		}
	}
}

// TestPlanner_releasesAgain: a node that handed a name over, and had to take it back because no node
// else came, hands it over again when it drains.
func TestPlanner_releasesAgain(t *testing.T) {
	f := newFleet(t, Policy{})
	f.join(Node{ID: "a"})
	f.specs(10, Spec{})
	f.run(5*time.Second, short)
	f.join(Node{ID: "b"})
	delete(f.planners, "b") // it hangs
	f.run(15*time.Second, short)
	require.Positive(t, f.releases["a"])
	for f.view.Unplaced() > 0 {
		f.run(short, short)
	}
	f.join(Node{ID: "a", Draining: true})
	f.run(5*time.Second, short)
	require.Empty(t, f.view.Owned("a"))
}

package placement

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestView compares a view with the records that it was told, whatever their order.
func TestView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			v      = NewView(Policy{})
			nodes  = map[string]Node{} // by life
			specs  = map[string]Spec{}
			places = map[string]Place{}
			last   = map[string]int64{} // revisions of places
			now    time.Duration
		)
		lives := rapid.IntRange(1, 6).Draw(t, "lives")
		life := func() string { return fmt.Sprint(rapid.IntRange(1, lives).Draw(t, "life")) }
		server := func() string { return fmt.Sprint("s", rapid.IntRange(1, 8).Draw(t, "server")) }
		for range rapid.IntRange(1, 60).Draw(t, "changes") {
			now += time.Second
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				n := Node{Life: life(), Draining: rapid.Bool().Draw(t, "draining"), Capacity: rapid.IntRange(0, 3).Draw(t, "capacity")}
				n.ID = "node" + n.Life
				nodes[n.Life] = n
				v.SetNode(now, n, int64(now))
			case 1:
				l := life()
				delete(nodes, l)
				v.RemoveNode(now, l)
			case 2:
				name := server()
				specs[name] = Spec{Exclusive: rapid.Bool().Draw(t, "exclusive")}
				v.SetSpec(now, name, specs[name])
			case 3:
				name := server()
				delete(specs, name)
				v.RemoveSpec(now, name)
			default:
				name, l := server(), life()
				p := Place{Node: "node" + l, Life: l, Epoch: uint64(now), Released: rapid.Bool().Draw(t, "released")}
				revision := rapid.Int64Range(1, 100).Draw(t, "revision")
				if revision > last[name] {
					places[name], last[name] = p, revision
				}
				v.SetPlace(now, name, p, revision)
			}

			unplaced, owned, loads := 0, map[string]int{}, map[string]int{}
			for name := range specs {
				p := places[name]
				_, alive := nodes[p.Life]
				if last[name] == 0 || p.Released || !alive {
					unplaced++
				}
			}
			for name, p := range places {
				if !p.Released {
					owned[p.Life]++
					if _, known := specs[name]; known {
						loads[p.Life]++
					}
				}
				got, revision := v.Place(name)
				require.Equal(t, p, got)
				require.Equal(t, last[name], revision)
			}
			require.Equal(t, unplaced, v.Unplaced())
			require.Len(t, v.Nodes(), len(nodes))
			for l, n := range nodes {
				require.Equal(t, loads[l], v.lives[l].load)
				require.Len(t, v.Owned(l), owned[l])
				full, spent := v.limits(v.lives[l])
				require.Equal(t, full, v.lives[l].full)
				require.Equal(t, spent, v.lives[l].spent)
				require.Equal(t, n.Draining, v.Draining(l))
			}
			for name := range v.unplaced {
				for _, c := range v.candidatesOf(v.names[name]) {
					require.False(t, c.Draining)
					require.False(t, c.Capacity > 0 && loads[c.Life] >= c.Capacity)
					require.Contains(t, nodes, c.Life)
				}
			}
		}
	})
}

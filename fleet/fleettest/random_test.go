//go:build linux

package fleettest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// fault is something that happens to a fleet, and how it is taken back. It says what it has done.
type fault struct {
	name string
	// last: it is taken back after the others, because a node that starts waits until it has joined.
	last bool
	do   func(r *rand.Rand, f *Fleet) (what string, undo func())
}

func (f *Fleet) ids() []string { return slices.Sorted(maps.Keys(f.Nodes)) }

// any chooses a node.
func (f *Fleet) any(r *rand.Rand) *Node { return f.Nodes[f.ids()[r.IntN(len(f.Nodes))]] }

func someDirections(r *rand.Rand) []Direction {
	return [][]Direction{{There}, {Back}, {There, Back}}[r.IntN(3)]
}

var faults = []fault{
	{"kill", true, func(r *rand.Rand, f *Fleet) (string, func()) {
		n := f.any(r)
		if n.PID() == 0 {
			return n.ID + ", which is dead", func() {}
		}
		if n.stop != 0 {
			return n.ID + ", which is stopped", func() {}
		}
		n.Kill()
		return n.ID, n.Start
	}},
	{"stop", false, func(r *rand.Rand, f *Fleet) (string, func()) {
		n := f.any(r)
		if n.PID() == 0 || n.stop != 0 {
			return n.ID + ", which is stopped or dead", func() {}
		}
		n.Stop()
		return n.ID, func() { n.Continue() }
	}},
	{"cut from etcd", false, func(r *rand.Rand, f *Fleet) (string, func()) {
		n, directions := f.any(r), someDirections(r)
		for _, p := range n.Stores {
			p.Cut(AnySource, directions...)
		}
		return fmt.Sprint(n.ID, directions), n.HealStore
	}},
	{"cut a link", false, func(r *rand.Rand, f *Fleet) (string, func()) {
		to, from, directions := f.any(r), f.any(r), someDirections(r)
		to.Peer.Cut(from.ID, directions...)
		return fmt.Sprint(from.ID, " → ", to.ID, directions), func() { to.Peer.Heal(from.ID) }
	}},
	{"kill etcd", false, func(_ *rand.Rand, f *Fleet) (string, func()) {
		for _, s := range f.Etcd {
			s.Kill()
		}
		return "all members", f.runEtcd
	}},
	{"kill the guard", false, func(r *rand.Rand, f *Fleet) (string, func()) {
		n := f.any(r)
		pid := 0
		if n.PID() != 0 {
			pid = guardOf(n.PID())
		}
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return fmt.Sprint("of ", n.ID, ", process ", pid), func() {} // it is replaced
	}},
	{"drain", true, func(r *rand.Rand, f *Fleet) (string, func()) {
		n := f.any(r)
		if n.PID() == 0 || n.stop != 0 {
			return n.ID + ", which is stopped or dead", func() {}
		}
		go func() { _, _ = ask[any](n, "drain", nil) }() // it may be cut off, and never end
		return n.ID, func() {
			if n.PID() != 0 && n.stop == 0 {
				n.Kill()
				n.Start()
			}
		}
	}},
}

// TestRandomFaults is line 7 of the table in docs/fleet.md: whatever happens, no server lives twice, no call is executed twice, and
// nothing is left. The seed says what happens, not in which moment of the fleet's life.
func TestRandomFaults(t *testing.T) {
	first, count := uint64(1), cmp.Or(*seeds, pick(2, 100))
	if *seed != 0 {
		first, count = *seed, cmp.Or(*seeds, 1)
	}
	for s := first; s < first+uint64(count); s++ {
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("again: go test ./fleet/fleettest -run '^TestRandomFaults$' -fleet.seed %d -v", s)
				}
			}()
			playFaults(t, s)
		})
	}
}

func playFaults(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	f := Start(t, Options{TTL: ttl()})
	f.Apply(servers())
	f.answers(f.Nodes["a"], "after the start", time.Minute)
	start := boottime.Now()
	load := func() {
		for _, n := range f.Nodes {
			_, _ = ask[any](n, "load", loadCommand{"hasty", loadOptions{Names: f.Names(), Callers: 2, Pause: 5 * time.Millisecond, Seed: seed, Call: callOptions{Timeout: time.Second}}})
			_, _ = ask[any](n, "load", loadCommand{"patient", loadOptions{Names: f.Names(), Callers: 2, Pause: 5 * time.Millisecond, Seed: seed, Call: callOptions{Timeout: 10 * time.Second, Wait: true}}})
		}
	}
	load()
	for range pick(3, 4) { // rounds
		var undo, undoLast []func()
		for range 1 + r.IntN(2) {
			chosen := faults[r.IntN(len(faults))]
			what, back := chosen.do(r, f)
			t.Logf("%6.2f s: %s %s", (boottime.Now() - start).Seconds(), chosen.name, what)
			if chosen.last {
				undoLast = append(undoLast, back)
			} else {
				undo = append(undo, back)
			}
			time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond) // when the next one comes is random
		}
		// Some faults are shorter than a lease, some longer.
		time.Sleep(time.Duration(r.Int64N(int64(ttl() + 2*time.Second))))
		for _, back := range slices.Concat(undo, undoLast) {
			back()
		}
		t.Logf("%6.2f s: all undone", (boottime.Now() - start).Seconds())
	}
	load() // of those that were started again
	for _, id := range f.ids() {
		f.answers(f.Nodes[id], "after all faults", time.Minute)
	}
	for _, id := range f.ids() {
		n := f.Nodes[id]
		t.Logf("node %s: hasty %v; patient %v", id, n.unload("hasty"), n.unload("patient"))
	}
}

package protocol_test

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seeds = flag.Int("simulation.seeds", 500, "how many random fleets TestSimulation runs")
	seed  = flag.Uint64("simulation.seed", 0, "run this one only, with a trace (-v)")
)

const (
	faultsFor = 45 * time.Second
	// settleFor is how long after the last fault every name must be placed: a lease of a life that
	// the node does not renew (8.2 s), a watch that is silent (6 s), the turns of five candidates, ends.
	settleFor = 35 * time.Second
)

// TestSimulation runs fleets of five nodes through faults: lost and late packets, cut links,
// clocks that differ by 5 %, processes that are stopped, killed and started, machines that stop,
// guards that die, names that are moved, a store that is away. Two lives of an exclusive name never overlap, epochs only grow, and after
// the faults every name is placed.
//
//	go test ./internal/protocol -run TestSimulation -simulation.seed 17 -v
//
// replays one fleet with a trace.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		require.Empty(t, simulate(*seed, broken{}, t.Logf).failure)
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the fleets are small, and live for milliseconds
	begin := time.Now()
	failed, total := firstFailure(*seeds, broken{})
	require.Zero(t, failed, "seed %d fails; replay it with\n\tgo test ./internal/protocol -run TestSimulation -simulation.seed %d -v\n%s",
		failed, failed, simulate(failed, broken{}, nil).failure)
	t.Logf("%d fleets in %v: %+v", *seeds, time.Since(begin).Round(time.Millisecond), total)
}

// TestSimulation_finds shows that the simulation would notice a protocol that is not safe.
func TestSimulation_finds(t *testing.T) {
	for name, b := range map[string]broken{
		"a deadline without the margin":                     {noMargin: true},
		"a claim without the check of the former life":      {noFormerCheck: true},
		"a guard that gives the lease back before the reap": {earlyRevoke: true},
		"a stopped node without a guard":                    {noGuard: true},
		"a node that lives on without its guard":            {noGuardNoFence: true},
	} {
		t.Run(name, func(t *testing.T) {
			failed, _ := firstFailure(2000, b)
			require.NotZero(t, failed, "no seed has found it")
			failure := simulate(failed, b, nil).failure
			require.Contains(t, failure, "two lives of")
			t.Logf("seed %d: %s", failed, failure)
		})
	}
}

// firstFailure runs fleets on all processors; it returns a seed that failed, 0 if none did.
func firstFailure(seeds int, b broken) (failed uint64, total counts) {
	var (
		next, found atomic.Uint64
		mu          sync.Mutex
		workers     sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for found.Load() == 0 {
				s := next.Add(1)
				if s > uint64(seeds) {
					return
				}
				w := simulate(s, b, nil)
				mu.Lock()
				total.add(w.count)
				mu.Unlock()
				if w.failure != "" {
					found.CompareAndSwap(0, s)
				}
			}
		})
	}
	workers.Wait()
	return found.Load(), total
}

func (c *counts) add(other counts) {
	c.events += other.events
	c.requests += other.requests
	c.starts += other.starts
	c.fences += other.fences
	c.restarts += other.restarts
	c.moves += other.moves
	c.guards += other.guards
}

// simulate runs one fleet.
func simulate(seed uint64, b broken, trace func(string, ...any)) *world {
	w := newWorld(seed, 5, 12, b)
	w.trace = trace
	for _, m := range w.machines {
		m.loss, m.delay = 0, 5*time.Millisecond
		w.after(w.between(0, 2*time.Second), m.boot)
	}
	w.fault()
	w.run(faultsFor)
	w.heal()
	w.run(faultsFor + settleFor)
	if w.failure == "" {
		w.checkLeft()
		w.checkPlaced()
		w.checkMove()
		w.checkDrain()
	}
	return w
}

// fault does something bad, and plans the next.
func (w *world) fault() {
	if w.now > faultsFor {
		return
	}
	m := w.machines[w.random.IntN(len(w.machines))]
	lasts := w.between(100*time.Millisecond, 20*time.Second)
	switch w.random.IntN(14) {
	case 0, 1:
		if p := m.process; p != nil && !p.stopped && p.guarded() {
			p.pause()
			w.after(lasts, func() {
				if p.stopped {
					p.resume()
				}
			})
		}
	case 2:
		if p := m.process; p != nil && p.guarded() {
			p.kill()
			w.after(w.between(0, 8*time.Second), m.boot)
		}
	case 3:
		if p := m.process; p != nil {
			p.powerOff()
			w.after(w.between(time.Second, 15*time.Second), m.boot)
		}
	case 4, 5, 6:
		both := w.random.IntN(3)
		w.log("%s: cut (%d) for %v", m.config.Node.ID, both, lasts)
		m.cutTo, m.cutFrom = m.cutTo || both != 1, m.cutFrom || both != 2
		w.after(lasts, func() { m.cutTo, m.cutFrom = false, false })
	case 7:
		w.log("%s: a bad link for %v", m.config.Node.ID, lasts)
		m.loss, m.delay = 0.4*w.random.Float64(), w.between(time.Millisecond, 2*time.Second)
		w.after(lasts, func() {
			m.loss, m.delay = 0, 5*time.Millisecond
			if w.now < faultsFor && w.chance(0.5) { // the last answers were late, and now there are none
				m.cutTo, m.cutFrom = true, true
				w.after(12*time.Second, func() { m.cutTo, m.cutFrom = false, false })
			}
		})
	case 8:
		if !w.storeDown {
			w.outage(w.between(100*time.Millisecond, 12*time.Second))
		}
	case 9:
		w.store.Compact(w.store.Revision() - w.random.Int64N(5))
	case 10:
		m.leave()
	case 11:
		name := fmt.Sprint("server", w.random.IntN(12))
		if s, known := w.specs[name]; known {
			w.log("%s is removed for %v", name, lasts)
			w.removeSpec(name)
			w.after(lasts, func() { w.putSpec(name, s) })
		}
	case 12:
		if p := m.process; p != nil && !p.stopped && p.deadline != 0 && p.guarded() {
			w.count.guards++
			p.loseGuard()
		}
	case 13:
		w.move(fmt.Sprint("server", w.random.IntN(12)), m.config.Node.ID)
	}
	w.after(w.between(0, 4*time.Second), w.fault)
}

func (w *world) outage(lasts time.Duration) {
	w.log("store: away for %v", lasts)
	w.storeDown = true
	for _, m := range w.machines {
		if m.process != nil {
			m.process.broken()
		}
	}
	w.after(lasts, func() {
		w.log("store: back")
		w.storeDown = false
		if w.chance(0.7) {
			w.store.RenewAll(w.storeNow()) // what a new leader of etcd does; but no promise rests on it
		}
	})
}

// heal ends all faults.
func (w *world) heal() {
	w.log("the faults end")
	w.storeDown = false
	for _, m := range w.machines {
		m.loss, m.delay, m.cutTo, m.cutFrom = 0, 5*time.Millisecond, false, false
		if m.process != nil && m.process.stopped {
			m.process.resume()
		}
		w.after(w.between(0, time.Second), m.boot)
	}
	for _, m := range w.machines[:2] { // they may be without a life, or have begun another
		w.after(w.between(0, 6*time.Second), m.leave)
	}
}

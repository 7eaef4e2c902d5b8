package protocol_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/kv"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// world is a fleet in true time: events in their order, a store, and machines that reach it over a
// network. Everything that happens follows from the seed.
type world struct {
	random *rand.Rand
	now    time.Duration // true time
	events eventHeap
	serial int
	broken broken

	store     *kv.Engine
	storeRate float64 // of its clock; 1 is true time
	storeDown bool

	machines []*machine
	specs    map[string]placement.Spec

	// What the checker knows: the exclusive servers that live, by name, and the highest epoch that
	// was started, and that the store had.
	alive   map[string][]*process
	started map[string]uint64
	stored  map[string]uint64
	failure string

	trace func(format string, args ...any) // nil: no trace
	count counts
}

// broken says which rule of the protocol is broken on purpose.
type broken struct {
	noMargin      bool // the deadline is the end of the lease
	noFormerCheck bool // a claim holds although the former life's key is there
	earlyRevoke   bool // the guard gives the lease back before the servers have been reaped
	noGuard       bool // the servers of a stopped node run on
	// noGuardNoFence: a node whose guard has died keeps its life.
	noGuardNoFence bool
}

// counts are what a run has cost.
type counts struct{ events, requests, starts, fences, restarts, moves, guards int }

type event struct {
	at     time.Duration
	serial int
	do     func()
}

type eventHeap []event

func (h *eventHeap) Len() int { return len(*h) }
func (h *eventHeap) Less(i, j int) bool {
	a, b := &(*h)[i], &(*h)[j]
	return a.at < b.at || a.at == b.at && a.serial < b.serial
}
func (h *eventHeap) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *eventHeap) Push(x any)    { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (w *world) at(at time.Duration, do func()) {
	w.serial++
	heap.Push(&w.events, event{max(at, w.now), w.serial, do})
}

func (w *world) after(pause time.Duration, do func()) { w.at(w.now+pause, do) }

// run lets true time pass until a point, or a failure.
func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.failure == "" && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		w.count.events++
		e.do()
	}
	w.now = max(w.now, until)
}

func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		w.trace("%9.3f  %s", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	w.log("FAILURE: "+format, args...)
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

// between is a random duration.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.random.Int64N(int64(to-from)+1))
}

func (w *world) chance(p float64) bool { return w.random.Float64() < p }

// newWorld makes machines that are off, and the names in the store.
func newWorld(seed uint64, nodes, names int, b broken) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 0)), broken: b, store: kv.New(), specs: map[string]placement.Spec{},
		alive: map[string][]*process{}, started: map[string]uint64{}, stored: map[string]uint64{},
	}
	w.storeRate = w.rate()
	for i := range nodes {
		m := &machine{world: w, rate: w.rate(), offset: w.between(0, time.Hour)}
		m.config.Node = placement.Node{ID: fmt.Sprint("node", i), Labels: map[string]string{"zone": fmt.Sprint(i % 2)}}
		if b.noMargin {
			m.config.Margin = -1
		}
		w.machines = append(w.machines, m)
	}
	for i := range names {
		s := placement.Spec{Exclusive: i%3 != 2}
		if i%5 == 4 {
			s.Labels = map[string]string{"zone": "1"}
		}
		w.putSpec(fmt.Sprint("server", i), s)
	}
	w.expire()
	return w
}

func (w *world) putSpec(name string, s placement.Spec) {
	w.specs[name] = s
	_, _ = w.store.Commit(store.Txn{Then: []store.Change{store.Put(records.SpecKey(name), records.Encode(records.Spec{Spec: s}, nil))}})
	w.notify()
}

func (w *world) removeSpec(name string) {
	delete(w.specs, name)
	_, _ = w.store.Commit(store.Txn{Then: []store.Change{store.Remove(records.SpecKey(name))}})
	w.notify()
}

// move asks that a node takes a name, as records.RequestMove does.
func (w *world) move(name, id string) {
	w.log("%s is to move to %s", name, id)
	w.count.moves++
	lease := w.store.Grant(w.storeNow(), moveTTL)
	_, _ = w.store.Commit(store.Txn{
		If:   []store.Condition{store.Present(records.SpecKey(name))},
		Then: []store.Change{store.PutLeased(records.MoveKey(name), records.Encode(records.Move{Node: id}, nil), lease)},
	})
	w.notify()
}

// moveTTL is shorter than the rest after the faults.
const moveTTL = 15 * time.Second

// checkMove moves one name while nothing fails, and checks that it arrives.
func (w *world) checkMove() {
	m := w.machines[w.random.IntN(len(w.machines))]
	name := fmt.Sprint("server", w.random.IntN(12))
	if !w.specs[name].Allows(m.config.Node) {
		return
	}
	w.move(name, m.config.Node.ID)
	w.run(w.now + 5*time.Second)
	if w.failure == "" && (m.process == nil || m.process.servers[name] == nil) {
		w.fail("%s has not moved to %s", name, m.config.Node.ID)
	}
}

// checkLeft checks that no node that was told to leave during the faults is still there.
func (w *world) checkLeft() {
	for _, m := range w.machines {
		if p := m.process; p != nil && p.leaving {
			w.fail("%s does not leave: %+v", p, p.node.Snapshot())
		}
	}
}

// checkDrain drains one node while nothing fails, and checks that it has no server then.
func (w *world) checkDrain() {
	p := w.machines[w.random.IntN(len(w.machines))].process
	if p == nil || w.failure != "" {
		return
	}
	w.log("%s: drains", p)
	p.input(protocol.Input{Kind: protocol.InputDrain})
	w.run(w.now + 5*time.Second)
	if !p.node.Snapshot().Drained || len(p.servers) > 0 {
		w.fail("%s has not drained: %v", p, p.servers)
	}
}

// rate is that of a clock: any two differ by 5 % at most.
func (w *world) rate() float64 {
	return []float64{1 / 1.0246, 1, 1.0246, 1/1.0246 + 0.048*w.random.Float64()}[w.random.IntN(4)]
}

// storeNow is the clock of the store.
func (w *world) storeNow() time.Duration {
	return time.Duration(float64(w.now) * w.storeRate)
}

// expire ends leases as the store's clock passes.
func (w *world) expire() {
	if !w.storeDown {
		before := w.store.Revision()
		w.store.Expire(w.storeNow())
		if w.store.Revision() != before {
			w.notify()
		}
	}
	w.after(w.between(50*time.Millisecond, 500*time.Millisecond), w.expire) // etcd looks twice a second
}

// serve carries out one request at the store, and returns the input that answers it.
func (w *world) serve(m *machine, e protocol.Effect) protocol.Input {
	in := protocol.Input{Request: e.Request}
	switch e.Kind {
	case protocol.EffectGrant:
		in.Kind, in.Lease = protocol.InputGranted, w.store.Grant(w.storeNow(), e.TTL)
	case protocol.EffectRenew:
		in.Kind = protocol.InputRenewed
		if !w.store.Renew(w.storeNow(), e.Lease) {
			in.Kind = protocol.InputLeaseGone
		}
	case protocol.EffectRead:
		in.Kind, in.Snapshot = protocol.InputRead, w.store.Read("")
	case protocol.EffectCommit:
		txn := e.Txn
		if w.broken.noFormerCheck {
			txn.If = nil
			for _, c := range e.Txn.If {
				if c.Exists || c.Revision != 0 || !strings.HasPrefix(c.Key, "nodes/") {
					txn.If = append(txn.If, c)
				}
			}
		}
		result, err := w.store.Commit(txn)
		in.Kind, in.Result = protocol.InputCommitted, result
		if err != nil {
			in.Kind = protocol.InputLeaseGone
		} else if result.OK {
			w.committed(m, txn)
			w.notify()
		}
	default:
		panic(fmt.Sprint("not a request: ", e.Kind))
	}
	return in
}

// committed checks that the epochs of each place only grow.
func (w *world) committed(m *machine, txn store.Txn) {
	for _, change := range txn.Then {
		name, ok := strings.CutPrefix(change.Key, "place/")
		if !ok {
			continue
		}
		place := decodePlace(change.Value)
		w.log("store: %s of %s by %s", name, place, m.config.Node.ID)
		if place.Epoch < w.stored[name] || place.Epoch == w.stored[name] && !place.Released {
			w.fail("the store has epoch %d of %s after %d", place.Epoch, name, w.stored[name])
		}
		w.stored[name] = place.Epoch
	}
}

// notify lets each watch send what it has not sent yet.
func (w *world) notify() {
	for _, m := range w.machines {
		if m.process != nil {
			m.process.pushEvents()
		}
	}
}

// The checker.

func (w *world) serverStarted(p *process, name string, epoch uint64, exclusive bool) {
	w.count.starts++
	w.log("%s: %s starts as epoch %d", p, name, epoch)
	if exclusive {
		for _, other := range w.alive[name] {
			w.fail("two lives of %s: epoch %d starts on %s while epoch %d lives on %s", name, epoch, p, other.servers[name].epoch, other)
		}
		w.alive[name] = append(w.alive[name], p)
	}
	if epoch <= w.started[name] {
		w.fail("epoch %d of %s starts after epoch %d", epoch, name, w.started[name])
	}
	w.started[name] = epoch
}

func (w *world) serverEnded(p *process, name string) {
	w.log("%s: %s has ended", p, name)
	kept := w.alive[name][:0]
	for _, other := range w.alive[name] {
		if other != p {
			kept = append(kept, other)
		}
	}
	w.alive[name] = kept
}

// checkPlaced checks that every name runs where the store says, and on one node only, and that all
// servers know.
func (w *world) checkPlaced() {
	for _, m := range w.machines {
		if m.process != nil {
			m.process.checkTold()
		}
	}
	for name := range w.specs {
		var on []string
		for _, m := range w.machines {
			if m.process != nil && m.process.servers[name] != nil && !m.process.servers[name].ended {
				on = append(on, m.process.String())
			}
		}
		snapshot := w.store.Read(records.PlaceKey(name))
		switch {
		case len(on) != 1:
			w.fail("after the faults, %s runs on %v", name, on)
		case len(snapshot.Pairs) == 0:
			w.fail("%s has no place", name)
		case !strings.HasPrefix(on[0], decodePlace(snapshot.Pairs[0].Value).Node+" "):
			w.fail("%s runs on %s, and its place is %s", name, on[0], decodePlace(snapshot.Pairs[0].Value))
		}
	}
}

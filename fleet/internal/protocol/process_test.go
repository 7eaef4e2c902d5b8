package protocol_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// machine has a clock, a link to the store, and at most one process of the node.
type machine struct {
	world   *world
	config  protocol.Config
	rate    float64       // of its clock
	offset  time.Duration // of its clock
	process *process      // nil: none runs

	// The link: what is lost, and how long the rest takes at most. cutTo and cutFrom: nothing
	// passes to the store, or from it.
	loss           float64
	delay          time.Duration
	cutTo, cutFrom bool
}

func (m *machine) clock() time.Duration {
	return m.offset + time.Duration(float64(m.world.now)*m.rate)
}

// trueTime is when the clock of the machine will show a time.
func (m *machine) trueTime(local time.Duration) time.Duration {
	return time.Duration(float64(local-m.offset)/m.rate) + 1
}

// process is a node process with its guard and its servers.
type process struct {
	*machine
	node    *protocol.Node
	stopped bool // by SIGSTOP
	dead    bool // killed: its guard cleans up
	leaving bool // it was told to leave
	queue   []protocol.Input

	open     map[uint64]bool // requests that are not answered
	lease    store.Lease
	deadline time.Duration // that the guard knows; 0: the life is over
	servers  map[string]*serverProcess
	told     map[string]protocol.Effect // the last of each kind and name
	noGuard  bool                       // its guard has died and is not replaced yet
	tick     time.Duration              // when the next tick is planned, by the machine's clock

	// The watch: what was sent, and when the last of it arrives.
	watch    uint64
	sent     int64
	arrives  time.Duration
	watching bool
	breaks   int // of the connection: what was sent before one does not arrive after it
}

type serverProcess struct {
	epoch     uint64
	exclusive bool
	ended     bool
	endsAt    time.Duration // 0: it does not end
}

func (p *process) String() string {
	return fmt.Sprintf("%s (life %s)", p.config.Node.ID, p.node.Life())
}

func (m *machine) boot() {
	if m.process != nil {
		return
	}
	p := &process{machine: m, node: protocol.New(m.config), open: map[uint64]bool{}, servers: map[string]*serverProcess{}, told: map[string]protocol.Effect{}}
	m.process = p
	m.world.count.restarts++
	m.world.log("%s: a process begins", m.config.Node.ID)
	p.input(protocol.Input{})
	p.progress()
}

// leave tells the node to hand over its servers and end.
func (m *machine) leave() {
	if p := m.process; p != nil {
		p.world.log("%s: leaves", p)
		p.leaving = true
		p.input(protocol.Input{Kind: protocol.InputLeave})
	}
}

// input gives the node an input, or keeps it until the node runs again.
func (p *process) input(in protocol.Input) {
	if p.dead {
		return
	}
	if p.stopped {
		p.queue = append(p.queue, in)
		return
	}
	before := p.node.State()
	effects := p.node.Step(p.clock(), in)
	if state := p.node.State(); state != before {
		p.world.log("%s: state %d, was %d, deadline in %v", p, state, before, p.node.Deadline()-p.clock())
		if state == protocol.StateFencing || before != protocol.StateFencing && state == protocol.StateApart {
			p.world.count.fences++
		}
	}
	for _, e := range effects {
		p.carryOut(e)
	}
	if due := p.node.Due(); p.tick == 0 || due < p.tick || p.tick <= p.clock() {
		p.tick = due
		p.world.at(p.trueTime(due), func() {
			if p.tick == due {
				p.tick = 0
				p.input(protocol.Input{})
			}
		})
	}
}

// pause and resume are SIGSTOP and SIGCONT.
func (p *process) pause() { p.stopped = true; p.world.log("%s: STOP", p) }
func (p *process) resume() {
	p.world.log("%s: CONT", p)
	p.stopped = false
	queue := p.queue
	p.queue = nil
	for _, in := range append(queue, protocol.Input{}) {
		p.input(in)
	}
}

func (p *process) carryOut(e protocol.Effect) {
	switch e.Kind {
	case protocol.EffectGrant, protocol.EffectRenew, protocol.EffectRead, protocol.EffectCommit:
		p.request(e)
	case protocol.EffectRevoke:
		p.revoke(e.Lease)
	case protocol.EffectWatch:
		p.broken()
		p.watch, p.sent = e.Watch, e.After
		p.toStore(func() { p.beginWatch(e) })
	case protocol.EffectDeadline:
		p.setDeadline(e.At)
	case protocol.EffectStart:
		p.start(e)
	case protocol.EffectAdopt:
		p.servers[e.Name].epoch = e.Epoch
		p.world.started[e.Name] = max(p.world.started[e.Name], e.Epoch)
	case protocol.EffectEnd:
		p.end(e.Name, e.Now)
	case protocol.EffectGateway: // no gateway runs here
	case protocol.EffectSpec:
		p.told["spec "+e.Name] = e
	case protocol.EffectPlace:
		p.told["place "+e.Name] = e
	case protocol.EffectDrained:
		p.world.log("%s: drained", p)
	case protocol.EffectLeft:
		p.world.log("%s: left", p)
		p.dead, p.machine.process = true, nil
		p.world.after(p.world.between(0, 8*time.Second), p.boot)
	}
}

// The network.

// toStore carries something to the store: a packet is lost, or arrives later than others.
func (p *process) toStore(arrive func()) { p.pass(&p.cutTo, arrive) }

func (p *process) toNode(arrive func()) { p.pass(&p.cutFrom, arrive) }

func (p *process) pass(cut *bool, arrive func()) {
	w := p.world
	if w.chance(p.loss) {
		return
	}
	delay := w.between(100*time.Microsecond, p.delay)
	if w.now < faultsFor && w.chance(0.05) {
		delay += w.between(0, 3*time.Second)
	}
	held := *cut
	if held && w.chance(0.5) {
		return
	}
	w.after(delay, func() {
		if *cut && held { // TCP still holds it
			delay = w.between(time.Second, 15*time.Second)
			w.after(delay, func() {
				if !*cut {
					arrive()
				}
			})
			return
		}
		if !*cut {
			arrive()
		}
	})
}

// request sends a request; it is answered once, by the store or by its timeout.
func (p *process) request(e protocol.Effect) {
	w := p.world
	w.count.requests++
	p.open[e.Request] = true
	answer := func(in protocol.Input) {
		if p.open[e.Request] {
			delete(p.open, e.Request)
			p.input(in)
		}
	}
	p.toStore(func() {
		if w.storeDown {
			return
		}
		in := w.serve(p.machine, e)
		p.lease = max(p.lease, in.Lease) // the guard knows it
		p.toNode(func() { answer(in) })
	})
	w.at(p.trueTime(p.clock()+w.between(time.Second, 3*time.Second)), func() {
		answer(protocol.Input{Kind: protocol.InputFailed, Request: e.Request})
	})
}

func (p *process) revoke(lease store.Lease) {
	p.toStore(func() {
		if !p.world.storeDown {
			p.world.log("store: lease %x is given back by %s", int64(lease), p.config.Node.ID)
			p.world.store.Revoke(lease)
			p.world.notify()
		}
	})
}

// The watch.

func (p *process) beginWatch(e protocol.Effect) {
	if p.watch != e.Watch {
		return
	}
	if _, err := p.world.store.Since("", e.After); err != nil {
		p.toNode(func() {
			p.input(protocol.Input{Kind: protocol.InputWatchEnded, Watch: e.Watch, Compacted: true})
		})
		return
	}
	p.breaks++
	p.watching = true
	p.pushEvents()
}

// pushEvents sends what has happened since the last time. A connection delivers in order; one that
// loses something delivers nothing more, which the node sees at once or after a long silence.
func (p *process) pushEvents() {
	w := p.world
	if !p.watching || p.dead || w.storeDown {
		return
	}
	batch, err := w.store.Since("", p.sent)
	if err != nil {
		return
	}
	watch := p.watch
	p.sent = batch.Revision
	if p.cutFrom || w.chance(p.loss/4) {
		p.broken()
		if w.chance(0.5) {
			w.after(w.between(0, 4*time.Second), func() {
				p.input(protocol.Input{Kind: protocol.InputWatchEnded, Watch: watch})
			})
		}
		return
	}
	p.arrives = max(p.arrives, w.now+w.between(100*time.Microsecond, p.delay))
	breaks := p.breaks
	w.at(p.arrives, func() {
		switch {
		case p.breaks != breaks:
		case p.cutFrom:
			p.broken()
		default:
			p.input(protocol.Input{Kind: protocol.InputBatch, Watch: watch, Batch: batch})
		}
	})
}

func (p *process) broken() {
	p.watching = false
	p.breaks++
}

// progress is what the store sends although nothing happens.
func (p *process) progress() {
	if !p.dead {
		p.pushEvents()
		p.world.after(2*time.Second, p.progress)
	}
}

// The guard and the servers.

func (p *process) setDeadline(at time.Duration) {
	if p.deadline == 0 {
		p.noGuard = false // each life begins with another
	}
	p.deadline = at
	if at == 0 {
		p.endExclusive()
		return
	}
	p.world.at(p.trueTime(at), func() {
		if p.deadline == at && !p.noGuard {
			p.deadline = 0
			p.endExclusive()
		}
	})
}

// loseGuard ends the guard. Within a second, the node replaces it or fences itself. Then the node
// is neither stopped nor killed; that is outside of what is promised.
func (p *process) loseGuard() {
	w := p.world
	w.log("%s: the guard dies", p)
	p.noGuard = true
	life := p.node.Life()
	replaced := w.chance(0.5)
	w.after(w.between(0, time.Second), func() {
		if p.dead || !p.noGuard || p.node.Life() != life || w.broken.noGuardNoFence {
			return
		}
		if !replaced {
			w.log("%s: there is no other guard", p)
			p.input(protocol.Input{Kind: protocol.InputFence})
			return
		}
		w.log("%s: the guard is replaced", p)
		p.noGuard = false
		if p.deadline <= p.clock() {
			p.deadline = 0
			p.endExclusive()
		}
	})
}

// guarded reports whether something may stop or kill the node.
func (p *process) guarded() bool { return !p.noGuard || p.world.broken.noGuardNoFence }

func (p *process) endExclusive() {
	if p.world.broken.noGuard || p.noGuard {
		return // and the node ends them when it runs
	}
	for _, name := range slices.Sorted(maps.Keys(p.servers)) {
		if p.servers[name].exclusive {
			p.end(name, true)
		}
	}
}

func (p *process) start(e protocol.Effect) {
	s := &serverProcess{epoch: e.Epoch, exclusive: e.Spec.Exclusive}
	if s.exclusive && p.clock() >= p.deadline && !p.world.broken.noGuard {
		p.world.after(time.Millisecond, func() {
			p.input(protocol.Input{Kind: protocol.InputEnded, Name: e.Name, Epoch: e.Epoch})
		})
		return
	}
	p.servers[e.Name] = s
	p.world.serverStarted(p, e.Name, e.Epoch, s.exclusive)
}

// end ends a server: at once within 200 ms, otherwise within a second.
func (p *process) end(name string, now bool) {
	s := p.servers[name]
	if s == nil {
		return
	}
	takes := p.world.between(time.Millisecond, 200*time.Millisecond)
	if !now {
		takes = p.world.between(time.Millisecond, time.Second)
	}
	at := p.world.now + takes
	if s.endsAt != 0 && s.endsAt <= at {
		return
	}
	s.endsAt = at
	p.world.at(at, func() {
		if !s.ended {
			p.ended(name, s)
			p.input(protocol.Input{Kind: protocol.InputEnded, Name: name, Epoch: s.epoch})
		}
	})
}

func (p *process) ended(name string, s *serverProcess) {
	s.ended = true
	delete(p.servers, name)
	p.world.serverEnded(p, name)
	if p.dead && len(p.servers) == 0 && !p.world.broken.earlyRevoke {
		p.giveBack()
	}
}

// kill ends the process as kill -9 does. Its guard ends the servers, waits until they have been
// reaped, and gives the lease back.
func (p *process) kill() {
	p.world.log("%s: KILL", p)
	p.dead, p.machine.process = true, nil
	for _, name := range slices.Sorted(maps.Keys(p.servers)) {
		p.end(name, true)
	}
	if len(p.servers) == 0 || p.world.broken.earlyRevoke {
		p.giveBack()
	}
}

func (p *process) giveBack() {
	for range 3 {
		p.revoke(p.lease)
	}
}

// powerOff ends everything on the machine at once.
func (p *process) powerOff() {
	p.world.log("%s: the machine stops", p)
	p.dead, p.machine.process = true, nil
	for name, s := range p.servers {
		s.ended = true
		p.world.serverEnded(p, name)
	}
	p.servers = map[string]*serverProcess{}
}

// checkTold checks that the servers know what the node knows.
func (p *process) checkTold() {
	for _, name := range p.node.Snapshot().Names {
		place, spec := p.told["place "+name.Name], p.told["spec "+name.Name]
		if place.Place != name.Place || (place.Owner != nil) != name.Alive || (spec.Record != nil) != name.Known || name.Known && !spec.Record.Equal(name.Spec) {
			p.world.fail("the servers of %s were told %+v %+v of %+v", p, place, spec, name)
		}
	}
}

func decodePlace(value []byte) placeRecord {
	var p placeRecord
	if err := json.Unmarshal(value, &p.Place); err != nil {
		panic(err)
	}
	return p
}

type placeRecord struct{ placement.Place }

func (p placeRecord) String() string {
	if p.Released {
		return fmt.Sprintf("epoch %d, released by %s", p.Epoch, p.Node)
	}
	return fmt.Sprintf("epoch %d, %s (life %s)", p.Epoch, p.Node, p.Life)
}

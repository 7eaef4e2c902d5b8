package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A registration that may overlap with the one that it replaces starts beside it, as a candidate that no
// reader sees. When it is ready, it takes the name in one swap, and the other one lets its calls in flight
// end, beside it in turn. If it does not become ready, the other one stays as it is. There are never more
// than two registrations of a name. Their events are published as if one had followed the other.

// find returns the registration of a generation; nil if it has ended.
func (m *manager) find(name string, gen uint64) *registration {
	r := m.state.registrations[name]
	for r != nil && r.gen != gen {
		r = r.beside
	}
	return r
}

// mayOverlap reports whether a server of a spec may start while the one that it replaces serves.
func (m *manager) mayOverlap(r *registration, next *mcpvisor.ServerSpec) bool {
	v := m.view(next.Name)
	return !r.stopping && r.fence == nil && len(r.stopped) == 0 && v.State == supervisor.StateReady && !v.Spec.Exclusive && !next.Exclusive &&
		(next.HTTP != nil || next.Overlap || next.Standby)
}

// addBeside makes a candidate. What the host desires belongs to both.
func (m *manager) addBeside(c actor.Context, msg *messages.Register, r *registration) {
	gen, spec, stats := m.rt.nextGen.Add(1), msg.Spec.WithDefaults(), newRegistrationStats()
	r.beside = &registration{gen: gen, spec: &spec, register: msg.Reply, candidate: true}
	stats.registered = time.Now()
	m.rt.stats.Store(gen, stats)
	m.rt.desired.Store(gen, m.rt.desiredOf(r.gen))
	m.state.tree.add(gen, &spec)
	c.Send(m.servers, &messages.Start{Spec: &spec, Gen: gen, Last: m.view(spec.Name).knownCatalog(), Beside: true})
}

// stopReplacement ends what runs or is to run beside a server that an operator stops.
func (m *manager) stopReplacement(c actor.Context, name string, r *registration, until time.Time) {
	refused := &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.ErrUnavailable, Cause: ErrStopped}
	if r.successor != nil {
		m.reply(r.successor.Reply, refused)
		r.successor = nil
	}
	if b := r.beside; b != nil {
		if b.candidate && b.register != nil {
			m.reply(b.register, refused)
			b.register = nil
		}
		m.stop(c, name, b, until)
	}
}

// promote handles a report of the registration beside main, and reports whether it has taken main's place.
func (m *manager) promote(c actor.Context, msg *report, r, main *registration) bool {
	if r.events = append(r.events, msg.events...); !r.candidate || r.stopping || msg.view.State != supervisor.StateReady {
		for _, reply := range msg.replies {
			m.reply(reply, nil)
		}
		return false
	}
	for _, reply := range main.restart { // this is a fresh start
		m.reply(reply, nil)
	}
	old, until := m.view(msg.name), m.drainUntil(msg.name)
	main.restart, main.beside, main.replaced = nil, nil, true
	r.beside, r.ending, r.candidate = main, old.current, false
	m.state.registrations[msg.name] = r
	m.state.tree.specChanged() // the other one may have come after other servers
	m.stop(c, msg.name, main, until)
	m.state.tree.specChanged()
	gone := mcpvisor.Event{Kind: mcpvisor.EventUnregistered, Time: time.Now(), Server: msg.name, Gen: main.gen, Epoch: old.Epoch,
		Cause: &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "the server was replaced"}}
	msg.events, r.events = append([]mcpvisor.Event{gone}, r.events...), nil
	return true
}

// removeBeside forgets the registration beside main, which has ended, and does what waited for that.
func (m *manager) removeBeside(c actor.Context, name string, main *registration, cause *supervisor.Cause) {
	r, next := main.beside, main.successor
	main.beside, main.ending = nil, nil
	left := m.rt.leftBehind.take(name, r.gen, m.state.closing)
	m.afterPublish(func() { r.answerAll(name, cause, left) })
	m.rt.desired.Delete(r.gen)
	m.rt.releaseStats(r.gen)
	m.state.tree.remove(r.gen)
	switch {
	case main.ended != nil:
		main.ended(c)
	case next != nil && !main.stopping:
		main.successor = nil
		m.replace(c, next, main)
	case main.supervisor != nil: // readers no longer see the other one's calls, and a fence is complete
		c.Send(main.supervisor, &messages.ReconcileRequest{})
	}
}

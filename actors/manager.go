package actors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// manager is the sole writer of the registries. All it does is to change maps
// and to publish what they hold; it waits for nobody.
type manager struct {
	rt      *Runtime
	servers *actor.PID
	entries map[string]*entry
	closing bool
}

// entry is one registration as the manager knows it.
type entry struct {
	gen        uint64
	supervisor *actor.PID
	stopping   bool
	register   chan<- error
	unregister []chan<- error
	restart    []chan<- error
}

// Receive implements actor.Actor.
func (m *manager) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		m.adopt(c)
	case *messages.Register:
		m.register(c, msg)
	case *messages.Unregister:
		m.unregister(c, msg)
	case *messages.Restart:
		m.restart(c, msg)
	case *messages.CloseAll:
		m.closing = true
		for name, e := range m.entries {
			m.stop(c, name, e)
		}
		m.finish()
	case *started:
		if e := m.entries[msg.name]; e != nil && e.gen == msg.gen {
			e.supervisor = msg.pid
			if e.stopping {
				c.Send(e.supervisor, &messages.Stop{})
			}
		}
	case *report:
		m.report(msg)
	case *lost:
		m.lost(msg)
	case *actor.Stopping:
		for _, e := range m.entries {
			e.fail(&messages.Error{Kind: messages.KindClosed, Hint: "try again",
				Cause: errors.New("the manager stopped before it could answer")})
		}
	}
}

// adopt takes over what a predecessor left: the servers live on beside it.
func (m *manager) adopt(c actor.Context) {
	snapshot := m.rt.Snapshot()
	m.closing = snapshot.closed
	for name, v := range snapshot.servers {
		m.entries[name] = &entry{gen: v.Gen}
	}
	c.Send(m.servers, &messages.ReportAgain{})
}

func (m *manager) register(c actor.Context, msg *messages.Register) {
	name := msg.Spec.Name
	if m.closing {
		msg.Reply <- &messages.Error{Server: name, Kind: messages.KindClosed, Cause: errors.New("the client is closed; make a new one")}
		return
	}
	if e := m.entries[name]; e != nil {
		hint := "unregister it first, or choose another name"
		if e.stopping {
			hint = "it is still being unregistered; wait for Unregister to return"
		}
		msg.Reply <- &messages.Error{Server: name, Gen: e.gen, Kind: messages.KindExists, Hint: hint}
		return
	}
	gen := m.rt.nextGen.Add(1)
	m.entries[name] = &entry{gen: gen, register: msg.Reply}
	spec := msg.Spec.WithDefaults()
	view := &View{Name: name, Gen: gen, Spec: &spec, State: supervisor.Connecting, tally: &tally{}}
	m.publish(m.rt.Snapshot().with(name, view))
	if msg.Accepted != nil {
		msg.Accepted <- gen
	}
	c.Send(m.servers, &messages.Start{Spec: spec, Gen: gen})
	if spec.StartSupervised {
		m.entries[name].answer(nil)
	}
}

func (m *manager) unregister(c actor.Context, msg *messages.Unregister) {
	e := m.entries[msg.Name]
	if e == nil || msg.Gen != 0 && msg.Gen != e.gen {
		msg.Reply <- &messages.Error{Server: msg.Name, Kind: messages.KindUnknownServer}
		return
	}
	e.unregister = append(e.unregister, msg.Reply)
	m.stop(c, msg.Name, e)
}

// stop ends a registration. Its tools leave the listing here and now, not
// when the process is gone.
func (m *manager) stop(c actor.Context, name string, e *entry) {
	if e.stopping {
		return
	}
	e.stopping = true
	if v := m.rt.Snapshot().Server(name); v != nil && v.Gen == e.gen && v.Catalog != nil {
		gone := *v
		gone.Catalog, gone.State = nil, supervisor.Stopping
		m.publish(m.rt.Snapshot().with(name, &gone))
	}
	if e.supervisor != nil {
		c.Send(e.supervisor, &messages.Stop{})
	}
}

func (m *manager) restart(c actor.Context, msg *messages.Restart) {
	e := m.entries[msg.Name]
	switch {
	case e == nil:
		msg.Reply <- &messages.Error{Server: msg.Name, Kind: messages.KindUnknownServer}
	case e.stopping:
		msg.Reply <- &messages.Error{Server: msg.Name, Gen: e.gen, Kind: messages.KindClosed, Cause: errors.New("the server is being unregistered")}
	case e.supervisor == nil:
		msg.Reply <- nil // its first start is only beginning
	default:
		e.restart = append(e.restart, msg.Reply)
		c.Send(e.supervisor, &messages.Revive{})
	}
}

// report publishes how a server stands, in one swap, and answers whoever
// waited for that.
func (m *manager) report(r *report) {
	e := m.entries[r.name]
	if e == nil || e.gen != r.gen {
		m.rt.stale.Add(1)
		return
	}
	if r.view.State == supervisor.Stopped {
		delete(m.entries, r.name)
		m.publish(m.rt.Snapshot().with(r.name, nil))
		m.rt.hub.emit(r.events...)
		e.gone(r.name, r.view.Cause)
		m.finish()
		return
	}
	if e.stopping && r.view.Catalog != nil {
		hidden := *r.view
		hidden.Catalog, hidden.State = nil, supervisor.Stopping
		r.view = &hidden
	}
	m.publish(m.rt.Snapshot().with(r.name, r.view))
	m.rt.hub.emit(r.events...)
	if r.view.State == supervisor.Ready {
		e.answer(nil)
	}
	if r.revived && len(e.restart) > 0 {
		e.restart[0] <- nil
		e.restart = e.restart[1:]
	}
}

// lost handles a supervising actor that ended without a last report: it
// panicked.
func (m *manager) lost(l *lost) {
	e := m.entries[l.name]
	if e == nil || e.gen != l.gen {
		return
	}
	delete(m.entries, l.name)
	m.publish(m.rt.Snapshot().with(l.name, nil))
	e.gone(l.name, &supervisor.Cause{Kind: supervisor.CausePanic, Message: "internal error in the supervision of this server; see the log"})
	m.finish()
}

func (m *manager) publish(s *Snapshot) {
	s.closed = m.closing
	old := m.rt.snapshot.Swap(s)
	close(old.next)
}

// finish announces the end once the last server is gone after CloseAll.
func (m *manager) finish() {
	if !m.closing || len(m.entries) > 0 {
		return
	}
	if !m.rt.Snapshot().closed {
		m.publish(newSnapshot(nil, true))
	}
	m.rt.drainedOnce.Do(func() { close(m.rt.drained) })
}

// answer settles a Register that still waits.
func (e *entry) answer(err error) {
	if e.register != nil {
		e.register <- err
		e.register = nil
	}
}

// gone settles everybody when the registration has ended.
func (e *entry) gone(name string, cause *supervisor.Cause) {
	if e.register != nil {
		err := &messages.Error{Server: name, Gen: e.gen, Kind: messages.KindStart}
		if e.stopping {
			err.Kind, cause = messages.KindClosed, nil
			err.Cause = errors.New("the server was unregistered before it was ready")
		}
		if cause != nil {
			err.Cause, err.Stderr = cause, cause.Stderr
			if cause.Kind == supervisor.CauseAuth {
				err.Kind = messages.KindAuthRequired
			}
		}
		e.answer(err)
	}
	for _, reply := range e.unregister {
		reply <- nil
	}
	for _, reply := range e.restart {
		reply <- &messages.Error{Server: name, Gen: e.gen, Kind: messages.KindClosed, Cause: errors.New("the server is gone")}
	}
	e.unregister, e.restart = nil, nil
}

func (e *entry) fail(err error) {
	e.answer(err)
	for _, reply := range slices.Concat(e.unregister, e.restart) {
		reply <- err
	}
	e.unregister, e.restart = nil, nil
}

// actorName is a name that no other incarnation of anything ever has.
func actorName(role, server string, gen uint64) string {
	return fmt.Sprintf("%s-%s.%d", role, server, gen)
}

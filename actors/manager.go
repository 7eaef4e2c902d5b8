package actors

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// manager is the sole writer of the registries. All it does is to change maps
// and to publish what they hold; it waits for nobody. When one crashes, the
// next one finds everything but the letter that did it on the [desk].
type manager struct {
	rt      *Runtime
	servers *actor.PID
	*inbox
	current any // the letter in hand
}

// registration is one registration as the manager knows it.
type registration struct {
	gen        uint64
	supervisor *actor.PID
	stopping   bool
	crashed    bool // and therefore stopping; nobody asked
	register   chan<- error
	unregister []chan<- error
	// successor is the registration that replaces this one, which was evicted and
	// is stopping. Usually it is nil.
	successor *messages.Register
	restart   []chan<- error
}

// Receive implements actor.Actor.
func (m *manager) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		if m.rt.managers.Add(1) > 1 {
			m.recoverState(c)
		}
		m.drainInbox(c)
	case *wake:
		m.drainInbox(c)
	case *actor.Stopping:
		m.answerAbandoned()
	}
}

func (m *manager) drainInbox(c actor.Context) {
	for m.current = m.pop(); m.current != nil; m.current = m.pop() {
		m.handle(c, m.current)
	}
}

func (m *manager) handle(c actor.Context, letter any) {
	switch msg := letter.(type) {
	case *messages.Register:
		m.register(c, msg)
	case *messages.Unregister:
		m.unregister(c, msg)
	case *messages.Restart:
		m.restart(c, msg)
	case *messages.CloseAll:
		m.closing = true
		m.stopAll(c)
	case *supervisorStarted:
		if e := m.registrations[msg.name]; e != nil && e.gen == msg.gen {
			e.supervisor = msg.pid
			if e.stopping {
				c.Send(e.supervisor, &messages.Stop{})
			}
		}
	case *report:
		m.report(c, msg)
	case *supervisorEnded:
		m.supervisorEnded(c, msg)
	case *reconcileReply:
		for name, e := range m.registrations {
			if e.gen <= msg.upTo && !msg.present[e.gen] {
				m.supervisorEnded(c, &supervisorEnded{name: name, gen: e.gen, released: true})
			}
		}
	}
}

// recoverState mends what a predecessor may have left half done: the servers live on
// beside it. They report anew, and what none of them answers for is gone.
func (m *manager) recoverState(c actor.Context) {
	for name, v := range m.rt.Snapshot().servers {
		if e := m.registrations[name]; e == nil || e.gen != v.Gen {
			m.registrations[name] = &registration{gen: v.Gen}
		}
	}
	for _, e := range m.registrations {
		if e.stopping && e.supervisor != nil {
			c.Send(e.supervisor, &messages.Stop{})
		}
	}
	c.Send(m.servers, &reconcileRequest{upTo: m.rt.nextGen.Load()})
	if m.closing {
		m.stopAll(c)
	}
}

// answerAbandoned answers those whom no successor will: the sender of the letter in
// hand, and those who wait for a letter that may have been just that one.
func (m *manager) answerAbandoned() {
	err := &mcpvisor.Error{Kind: mcpvisor.KindClosed, Hint: "try again",
		Cause: errors.New("the manager stopped before it could answer")}
	switch msg := m.current.(type) {
	case *messages.Register:
		if e := m.registrations[msg.Spec.Name]; e == nil || e.register != msg.Reply && e.successor != msg {
			answer(msg.Reply, err)
		}
	case *messages.Unregister:
		if e := m.registrations[msg.Name]; e == nil || !slices.Contains(e.unregister, msg.Reply) {
			answer(msg.Reply, err)
		}
	case *messages.Restart:
		answer(msg.Reply, err)
	case *report:
		if msg != nil {
			for _, reply := range msg.replies {
				answer(reply, err)
			}
		}
	}
	for _, e := range m.registrations {
		for _, reply := range e.restart {
			answer(reply, err)
		}
		e.restart = nil
	}
}

// answer never waits, whoever has left meanwhile.
func answer(reply chan<- error, err error) {
	select {
	case reply <- err:
	default:
	}
}

func (m *manager) register(c actor.Context, msg *messages.Register) {
	name := msg.Spec.Name
	if m.closing {
		answer(msg.Reply, ClosedError(name))
		return
	}
	if e := m.registrations[name]; e != nil {
		m.replace(c, msg, e)
		return
	}
	gen := m.rt.nextGen.Add(1)
	m.registrations[name] = &registration{gen: gen, register: msg.Reply}
	spec := msg.Spec.WithDefaults()
	view := &View{Name: name, Gen: gen, Spec: &spec, State: supervisor.StateConnecting, Since: time.Now(), stats: &callStats{}}
	m.rt.desired.Store(gen, newDesiredSubscriptions())
	m.publish(m.rt.Snapshot().with(name, view))
	if msg.Accepted != nil {
		msg.Accepted <- gen
	}
	c.Send(m.servers, &messages.Start{Spec: spec, Gen: gen})
	if spec.StartSupervised {
		m.registrations[name].answerRegister(nil)
	}
}

// replace registers a name that is taken: after the server of that name, if that
// was evicted, and not at all otherwise.
func (m *manager) replace(c actor.Context, msg *messages.Register, e *registration) {
	name := msg.Spec.Name
	if v := m.rt.Snapshot().Server(name); !e.stopping && v != nil && v.Gen == e.gen && v.State == supervisor.StateEvicted {
		e.successor = msg
		m.stop(c, name, e)
		return
	}
	hint := "unregister it first, or choose another name"
	if e.stopping {
		hint = "it is still being unregistered; wait for Unregister to return"
	}
	if e.successor != nil {
		hint = "another Register of that name is under way"
	}
	answer(msg.Reply, &mcpvisor.Error{Server: name, Gen: e.gen, Kind: mcpvisor.KindExists, Hint: hint})
}

func (m *manager) unregister(c actor.Context, msg *messages.Unregister) {
	e := m.registrations[msg.Name]
	if e == nil || msg.Gen != 0 && msg.Gen != e.gen {
		answer(msg.Reply, &mcpvisor.Error{Server: msg.Name, Kind: mcpvisor.KindUnknownServer})
		return
	}
	e.unregister = append(e.unregister, msg.Reply)
	if msg.Gen == 0 && e.successor != nil {
		answer(e.successor.Reply, unregisteredError(msg.Name, e.gen))
		e.successor = nil
	}
	m.stop(c, msg.Name, e)
}

// unregisteredError is the error of a Register that Unregister has overtaken.
func unregisteredError(name string, gen uint64) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Gen: gen, Kind: mcpvisor.KindClosed,
		Cause: errors.New("the server was unregistered before it was ready")}
}

func (m *manager) stopAll(c actor.Context) {
	for name, e := range m.registrations {
		m.stop(c, name, e)
	}
	m.finish()
}

// stop ends a registration. Its tools leave the listing here and now, not
// when the process is gone.
func (m *manager) stop(c actor.Context, name string, e *registration) {
	if e.stopping {
		return
	}
	e.stopping = true
	m.withdraw(name, e.gen)
	if e.supervisor != nil {
		c.Send(e.supervisor, &messages.Stop{})
	}
}

// withdraw takes what a server offers out of sight, in one swap.
func (m *manager) withdraw(name string, gen uint64) {
	if v := m.rt.Snapshot().Server(name); v != nil && v.Gen == gen && v.Catalog != nil {
		gone := *v
		gone.last, gone.Catalog, gone.State = v.Catalog, nil, supervisor.StateStopping
		m.publish(m.rt.Snapshot().with(name, &gone))
	}
}

func (m *manager) restart(c actor.Context, msg *messages.Restart) {
	e := m.registrations[msg.Name]
	switch {
	case e == nil:
		answer(msg.Reply, &mcpvisor.Error{Server: msg.Name, Kind: mcpvisor.KindUnknownServer})
	case e.stopping:
		answer(msg.Reply, &mcpvisor.Error{Server: msg.Name, Gen: e.gen, Kind: mcpvisor.KindClosed, Cause: errors.New("the server is being unregistered")})
	case e.supervisor == nil:
		answer(msg.Reply, nil) // its first start is only beginning
	default:
		e.restart = append(e.restart, msg.Reply)
		c.Send(e.supervisor, &messages.RestartServer{})
	}
}

// report publishes how a server stands, in one swap, and answers whoever
// waited for that.
func (m *manager) report(c actor.Context, r *report) {
	e := m.registrations[r.name]
	if e == nil || e.gen != r.gen {
		m.rt.stale.Add(1)
		return
	}
	if e.supervisor == nil { // its first report may overtake the letter started
		e.supervisor = r.from
		if e.stopping && r.from != nil {
			c.Send(r.from, &messages.Stop{})
		}
	}
	if r.view.State == supervisor.StateStopped {
		m.remove(c, r.name, e, r.view.Cause, r.events...)
		return
	}
	if before := m.rt.Snapshot().Server(r.name); before != nil && r.view.Catalog == nil {
		r.view.last = before.knownCatalog()
	}
	if e.stopping && r.view.Catalog != nil {
		hidden := *r.view
		hidden.last, hidden.Catalog, hidden.State = r.view.Catalog, nil, supervisor.StateStopping
		r.view = &hidden
	}
	m.publish(m.rt.Snapshot().with(r.name, r.view))
	m.rt.notifyPorts(r.view)
	m.rt.hub.publish(r.events...)
	if r.view.State == supervisor.StateReady {
		e.answerRegister(nil)
	}
	if r.restarted && len(e.restart) > 0 {
		answer(e.restart[0], nil)
		e.restart = e.restart[1:]
	}
	for _, reply := range r.replies {
		answer(reply, nil)
	}
}

// supervisorEnded handles a supervising actor that ended without a last report: it
// panicked. The name stays taken until its session is released.
func (m *manager) supervisorEnded(c actor.Context, l *supervisorEnded) {
	e := m.registrations[l.name]
	if e == nil || e.gen != l.gen {
		return
	}
	e.crashed, e.stopping = !e.stopping || e.crashed, true
	m.withdraw(l.name, l.gen)
	if !l.released {
		return
	}
	cause := &supervisor.Cause{Kind: supervisor.CausePanic, Message: "internal error in the supervision of this server; see the log"}
	m.remove(c, l.name, e, cause, mcpvisor.Event{Kind: mcpvisor.EventUnregistered, Time: time.Now(), Server: l.name, Gen: l.gen, Cause: cause})
}

// remove ends an entry: out of the registries first, then tell everybody. A
// successor takes its place in the same swap.
func (m *manager) remove(c actor.Context, name string, e *registration, cause *supervisor.Cause, events ...mcpvisor.Event) {
	next := e.successor
	e.successor = nil
	if next != nil && !m.closing {
		delete(m.registrations, name)
		m.register(c, next)
	} else {
		m.publish(m.rt.Snapshot().with(name, nil))
	}
	m.rt.hub.publish(events...)
	e.answerAll(name, cause, m.rt.leftBehind.take(name, e.gen, m.closing))
	if next != nil && m.closing {
		answer(next.Reply, ClosedError(name))
	}
	if m.registrations[name] == e {
		delete(m.registrations, name)
	}
	m.rt.desired.Delete(e.gen)
	m.finish()
}

func (m *manager) publish(s *Snapshot) {
	s.closed = m.closing
	old := m.rt.snapshot.Swap(s)
	close(old.next)
}

// finish announces the end once the last server is gone after CloseAll.
func (m *manager) finish() {
	if !m.closing || len(m.registrations) > 0 {
		return
	}
	if !m.rt.Snapshot().closed {
		m.publish(newSnapshot(nil, true))
	}
	m.rt.drainedOnce.Do(func() { close(m.rt.drained) })
}

// answerRegister settles a Register that still waits.
func (e *registration) answerRegister(err error) {
	if e.register != nil {
		answer(e.register, err)
		e.register = nil
	}
}

// answerAll settles everybody when the registration has ended.
func (e *registration) answerAll(name string, cause *supervisor.Cause, left error) {
	if e.register != nil {
		err := &mcpvisor.Error{Server: name, Gen: e.gen, Kind: mcpvisor.KindStart}
		if e.stopping && !e.crashed {
			err, cause = unregisteredError(name, e.gen), nil
		}
		if cause != nil {
			err.Cause, err.Stderr = cause, cause.Stderr
			if cause.Kind == supervisor.CauseAuth {
				err.Kind = mcpvisor.KindAuthRequired
			}
		}
		if left != nil {
			err.Hint = left.Error()
		}
		e.answerRegister(err)
	}
	for _, reply := range e.unregister {
		answer(reply, left)
	}
	for _, reply := range e.restart {
		answer(reply, &mcpvisor.Error{Server: name, Gen: e.gen, Kind: mcpvisor.KindClosed, Cause: errors.New("the server is gone")})
	}
	e.unregister, e.restart = nil, nil
}

// actorName is a name that no other incarnation of anything ever has.
func actorName(role, server string, gen uint64) string {
	return fmt.Sprintf("%s-%s.%d", role, server, gen)
}

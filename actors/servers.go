package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// supervisorStarted tells the manager which actor supervises a registration.
type supervisorStarted struct {
	messages.Base
	name string
	gen  uint64
	pid  *actor.PID
}

// supervisorEnded tells the manager that a supervising actor has ended, and once more
// when its sessions are released.
type supervisorEnded struct {
	messages.Base
	name     string
	gen      uint64
	released bool
}

// childReleased tells servers that nothing is left of a child.
type childReleased struct {
	messages.Base
	id string
}

// servers is the parent of all supervising actors. It decides nothing. It stands beside
// the manager, so that the sessions outlive a manager that crashes.
//
// All fields are owned by the goroutine of the actor.
type servers struct {
	rt       *Runtime
	children map[string]child // by the id of the actor
}

// child is one supervising actor, from its start until its sessions are released.
type child struct {
	name  string
	gen   uint64
	pid   *actor.PID
	actor *supervisingActor // read only after the actor has ended
}

// Receive implements actor.Actor.
func (s *servers) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Start:
		s.start(c, m)
	case *reconcileRequest:
		s.reconcile(c, m)
	case *actor.Terminated:
		if ch, ok := s.children[m.Who.Id]; ok {
			s.awaitRelease(c.Self(), m.Who.Id, ch)
		}
	case *childReleased:
		delete(s.children, m.id)
	}
}

// reconcile tells a new manager which registrations exist, and asks each for a report.
func (s *servers) reconcile(c actor.Context, m *reconcileRequest) {
	present := make(map[uint64]bool, len(s.children))
	for _, ch := range s.children {
		present[ch.gen] = true
		s.rt.post(&supervisorStarted{name: ch.name, gen: ch.gen, pid: ch.pid})
		c.Send(ch.pid, &messages.ReconcileRequest{})
	}
	s.rt.post(&reconcileReply{upTo: m.upTo, present: present})
}

// awaitRelease waits until the sessions of an ended child are released. After an
// orderly end they are already. After a crash no other actor waits for them, and the
// name must not be dialled again before.
func (s *servers) awaitRelease(self *actor.PID, id string, ch child) {
	rt := s.rt
	rt.post(&supervisorEnded{name: ch.name, gen: ch.gen})
	rt.goSafe("servers", func() {
		for _, inc := range ch.actor.incarnations() {
			<-inc.session.Released()
			rt.recordLeft(inc)
		}
		rt.post(&supervisorEnded{name: ch.name, gen: ch.gen, released: true})
		rt.send(self, &childReleased{id: id})
	}, nil)
}

// start spawns the supervising actor of a registration.
func (s *servers) start(c actor.Context, m *messages.Start) {
	spec := m.Spec
	dialer, err := s.newDialer(*spec)
	if err != nil {
		cause := &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err, Message: err.Error()}
		s.rt.post(&report{name: spec.Name, gen: m.Gen,
			view:   &View{Name: spec.Name, Gen: m.Gen, Spec: spec, State: supervisor.StateUnregistered, Cause: cause, stats: s.rt.statsOf(m.Gen)},
			events: []mcpvisor.Event{{Kind: mcpvisor.EventUnregistered, Time: time.Now(), Server: spec.Name, Gen: m.Gen, Cause: cause}}})
		return
	}
	supervising := newSupervisingActor(s.rt, m, dialer)
	pid, err := s.rt.supervisors.spawn(c, supervising, actorName("supervisor", spec.Name, m.Gen))
	if err != nil {
		s.rt.post(&supervisorEnded{name: spec.Name, gen: m.Gen, released: true})
		return
	}
	s.children[pid.Id] = child{spec.Name, m.Gen, pid, supervising}
	s.rt.post(&supervisorStarted{name: spec.Name, gen: m.Gen, pid: pid})
}

// newDialer makes a dialer. One that panics must not end all servers with it.
func (s *servers) newDialer(spec mcpvisor.ServerSpec) (d transport.Dialer, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.rt.reportCrash("servers", "dialer", p)
			err = fmt.Errorf("internal error while preparing the server: %v; see the log", p)
		}
	}()
	return s.rt.opts.NewDialer(spec)
}

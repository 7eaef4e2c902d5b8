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

// supervisorStarted tells the manager who supervises a registration.
type supervisorStarted struct {
	messages.Letter
	name string
	gen  uint64
	pid  *actor.PID
}

// supervisorEnded tells the manager that a supervising actor has ended, and once more
// when the session that it had is released.
type supervisorEnded struct {
	messages.Letter
	name     string
	gen      uint64
	released bool
}

// childReleased tells the parent that nothing is left of a child.
type childReleased struct {
	messages.Letter
	id string
}

// servers is the dumb parent of all supervising actors. It stands beside the
// manager so that sessions outlive it.
type servers struct {
	rt       *Runtime
	children map[string]child // by the id of the actor
}

type child struct {
	name string
	gen  uint64
	pid  *actor.PID
	sup  *supervising // not to be looked into while its actor lives
}

// Receive implements actor.Actor.
func (s *servers) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Start:
		s.start(c, m)
	case *reconcileRequest:
		present := make(map[uint64]bool, len(s.children))
		for _, ch := range s.children {
			present[ch.gen] = true
			s.rt.post(&supervisorStarted{name: ch.name, gen: ch.gen, pid: ch.pid})
			c.Send(ch.pid, &messages.ReconcileRequest{})
		}
		s.rt.post(&reconcileReply{upTo: m.upTo, present: present})
	case *actor.Terminated:
		if ch, ok := s.children[m.Who.Id]; ok {
			s.awaitRelease(c.Self(), m.Who.Id, ch)
		}
	case *childReleased:
		delete(s.children, m.id)
	}
}

// awaitRelease waits until the sessions of a child are released. After an orderly
// end it is already; after a panic nobody else waits for it, and the name must
// not be dialled anew before.
func (s *servers) awaitRelease(self *actor.PID, id string, ch child) {
	l := supervisorEnded{name: ch.name, gen: ch.gen}
	s.rt.post(&l)
	s.rt.goSafe("servers", func() {
		for _, inc := range ch.sup.incarnations() {
			<-inc.session.Released()
			s.rt.recordLeft(inc)
		}
		released := l
		released.released = true
		s.rt.post(&released)
		s.rt.system.Root.Send(self, &childReleased{id: id})
	}, nil)
}

func (s *servers) start(c actor.Context, m *messages.Start) {
	spec := m.Spec
	dialer, err := s.dialer(spec)
	if err != nil {
		cause := &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err, Message: err.Error()}
		s.rt.post(&report{name: spec.Name, gen: m.Gen,
			view:   &View{Name: spec.Name, Gen: m.Gen, Spec: &spec, State: supervisor.StateStopped, Cause: cause, stats: &callStats{}},
			events: []mcpvisor.Event{{Kind: mcpvisor.EventUnregistered, Time: time.Now(), Server: spec.Name, Gen: m.Gen, Cause: cause}}})
		return
	}
	sup := &supervising{rt: s.rt, name: spec.Name, gen: m.Gen, spec: &spec, dialer: dialer, stats: &callStats{},
		lc: supervisor.NewLifecycle(spec.Policy, spec.StartSupervised, s.rt.opts.Random)}
	pid, err := c.SpawnNamed(s.rt.props("supervisor", func() actor.Actor { return sup }), actorName("supervisor", spec.Name, m.Gen))
	if err != nil {
		s.rt.post(&supervisorEnded{name: spec.Name, gen: m.Gen, released: true})
		return
	}
	s.children[pid.Id] = child{spec.Name, m.Gen, pid, sup}
	s.rt.post(&supervisorStarted{name: spec.Name, gen: m.Gen, pid: pid})
}

// dialer makes a dialer; one that panics must not take all servers with it.
func (s *servers) dialer(spec mcpvisor.ServerSpec) (d transport.Dialer, err error) {
	defer func() {
		if p := recover(); p != nil {
			reportCrash(s.rt.opts.Logger, "servers", "dialer", p)
			err = fmt.Errorf("internal error while preparing the server: %v; see the log", p)
		}
	}()
	return s.rt.opts.NewDialer(spec)
}

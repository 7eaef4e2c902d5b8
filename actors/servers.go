package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// started tells the manager who supervises a registration.
type started struct {
	messages.Letter
	name string
	gen  uint64
	pid  *actor.PID
}

// lost tells the manager that a supervising actor has ended.
type lost struct {
	messages.Letter
	name string
	gen  uint64
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
}

// Receive implements actor.Actor.
func (s *servers) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Start:
		s.start(c, m)
	case *messages.ReportAgain:
		for _, ch := range s.children {
			s.rt.tell(&started{name: ch.name, gen: ch.gen, pid: ch.pid})
			c.Send(ch.pid, m)
		}
	case *actor.Terminated:
		if ch, ok := s.children[m.Who.Id]; ok {
			delete(s.children, m.Who.Id)
			s.rt.tell(&lost{name: ch.name, gen: ch.gen})
		}
	}
}

func (s *servers) start(c actor.Context, m *messages.Start) {
	spec := m.Spec
	dialer, err := s.rt.opts.NewDialer(spec)
	if err != nil {
		s.rt.tell(&report{name: spec.Name, gen: m.Gen, view: &View{Name: spec.Name, Gen: m.Gen, Spec: &spec,
			State: supervisor.Stopped, tally: &tally{},
			Cause: &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err, Message: err.Error()}}})
		return
	}
	sup := &supervising{rt: s.rt, name: spec.Name, gen: m.Gen, spec: &spec, dialer: dialer, tally: &tally{},
		lc: supervisor.NewLifecycle(spec.Retry, spec.StartSupervised, s.rt.opts.Random)}
	pid, err := c.SpawnNamed(s.rt.props("supervisor", func() actor.Actor { return sup }), actorName("supervisor", spec.Name, m.Gen))
	if err != nil {
		s.rt.tell(&lost{name: spec.Name, gen: m.Gen})
		return
	}
	s.children[pid.Id] = child{spec.Name, m.Gen, pid}
	s.rt.tell(&started{name: spec.Name, gen: m.Gen, pid: pid})
}

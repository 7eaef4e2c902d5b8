package actors

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// pid is the address of an actor by its name; it may have ended long ago.
func pid(rt *Runtime, id string) *actor.PID { return actor.NewPID(rt.root.Address, id) }

// checkSnapshot checks the registries while every goroutine waits: what is listed can
// be called.
func (p *schedulePlayer) checkSnapshot() {
	s := p.rt.Snapshot()
	listed := map[string]int{}
	last := ""
	for _, t := range s.Tools() {
		if t.Name <= last {
			p.fail("tools are not in order: %s after %s", t.Name, last)
		}
		last = t.Name
		listed[t.Server]++
	}
	for _, name := range s.Names() {
		v := s.Server(name)
		ready := v.State == supervisor.StateReady
		if ready != (v.Catalog != nil) {
			p.fail("%s is %s, and its catalog is there: %v", name, v.State, v.Catalog != nil)
		}
		if ready && v.current.session.Cause() != nil {
			p.fail("%s is listed as ready, and its session is dead", name)
		}
		if !ready && listed[name] > 0 {
			p.fail("%s is %s and has %d tools in the listing", name, v.State, listed[name])
		}
		delete(listed, name)
	}
	for name := range listed {
		p.fail("%s is gone and has tools in the listing", name)
	}
}

// checkLives checks the events of each registration: epochs count up, it is ready before
// it is down, it ends once, and its successor comes later.
func (p *schedulePlayer) checkLives(events []mcpvisor.Event) {
	type life struct {
		gen, epoch       uint64
		highest, standby uint64
		up, over         bool
	}
	lives := map[string]*life{}
	seq := uint64(0)
	for _, e := range events {
		if e.Seq != seq+1 && seq > 0 {
			p.fail("event %d follows event %d", e.Seq, seq)
		}
		seq = e.Seq
		s := lives[e.Server]
		if s == nil || s.gen != e.Gen {
			if s != nil && (!s.over || e.Gen < s.gen) {
				p.fail("%v: generation %d begins before %d is over", e, e.Gen, s.gen)
			}
			s = &life{gen: e.Gen}
			lives[e.Server] = s
		}
		if s.over {
			p.fail("%v: after it was unregistered", e)
		}
		switch e.Kind {
		case mcpvisor.EventConnecting:
			if e.Epoch <= s.highest || s.up {
				p.fail("%v: epoch %d after %d, which is up: %v", e, e.Epoch, s.epoch, s.up)
			}
			s.epoch, s.highest = e.Epoch, e.Epoch
		case mcpvisor.EventStandby:
			if !s.up || e.Epoch <= s.highest {
				p.fail("%v: the standby of %d", e, s.epoch)
			}
			s.standby, s.highest = e.Epoch, e.Epoch
		case mcpvisor.EventStandbyLost:
			if e.Epoch <= s.epoch {
				p.fail("%v: it was in service", e)
			}
			s.standby, s.highest = 0, e.Epoch
		case mcpvisor.EventReady:
			if took := !s.up && e.Epoch != s.epoch && e.Epoch == s.standby; took {
				s.epoch, s.standby = e.Epoch, 0
			}
			if s.up || e.Epoch != s.epoch {
				p.fail("%v: ready twice, or in the wrong epoch", e)
			}
			s.up = true
		case mcpvisor.EventDown:
			if !s.up || e.Epoch != s.epoch {
				p.fail("%v: down without having been up", e)
			}
			s.up = false
		case mcpvisor.EventUnregistered:
			s.over = true
		default:
		}
	}
	for name, s := range lives {
		if !s.over {
			p.fail("%s: generation %d has no end in the events", name, s.gen)
		}
	}
}

// checkCalls compares the errors of the callers with what arrived at the servers.
func (p *schedulePlayer) checkCalls() {
	arrived := map[string]int{}
	for _, name := range serverNames {
		for _, s := range p.sessions(name) {
			s.mu.Lock()
			for id, n := range s.ran {
				arrived[id] += n
			}
			s.mu.Unlock()
			p.mu.Lock()
			p.done.sessions++
			p.mu.Unlock()
		}
	}
	p.mu.Lock()
	ends := p.calls
	p.mu.Unlock()
	for id, err := range ends {
		var e *mcpvisor.Error
		switch n := arrived[id]; {
		case n > 1:
			p.fail("call %s arrived %d times", id, n)
		case err == nil && n == 0:
			p.fail("call %s was answered and never arrived", id)
		case errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent && n > 0:
			p.fail("call %s arrived, and its error says that it was not sent: %v", id, err)
		case errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNone:
			p.fail("call %s does not say whether it was sent: %v", id, err)
		}
	}
	for id := range arrived {
		if _, ok := ends[id]; !ok {
			p.fail("call %s arrived and never returned", id)
		}
	}
}

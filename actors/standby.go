package actors

import (
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// standby is a second incarnation beside the one in service: started,
// negotiated and listed like any other, probed and reaped like any other, but
// no call reaches it before it takes over. It serves one master, once.
type standby struct {
	inc     *incarnation
	port    *actor.PID
	catalog *catalog.Catalog // nil until it is ready
	lost    bool             // it ended; its release is awaited
}

// reserve looks after the standby of one registration. It belongs to the
// supervising actor.
type reserve struct {
	spare    *standby // nil while there is none
	failures int      // in a row; a standby that lived long enough ends the row
	token    uint64   // of the timer that is armed
	timer    *time.Timer
	due      bool // its time has come, but leftovers are in the way

	// leftovers are the incarnations that a standby replaced and that are not
	// released yet, with their ports.
	leftovers map[uint64]standby
}

// standbyDue tells that it is time for a new standby.
type standbyDue struct {
	messages.Letter
	token uint64
}

// isSpare reports whether a letter speaks of the standby.
func (s *supervising) isSpare(epoch uint64) bool {
	return s.spare != nil && s.spare.inc.epoch == epoch
}

// takeOverBy is the epoch of a standby that can take over now; 0: there is none.
func (s *supervising) takeOverBy() uint64 {
	if s.spare == nil || s.spare.lost || s.spare.catalog == nil || s.spare.inc.session.Cause() != nil {
		return 0
	}
	return s.spare.inc.epoch
}

// takeOver puts the standby in charge.
func (s *supervising) takeOver() {
	if s.leftovers == nil {
		s.leftovers = map[uint64]standby{}
	}
	s.leftovers[s.current.epoch] = standby{inc: s.current, port: s.port}
	s.current, s.port, s.catalog = s.spare.inc, s.spare.port, s.spare.catalog
	s.current.isStandby.Store(false)
	s.spare, s.released = nil, false
}

// planSpare arms the timer for the next standby.
func (s *supervising) planSpare(after time.Duration) {
	if !s.spec.Standby || s.spare != nil {
		return
	}
	s.cancelSpare()
	s.token++
	self, token := s.self, s.token
	s.reserve.timer = time.AfterFunc(after, func() { s.rt.system.Root.Send(self, &standbyDue{token: token}) })
}

// startSpare dials a standby, when nothing is left of what an earlier one
// replaced: there are never more than two.
func (s *supervising) startSpare(c actor.Context) {
	if s.spare != nil || s.lc.State() != supervisor.StateReady {
		return
	}
	if s.due = len(s.leftovers) > 0; s.due {
		return
	}
	sp := &standby{}
	sp.inc, sp.port = s.startIncarnation(c, s.lc.NextEpoch(), true)
	s.spare = sp
}

// spareReady: the catalog of the standby is complete.
func (s *supervising) spareReady(c actor.Context, catalog *catalog.Catalog) {
	if s.spare.lost {
		return
	}
	s.spare.catalog = catalog
	c.Send(s.spare.port, &messages.StartProbing{})
	info := s.spare.inc.session.Info()
	s.tellSpare(mcpvisor.Event{Kind: mcpvisor.EventStandby, PID: info.PID, Protocol: info.ProtocolVersion})
}

// spareLost: the standby failed or died before it was needed. The server in
// service is not concerned; another standby is tried as the policy would try a
// server, and given up like one.
func (s *supervising) spareLost(c actor.Context, cause *supervisor.Cause) {
	sp := s.spare
	if sp.lost {
		return
	}
	sp.lost = true
	stable := s.spec.Policy.StableAfter
	if stable <= 0 {
		stable = supervisor.DefaultStableAfter
	}
	if s.failures++; time.Since(sp.inc.started) >= stable {
		s.failures = 1
	}
	if cause != nil && cause.Permanent {
		s.failures = max(s.failures, s.spec.Policy.MaxAttempts+1)
	}
	c.Send(sp.port, &messages.EndSession{Cause: cause})
	s.tellSpare(mcpvisor.Event{Kind: mcpvisor.EventStandbyLost, Cause: cause})
}

// spareReleased: nothing is left of the standby.
func (s *supervising) spareReleased(c actor.Context) {
	c.Stop(s.spare.port)
	s.spare = nil
	if p := s.spec.Policy; p.MaxAttempts == supervisor.Unlimited || s.failures <= p.MaxAttempts {
		s.planSpare(p.Delay(max(s.failures, 1), s.randomFloat()))
	}
}

// dropSpare ends the standby: nobody is there whom it could replace.
func (s *supervising) dropSpare(c actor.Context, cause *supervisor.Cause) {
	s.cancelSpare()
	if s.spare != nil && !s.spare.lost {
		s.spare.lost = true
		c.Send(s.spare.port, &messages.EndSession{Cause: cause})
	}
}

func (s *supervising) cancelSpare() {
	s.token++
	s.due = false
	if s.reserve.timer != nil {
		s.reserve.timer.Stop()
		s.reserve.timer = nil
	}
}

func (s *supervising) tellSpare(e mcpvisor.Event) {
	e = s.stamp(e)
	e.Epoch = s.spare.inc.epoch
	s.report([]mcpvisor.Event{e}, false)
}

func (s *supervising) randomFloat() float64 {
	if s.rt.opts.Random != nil {
		return s.rt.opts.Random()
	}
	return rand.Float64()
}

// ready is the standby that could take over, for those who look.
func (s *supervising) ready() *incarnation {
	if s.takeOverBy() == 0 {
		return nil
	}
	return s.spare.inc
}

// incarnations are all incarnations that may hold something.
func (s *supervising) incarnations() []*incarnation {
	var all []*incarnation
	if s.current != nil {
		all = append(all, s.current)
	}
	if s.spare != nil {
		all = append(all, s.spare.inc)
	}
	for _, l := range s.leftovers {
		all = append(all, l.inc)
	}
	return all
}

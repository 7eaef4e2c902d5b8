package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// report is what a supervising actor sends the manager: the current state of its
// server, and the events that led to it. The manager publishes the view first, then the events.
type report struct {
	messages.Base
	name   string
	gen    uint64
	from   *actor.PID // nil if no actor was started
	view   *View
	events []mcpvisor.Event
	// restarted: an order to restart or start has been carried out, and the view shows it.
	restarted bool
	refused   error  // why it was not
	stops     uint64 // orders to stop of which nothing is left to end, since the actor began
	// fenced: the server was fenced, and nothing of it is left.
	fenced bool
	// replies are answered when the view is published.
	replies []chan<- error
}

// report sends a report.
func (s *supervisingActor) report(events []mcpvisor.Event) { s.rt.post(s.newReport(events)) }

// answerOrder answers the oldest caller of Restart or Start.
func (s *supervisingActor) answerOrder(refused error) {
	r := s.newReport(nil)
	r.restarted, r.refused = true, refused
	s.rt.post(r)
}

// reportStandby reports an event of the standby.
func (s *supervisingActor) reportStandby(epoch uint64, e mcpvisor.Event) {
	e.Epoch = epoch
	s.report([]mcpvisor.Event{s.stamp(e)})
}

func (s *supervisingActor) newReport(events []mcpvisor.Event) *report {
	standby, lc := s.standby.ready(), s.lifecycle
	protocol := ""
	if lc.State() == supervisor.StateReady {
		info := s.inc.session.Info()
		protocol, s.bothEras = info.ProtocolVersion, info.BothEras && info.Node == ""
	}
	if s.drain == nil && (s.halting != lc.Epoch() || !isOpen(lc.State()) && lc.State() != supervisor.StateClosing && lc.State() != supervisor.StateStopping) {
		s.stops = s.halts
	}
	r := &report{name: s.name, gen: s.gen, from: s.self, events: events, stops: s.stops, fenced: lc.Fenced() && lc.State() == supervisor.StateEvicted, view: &View{
		Name: s.name, Gen: s.gen, Spec: s.spec, State: lc.State(), Since: lc.Since(), downSince: s.downSince, Epoch: lc.Epoch(),
		Attempt: lc.Attempt(), Restarts: lc.Restarts(), RetryAt: lc.RetryAt(), Cause: lc.Cause(),
		Catalog: s.published, last: s.last, rests: s.rests, EverReady: s.everReady, BothEras: s.bothEras,
		History: append([]mcpvisor.Incarnation(nil), s.history...),
		current: s.inc, standby: standby, protocol: protocol, mayTakeOver: standby != nil && lc.MayTakeOver(time.Now()), stats: s.stats,
		timesReady: s.timesReady, readyFor: s.readyFor, readySince: s.readySince, stale: lc.Stale() + s.standby.machine.Stale(),
	}}
	if s.drain != nil && s.drain.Kind != lifecycle.InputStop { // the manager hides one whose registration ends
		r.view.State, r.view.Catalog, r.view.last, r.view.Cause = supervisor.StateClosing, nil, s.published, s.drain.Cause.Clone()
	}
	return r
}

// stamp fills in what every event of this registration has.
func (s *supervisingActor) stamp(e mcpvisor.Event) mcpvisor.Event {
	e.Time, e.Server, e.Gen = time.Now(), s.name, s.gen
	if e.Epoch == 0 {
		e.Epoch = s.lifecycle.Epoch()
	}
	return e
}

// readyEvent says that the server is ready. change is the difference to what it offered last.
func (s *supervisingActor) readyEvent(change *mcpvisor.Change) mcpvisor.Event {
	info := s.inc.session.Info()
	e := mcpvisor.Event{Kind: mcpvisor.EventReady, PID: info.PID, Protocol: info.ProtocolVersion,
		Tools: len(s.published.Tools), Resources: len(s.published.Resources),
		Templates: len(s.published.Templates), Prompts: len(s.published.Prompts), StartTook: s.inc.startTook}
	if !s.downSince.IsZero() {
		e.Downtime = time.Since(s.downSince)
	}
	if !change.IsZero() {
		e.Change = change
	}
	return e
}

// recordHistory adds the incarnation that has ended. Only the latest are kept.
func (s *supervisingActor) recordHistory(cause *supervisor.Cause, served bool) {
	if len(s.history) >= retention.Incarnations {
		s.history = append([]mcpvisor.Incarnation(nil), s.history[1:]...)
	}
	s.history = append(s.history, mcpvisor.Incarnation{Epoch: s.inc.epoch, PID: s.inc.session.Info().PID,
		Started: s.inc.started, Ended: time.Now(), Served: served, Cause: cause})
}

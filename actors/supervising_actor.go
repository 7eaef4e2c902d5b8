package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// supervisingActor is the actor of one registration. Two state machines of internal/lifecycle
// decide: the lifecycle about the incarnation in service, and the standby
// about the one beside it. The actor feeds them and carries out their effects.
//
// All fields are owned by the goroutine of the actor. The parent, servers, reads them
// only after the actor has ended.
type supervisingActor struct {
	// Set before the actor is spawned, and never changed.
	rt     *Runtime
	name   string
	gen    uint64
	spec   *mcpvisor.ServerSpec
	dialer transport.Dialer
	stats  *registrationStats

	self      *actor.PID
	lifecycle *lifecycle.Lifecycle
	timer     *time.Timer // of the lifecycle: retry, park or stability
	standby   *standbyManager

	// The incarnation in service, or the one that is being started or ended. port is
	// nil once it is released.
	inc        *incarnation
	port       *actor.PID
	released   bool             // nothing is left of it, and the lifecycle does not know yet
	discovered *catalog.Catalog // of an incarnation that is not published yet
	published  *catalog.Catalog // nil unless the server is ready
	last       *catalog.Catalog // what the server offered when it was ready before; the view keeps it, too

	// The place in the groups. link is nil for a server without one.
	link        *group.Link
	place       uint64       // its token
	groupReport group.Report // the last that was sent
	leaving     bool         // the registration ends: the group is told nothing more

	// What is known of the use of the server, for ServerSpec.IdleStop and Start.
	rests     bool // see View
	known     bool // last is what it offered when it last ran
	wanted    bool // it was asked for once, or is not lazy
	idleTimer *time.Timer
	idleSince time.Time
	idleCalls int64 // calls when idleSince was set

	// halts counts the orders to stop, and stops those of which nothing is left to end. halting is the incarnation that
	// the last one ends.
	halts, stops uint64
	halting      uint64

	drain *lifecycle.Input // ends the session when its calls in flight have ended; nil: none waits for that

	everReady bool
	bothEras  bool      // see View
	downSince time.Time // zero while the server is ready, and before its first start
	// How often and how long the server was ready, without the time since readySince, which
	// is zero unless the server is ready.
	timesReady int64
	readyFor   time.Duration
	readySince time.Time
	history    []mcpvisor.Incarnation
	ended      bool // the actor is stopping
}

func newSupervisingActor(rt *Runtime, m *messages.Start, dialer transport.Dialer) *supervisingActor {
	spec := m.Spec
	s := &supervisingActor{rt: rt, name: spec.Name, gen: m.Gen, spec: spec, dialer: dialer, stats: rt.statsOf(m.Gen), last: m.Last,
		lifecycle: lifecycle.NewLifecycle(spec.Policy, spec.StartSupervised && !m.Beside, nil)}
	s.lifecycle.Transient, s.wanted, s.known = spec.Transient, spec.Start != mcpvisor.StartLazy || m.Beside, m.Known
	if m.Held {
		s.lifecycle.Step(time.Now(), lifecycle.Input{Kind: lifecycle.InputHold})
	}
	if m.Halted {
		s.lifecycle.Step(time.Now(), lifecycle.Input{Kind: lifecycle.InputHalt})
	}
	s.standby = &standbyManager{owner: s, enabled: spec.Standby,
		machine: lifecycle.NewStandby(spec.Policy, s.lifecycle.NextEpoch, nil)}
	return s
}

// Receive implements actor.Actor.
func (s *supervisingActor) Receive(c actor.Context) {
	if s.ended {
		return // messages still arrive while the port stops; none may start a dial
	}
	switch m := c.Message().(type) {
	case *actor.Started:
		s.self = c.Self()
		if s.rests = !s.wanted; s.rests && s.known {
			s.lifecycle.Step(time.Now(), lifecycle.Input{Kind: lifecycle.InputUnwanted})
		}
		s.step(c, lifecycle.Input{Kind: lifecycle.InputRegister})
	case *messages.Opened:
		s.route(c, lifecycle.Input{Kind: lifecycle.InputOpened, Epoch: m.Epoch})
	case *messages.Discovered:
		s.onDiscovered(c, m)
	case *messages.Failed:
		s.route(c, lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: m.Epoch, Cause: m.Cause})
	case *messages.Died:
		if s.mayHaveFinished(m) {
			s.afterFunc(time.Millisecond, m)
		} else {
			s.route(c, lifecycle.Input{Kind: lifecycle.InputDied, Epoch: m.Epoch, Cause: m.Cause})
		}
	case *messages.Released:
		if m.Epoch == s.lifecycle.Epoch() && s.lifecycle.State() == supervisor.StateReady { // that wait is over
			s.route(c, lifecycle.Input{Kind: lifecycle.InputDied, Epoch: m.Epoch, Cause: s.inc.session.Cause()})
		}
		s.onReleased(c, m.Epoch)
	case *messages.TimerDue:
		s.step(c, lifecycle.Input{Kind: lifecycle.InputTimer, Token: m.Token})
	case *standbyDue:
		s.standby.step(c, lifecycle.Input{Kind: lifecycle.InputTimer, Token: m.token})
	case *messages.OperateServer:
		s.operate(c, m)
	case *messages.Rest:
		s.rest(c, m.Epoch)
	case *idleDue:
		s.checkIdle(m.epoch)
	case *joinGroup:
		if s.place = m.token; m.fresh || s.link == nil {
			s.link = &group.Link{}
		}
		s.reportGroup(true)
	case *leaveGroup:
		s.link = nil
		s.step(c, lifecycle.Input{Kind: lifecycle.InputClear, Leave: true})
	case *groupOrder:
		if s.link == nil || m.token != s.place {
			s.rt.stale.Add(1)
		} else if in, ok := s.link.Take(s.lifecycle, m.effect); ok {
			s.step(c, in)
		}
	case *messages.FenceServer:
		s.fence(c, m.Cause)
	case *messages.Stop:
		s.leaving = true
		s.idleDialer() // so that the release of the session covers what the dialer keeps
		cause := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "unregistered"}
		switch {
		case m.Closing:
			cause.Message = "the client is closed"
		case m.Replaced:
			cause.Message = "the server was replaced"
		}
		s.end(c, lifecycle.Input{Kind: lifecycle.InputStop, Cause: cause}, m.DrainUntil)
	case *drainEnded:
		if s.drain != nil && m.epoch == s.lifecycle.Epoch() {
			s.endDrained(c, m.late)
		}
	case *catalogRefreshed:
		s.onRefreshed(m)
	case *messages.ReconcileRequest:
		s.report(nil)
	case *actor.Stopping:
		s.abort()
	}
	if s.drain != nil && s.lifecycle.State() != supervisor.StateReady { // the session has ended by itself
		s.endDrained(c, false)
	}
	s.reportGroup(false)
}

// operate carries out an order of the operator, or of something that wants the server.
func (s *supervisingActor) operate(c actor.Context, m *messages.OperateServer) {
	cause := m.Cause.Clone()
	if m.Order != messages.OrderStop {
		s.wanted = true
	}
	switch m.Order {
	case messages.OrderWake:
		s.step(c, lifecycle.Input{Kind: lifecycle.InputWanted})
		return
	case messages.OrderStart:
		if s.isHalting() { // when the calls in flight have ended
			s.drain = &lifecycle.Input{Kind: lifecycle.InputRestart, Cause: s.drain.Cause}
		}
		s.step(c, lifecycle.Input{Kind: lifecycle.InputStart})
		s.answerOrder(nil)
	case messages.OrderStop:
		if cause == nil {
			cause = &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "stopped by an operator"}
		}
		s.halts, s.halting = s.halts+1, s.lifecycle.Epoch()
		s.end(c, lifecycle.Input{Kind: lifecycle.InputHalt, Cause: cause}, m.DrainUntil)
		s.report(nil)
	case messages.OrderRestart:
		if s.lifecycle.Halted() || s.isHalting() {
			s.answerOrder(&mcpvisor.Error{Server: s.name, Gen: s.gen, Kind: mcpvisor.ErrUnavailable, Cause: ErrStopped})
			return
		}
		if cause == nil {
			cause = &supervisor.Cause{Kind: supervisor.CauseRestart, Message: "asked to restart"}
		}
		s.end(c, lifecycle.Input{Kind: lifecycle.InputRestart, Cause: cause}, m.DrainUntil)
		s.answerOrder(nil)
	}
}

// isHalting reports whether the operator has stopped the server, and its calls in flight have not ended.
func (s *supervisingActor) isHalting() bool {
	return s.drain != nil && s.drain.Kind == lifecycle.InputHalt
}

// reportGroup tells the group of the server how it stands, if that has changed. joined answers a joinGroup.
func (s *supervisingActor) reportGroup(joined bool) {
	if s.link == nil || s.leaving {
		return
	}
	r := group.ReportOf(s.lifecycle, s.link)
	if r == s.groupReport && !joined {
		return
	}
	s.groupReport = r
	if groups := s.rt.groups.Load(); groups != nil {
		s.rt.send(groups, &memberReport{name: s.name, gen: s.gen, token: s.place, joined: joined, report: r})
	}
}

// drainEnded: the calls in flight of an incarnation have ended or, if late, their time is over.
type drainEnded struct {
	messages.Base
	epoch uint64
	late  bool
}

// end feeds an input that ends the session: at once or, if the server is ready, when the calls in flight
// have ended, at the latest at that time. Meanwhile the lifecycle stays ready, and the view says otherwise.
func (s *supervisingActor) end(c actor.Context, in lifecycle.Input, until time.Time) {
	s.drain = &in
	if until.IsZero() || s.lifecycle.State() != supervisor.StateReady {
		s.endDrained(c, false)
		return
	}
	inc, self, rt := s.inc, s.self, s.rt
	inc.drain()
	s.standby.step(c, lifecycle.Input{Kind: lifecycle.InputWithdrawn})
	s.report(nil)
	rt.goSafe("supervisor", func() {
		ended := &drainEnded{epoch: inc.epoch}
		select {
		case <-inc.idle:
		case <-inc.session.Dead():
		case <-time.After(time.Until(until)):
			ended.late = true
		}
		rt.send(self, ended)
	}, nil)
}

// endDrained feeds the input that waited for the calls in flight.
func (s *supervisingActor) endDrained(c actor.Context, late bool) {
	in := *s.drain
	s.drain = nil
	if late {
		in.Cause.Message += fmt.Sprintf(", and its calls in flight did not end within Timeouts.Drain (%v)", s.spec.Timeouts.Drain)
	}
	s.step(c, in)
}

// route feeds an input about an incarnation to the machine that the incarnation
// belongs to.
func (s *supervisingActor) route(c actor.Context, in lifecycle.Input) {
	if s.standby.owns(in.Epoch) {
		s.standby.step(c, in)
		return
	}
	if in.Kind == lifecycle.InputDied {
		in.Standby, in.Busy = s.standby.readyEpoch(), s.inc.limiter.lostCalls() > 0
	}
	s.step(c, in)
}

// mayHaveFinished reports whether it depends on the calls in flight if a transient server that has exited with 0 has failed:
// each says at once whether the server may have got it. The wait for that ends with the release of the session.
func (s *supervisingActor) mayHaveFinished(m *messages.Died) bool {
	n := s.inc.limiter.counts.Load()
	return m.Epoch == s.lifecycle.Epoch() && s.lifecycle.State() == supervisor.StateReady && s.spec.Transient && lifecycle.Finished(m.Cause) && n>>32 == 0 && n&(noMoreCalls-1) > 0
}

// step feeds the lifecycle, carries out its effects, and reports the outcome.
func (s *supervisingActor) step(c actor.Context, in lifecycle.Input) {
	before := s.lifecycle.State()
	effects := s.lifecycle.Step(time.Now(), in)
	if len(effects) == 0 && s.lifecycle.State() == before {
		return
	}
	s.noteStep(in, before, effects)
	t := &transition{before: before, input: in}
	if before == lifecycle.StateNew && s.lifecycle.State() != supervisor.StateUnregistered {
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventRegistered})
	}
	s.noteRest(in, before)
	for _, e := range effects {
		s.execute(c, t, e)
	}
	if s.lifecycle.State() != supervisor.StateReady {
		s.standby.step(c, lifecycle.Input{Kind: lifecycle.InputWithdrawn, Cause: s.lifecycle.Cause()})
	}
	s.report(t.events)
	if s.lifecycle.State() == supervisor.StateUnregistered {
		c.Stop(c.Self())
	}
}

// transition is one step of the lifecycle, with the events it leads to.
type transition struct {
	before supervisor.State
	input  lifecycle.Input
	events []mcpvisor.Event
}

func (s *supervisingActor) emit(t *transition, e mcpvisor.Event) {
	t.events = append(t.events, s.stamp(e))
}

func (s *supervisingActor) execute(c actor.Context, t *transition, e lifecycle.Effect) {
	switch e.Kind {
	case lifecycle.EffectDial:
		s.released = false
		s.inc, s.port = s.startIncarnation(c, e.Epoch, false)
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventConnecting})
	case lifecycle.EffectDiscover:
		c.Send(s.port, &messages.Discover{})
	case lifecycle.EffectPublish:
		s.publish(c, t)
	case lifecycle.EffectTakeOver:
		s.released = false
		s.inc, s.port, s.discovered = s.standby.takeOver(c, drainingIncarnation{s.inc, s.port}, s.lifecycle.Attempt())
	case lifecycle.EffectWithdraw:
		s.last, s.published, s.downSince = s.published, nil, time.Now()
		s.readyFor, s.readySince = s.readyFor+s.downSince.Sub(s.readySince), time.Time{}
		if s.rests { // EventAsleep follows
			s.downSince = time.Time{}
			return
		}
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventDown, Epoch: e.Epoch, Cause: e.Cause, FailedCalls: s.inc.limiter.lostCalls()})
	case lifecycle.EffectEndSession:
		s.endSession(c, t, e)
	case lifecycle.EffectArmRetry, lifecycle.EffectArmPark, lifecycle.EffectArmStable:
		s.armTimer(t, e)
	case lifecycle.EffectCancelTimer:
		stopTimer(&s.timer)
	case lifecycle.EffectResetBudget:
		if t.input.Kind == lifecycle.InputTimer {
			s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventStable})
		}
	case lifecycle.EffectAnnounceGone:
		s.idleDialer()
		s.announceGone(t, e)
	default:
	}
}

// publish sets the catalog that the report at the end of this step makes visible, and lets
// the port keep it up to date. A takeover has already fed InputTakenOver to the standby.
func (s *supervisingActor) publish(c actor.Context, t *transition) {
	published, change := *s.discovered, mcpvisor.Change{}
	instructions := listedInstructions(s.discovered, s.inc.session.Info().Instructions)
	if s.last != nil {
		next, differs := s.last.Refreshed(s.discovered, catalog.AllLists)
		published, change = *next, differs
		change.Instructions = s.last.Instructions != instructions
	}
	published.Instructions = instructions
	s.published, s.discovered, s.everReady = &published, nil, true
	s.timesReady, s.readySince = s.timesReady+1, time.Now()
	if keeper, ok := s.dialer.(transport.Keeper); ok && s.spec.Policy.MaxAttempts != 0 {
		keeper.Keep()
	}
	c.Send(s.port, &messages.SessionReady{})
	s.emit(t, s.readyEvent(&change))
	s.last, s.downSince = nil, time.Time{}
	s.watchUse(0)
	if t.input.Kind != lifecycle.InputDied {
		s.standby.step(c, lifecycle.Input{Kind: lifecycle.InputServing})
	}
}

func (s *supervisingActor) endSession(c actor.Context, t *transition, e lifecycle.Effect) {
	served := t.before == supervisor.StateReady
	s.recordHistory(e.Cause, served)
	if t.input.Kind == lifecycle.InputDied && s.lifecycle.Rested() {
		s.stats.incarnations.Planned(t.input.Cause.Kind)
	}
	if !served && (t.input.Kind == lifecycle.InputFailed || t.input.Kind == lifecycle.InputDied) {
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventStartFailed, Cause: e.Cause})
	}
	c.Send(s.port, &messages.EndSession{Cause: e.Cause, Now: t.input.Kind == lifecycle.InputFence})
}

// fence ends every session at once, also those that are being ended with a grace. The report
// says when nothing is left.
func (s *supervisingActor) fence(c actor.Context, cause *supervisor.Cause) {
	s.step(c, lifecycle.Input{Kind: lifecycle.InputFence, Cause: cause})
	for _, port := range append(s.standby.ports(), s.port) {
		if port != nil {
			c.Send(port, &messages.EndSession{Cause: cause, Now: true})
		}
	}
	s.report(nil)
}

func (s *supervisingActor) armTimer(t *transition, e lifecycle.Effect) {
	stopTimer(&s.timer)
	s.timer = s.afterFunc(e.Delay, &messages.TimerDue{Token: e.Token})
	switch at := s.lifecycle.RetryAt(); e.Kind {
	case lifecycle.EffectArmRetry:
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventRetry, Cause: s.lifecycle.Cause(), Attempt: s.lifecycle.Attempt(),
			MaxAttempts: s.spec.Policy.MaxAttempts, Delay: e.Delay, RetryAt: &at})
	case lifecycle.EffectArmPark:
		s.idleDialer()
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventParked, Cause: s.lifecycle.Cause(), Delay: e.Delay, RetryAt: &at})
	default:
	}
}

// stopTimer stops a timer, if there is one, and forgets it.
func stopTimer(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// afterFunc sends a message to the actor after d.
func (s *supervisingActor) afterFunc(d time.Duration, m messages.Message) *time.Timer {
	self := s.self
	return time.AfterFunc(d, func() { s.rt.send(self, m) })
}

func (s *supervisingActor) announceGone(t *transition, e lifecycle.Effect) {
	switch s.lifecycle.State() {
	case supervisor.StateUnauthorized:
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventAuthRequired, Cause: e.Cause})
	case supervisor.StateEvicted:
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventEvicted, Cause: e.Cause, Attempt: s.lifecycle.Attempt(),
			MaxAttempts: s.spec.Policy.MaxAttempts})
	case supervisor.StateAsleep, supervisor.StateResting:
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventAsleep, Cause: e.Cause})
	case supervisor.StateStopped:
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventStopped, Cause: e.Cause})
	case supervisor.StateUnregistered:
		s.emit(t, mcpvisor.Event{Kind: mcpvisor.EventUnregistered, Cause: e.Cause})
	default:
	}
}

// startIncarnation makes an incarnation: a session and a port that owns it. The session
// itself reports its death and its release, whatever becomes of the port.
func (s *supervisingActor) startIncarnation(c actor.Context, epoch uint64, standby bool) (*incarnation, *actor.PID) {
	inc := newIncarnation(s, epoch, standby)
	self, rt := s.self, s.rt
	s.stats.incarnations.Started(epoch, func() mcpvisor.Discarded { return inc.session.Info().Discarded })
	inc.session.OnDead(rt.safeFunc("supervisor", func() {
		inc.stats.incarnations.Ended(inc.session.Cause().Kind)
		rt.send(self, &messages.Died{Epoch: epoch, Cause: inc.session.Cause()})
	}))
	inc.session.OnReleased(rt.safeFunc("supervisor", func() {
		rt.recordLeft(inc)
		inc.stats.incarnations.Released(epoch)
		rt.send(self, &messages.Released{Epoch: epoch})
	}))
	name := fmt.Sprintf("port-%s.%d.%d", s.name, s.gen, epoch)
	pid, err := rt.ports.spawn(c, newPort(rt, inc), name)
	if err != nil {
		inc.session.Abort(&supervisor.Cause{Kind: supervisor.CausePanic, Err: err, Message: "the port of the session could not be spawned: " + err.Error()})
	}
	inc.port = pid
	return inc, pid
}

// onDiscovered keeps the catalog until the machine publishes it. That of a standby goes to
// the standbyManager.
func (s *supervisingActor) onDiscovered(c actor.Context, m *messages.Discovered) {
	if s.standby.owns(m.Epoch) {
		s.standby.onDiscovered(c, m)
		return
	}
	if m.Epoch == s.lifecycle.Epoch() {
		s.discovered, s.inc.startTook = m.Catalog, time.Since(s.inc.started)
	}
	s.step(c, lifecycle.Input{Kind: lifecycle.InputDiscovered, Epoch: m.Epoch})
}

// onReleased handles the release of an incarnation. The lifecycle learns of it when
// nothing is left of any incarnation: also what a standby replaced, and the standby,
// must be gone before the next dial.
func (s *supervisingActor) onReleased(c actor.Context, epoch uint64) {
	switch {
	case s.standby.onReleased(c, epoch):
	case epoch == s.lifecycle.Epoch() && s.port != nil:
		c.Stop(s.port)
		s.port, s.released = nil, true
	default: // stale; the lifecycle counts it
		s.step(c, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: epoch})
		return
	}
	if s.released && s.standby.isReleased() {
		s.released = false
		s.step(c, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: s.lifecycle.Epoch()})
	}
}

// onRefreshed replaces the lists that were read again, in one swap. The callers that
// wait are answered when the new catalog is published.
func (s *supervisingActor) onRefreshed(m *catalogRefreshed) {
	switch {
	case s.standby.owns(m.epoch) && s.standby.catalog != nil:
		s.standby.catalog, _ = s.standby.catalog.Refreshed(m.catalog, m.lists)
	case m.epoch == s.lifecycle.Epoch() && s.lifecycle.State() == supervisor.StateReady && s.published != nil:
		next, change := s.published.Refreshed(m.catalog, m.lists)
		next.Instructions = listedInstructions(next, s.inc.session.Info().Instructions)
		change.Instructions = next.Instructions != s.published.Instructions
		s.published = next
		s.inc.readings.Add(-1)
		var events []mcpvisor.Event
		if !change.IsZero() {
			events = append(events, s.stamp(mcpvisor.Event{Kind: mcpvisor.EventChanged, Change: &change, Tools: len(next.Tools),
				Resources: len(next.Resources), Templates: len(next.Templates), Prompts: len(next.Prompts)}))
		}
		r := s.newReport(events)
		r.replies = m.waiting
		s.rt.post(r)
		return
	}
	for _, reply := range m.waiting {
		answer(reply, nil)
	}
}

// abort ends all sessions at once when the actor stops. After an orderly end there is
// none; after a panic there may be.
func (s *supervisingActor) abort() {
	s.ended = true
	stopTimer(&s.timer)
	stopTimer(&s.standby.timer)
	stopTimer(&s.idleTimer)
	defer s.idleDialer() // no further session can be opened
	for _, inc := range s.incarnations() {
		inc.session.Abort(&supervisor.Cause{Kind: supervisor.CausePanic, Message: "the supervising actor was stopped"})
	}
}

// idleDialer tells the dialer that no session follows soon. What that takes is done in the
// background; Runtime.Close waits for it.
func (s *supervisingActor) idleDialer() {
	keeper, ok := s.dialer.(transport.Keeper)
	if !ok {
		return
	}
	if finish := keeper.Idle(); finish != nil {
		s.rt.finishing.Add(1)
		s.rt.goSafe("supervisor", func() {
			defer s.rt.finishing.Done()
			finish()
		}, nil)
	}
}

// incarnations returns every incarnation that may still hold resources.
func (s *supervisingActor) incarnations() []*incarnation {
	all := s.standby.incarnations()
	if s.inc != nil {
		all = append(all, s.inc)
	}
	return all
}

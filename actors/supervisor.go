package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// report is what a supervising actor tells the manager: how its server stands
// now, and what happened on the way. Its events are published after the view.
type report struct {
	messages.Letter
	name   string
	gen    uint64
	from   *actor.PID // nil if no actor was started
	view   *View
	events []mcpvisor.Event
	// restarted: a Revive has been carried out, and the view shows it.
	restarted bool
	// replies are those who wait until everybody can see it.
	replies []chan<- error
}

// supervising is the actor over one registration. The judgement is
// supervisor.Lifecycle's; this is its hands.
type supervising struct {
	rt     *Runtime
	name   string
	gen    uint64
	spec   *mcpvisor.ServerSpec
	dialer transport.Dialer

	self      *actor.PID
	lc        *supervisor.Lifecycle
	port      *actor.PID
	current   *incarnation
	stats     *callStats
	catalog   *catalog.Catalog // of the epoch being started
	published *catalog.Catalog
	everReady bool
	downSince time.Time
	history   []mcpvisor.Incarnation
	timer     *time.Timer
	ended     bool
	released  bool // nothing is left of the current epoch
	reserve
}

// Receive implements actor.Actor.
func (s *supervising) Receive(c actor.Context) {
	if s.ended {
		return // letters still come while the port stops; none may dial anew
	}
	switch m := c.Message().(type) {
	case *actor.Started:
		s.self = c.Self()
		s.step(c, supervisor.Input{Kind: supervisor.InputRegister})
	case *messages.Opened:
		if s.isSpare(m.Epoch) {
			c.Send(s.spare.port, &messages.Discover{})
			return
		}
		s.step(c, supervisor.Input{Kind: supervisor.InputOpened, Epoch: m.Epoch})
	case *messages.Discovered:
		if s.isSpare(m.Epoch) {
			s.spareReady(c, m.Catalog)
			return
		}
		if m.Epoch == s.lc.Epoch() {
			s.catalog = m.Catalog
		}
		s.step(c, supervisor.Input{Kind: supervisor.InputDiscovered, Epoch: m.Epoch})
	case *messages.Failed:
		if s.isSpare(m.Epoch) {
			s.spareLost(c, m.Cause)
			return
		}
		s.step(c, supervisor.Input{Kind: supervisor.InputFailed, Epoch: m.Epoch, Cause: m.Cause})
	case *messages.Died:
		if s.isSpare(m.Epoch) {
			s.spareLost(c, m.Cause)
			return
		}
		s.step(c, supervisor.Input{Kind: supervisor.InputDied, Epoch: m.Epoch, Cause: m.Cause, Spare: s.takeOverBy()})
	case *messages.Released:
		s.onReleased(c, m.Epoch)
	case *standbyDue:
		if m.token == s.token {
			s.startSpare(c)
		}
	case *messages.TimerDue:
		s.step(c, supervisor.Input{Kind: supervisor.InputTimer, Token: m.Token})
	case *messages.RestartServer:
		s.step(c, supervisor.Input{Kind: supervisor.InputRestart})
		s.report(nil, true)
	case *messages.Stop:
		s.step(c, supervisor.Input{Kind: supervisor.InputStop,
			Cause: &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "unregistered"}})
	case *refreshed:
		s.refreshed(m)
	case *messages.ReconcileRequest:
		s.report(nil, false)
	case *actor.Stopping:
		s.ended = true
		s.stopTimer()
		s.cancelSpare()
		for _, inc := range s.incarnations() {
			inc.session.Abort(&supervisor.Cause{Kind: supervisor.CausePanic, Message: "the supervising actor was stopped"})
		}
	}
}

// step feeds the lifecycle and carries out what it decides.
func (s *supervising) step(c actor.Context, ev supervisor.Input) {
	before := s.lc.State()
	effects := s.lc.Step(time.Now(), ev)
	if len(effects) == 0 && s.lc.State() == before {
		return
	}
	var events []mcpvisor.Event
	note := func(e mcpvisor.Event) { events = append(events, s.stamp(e)) }
	if before == supervisor.StateNew && s.lc.State() == supervisor.StateConnecting {
		note(mcpvisor.Event{Kind: mcpvisor.EventRegistered})
	}
	for _, e := range effects {
		s.execute(c, before, ev, e, note)
	}
	if s.lc.State() != supervisor.StateReady {
		s.dropSpare(c, s.lc.Cause())
	}
	s.report(events, false)
	if s.lc.State() == supervisor.StateStopped {
		c.Stop(c.Self())
	}
}

func (s *supervising) execute(c actor.Context, before supervisor.State, ev supervisor.Input, e supervisor.Effect, note func(mcpvisor.Event)) {
	switch e.Kind {
	case supervisor.EffectDial:
		s.dial(c, e.Epoch)
		note(mcpvisor.Event{Kind: mcpvisor.EventConnecting})
	case supervisor.EffectDiscover:
		c.Send(s.port, &messages.Discover{})
	case supervisor.EffectPublish:
		s.published, s.catalog, s.everReady = s.catalog, nil, true
		c.Send(s.port, &messages.StartProbing{})
		note(s.readyEvent())
		s.downSince = time.Time{}
		// What took over was the standby; the next one waits as a retry would.
		if ev.Kind == supervisor.InputDied {
			s.planSpare(s.spec.Policy.Delay(s.lc.Attempt(), s.randomFloat()))
		} else {
			s.failures = 0
			s.planSpare(0)
		}
	case supervisor.EffectTakeOver:
		s.takeOver()
	case supervisor.EffectWithdraw:
		s.published, s.downSince = nil, time.Now()
		note(mcpvisor.Event{Kind: mcpvisor.EventDown, Epoch: e.Epoch, Cause: e.Cause, FailedCalls: s.current.lostCalls()})
	case supervisor.EffectEndSession:
		s.recordHistory(e.Cause, before == supervisor.StateReady)
		if before != supervisor.StateReady && ev.Kind == supervisor.InputFailed || before != supervisor.StateReady && ev.Kind == supervisor.InputDied {
			note(mcpvisor.Event{Kind: mcpvisor.EventStartFailed, Cause: e.Cause})
		}
		c.Send(s.port, &messages.EndSession{Cause: e.Cause})
	case supervisor.EffectArmRetry, supervisor.EffectArmPark, supervisor.EffectArmStable:
		s.armTimer(e)
		switch at := s.lc.RetryAt(); e.Kind {
		case supervisor.EffectArmRetry:
			note(mcpvisor.Event{Kind: mcpvisor.EventRetry, Cause: s.lc.Cause(), Attempt: s.lc.Attempt(),
				MaxAttempts: s.spec.Policy.MaxAttempts, Delay: e.Delay, RetryAt: &at})
		case supervisor.EffectArmPark:
			note(mcpvisor.Event{Kind: mcpvisor.EventParked, Cause: s.lc.Cause(), Delay: e.Delay, RetryAt: &at})
		}
	case supervisor.EffectCancelTimer:
		s.stopTimer()
	case supervisor.EffectResetBudget:
		if ev.Kind == supervisor.InputTimer {
			note(mcpvisor.Event{Kind: mcpvisor.EventStable})
		}
	case supervisor.EffectAnnounceGone:
		switch s.lc.State() {
		case supervisor.StateUnauthorized:
			note(mcpvisor.Event{Kind: mcpvisor.EventAuthRequired, Cause: e.Cause})
		case supervisor.StateEvicted:
			note(mcpvisor.Event{Kind: mcpvisor.EventEvicted, Cause: e.Cause})
		case supervisor.StateStopped:
			note(mcpvisor.Event{Kind: mcpvisor.EventUnregistered, Cause: e.Cause})
		}
	}
}

// dial starts the next incarnation.
func (s *supervising) dial(c actor.Context, epoch uint64) {
	s.released = false
	s.current, s.port = s.startIncarnation(c, epoch, false)
}

// startIncarnation makes an incarnation: a session, a port to own it, and a watch that
// reports its death and its release, whatever becomes of the port.
func (s *supervising) startIncarnation(c actor.Context, epoch uint64, spare bool) (*incarnation, *actor.PID) {
	inc := newIncarnation(s.name, s.gen, epoch, s.spec, s.stats, s.rt.desiredSubscriptions(s.gen), s.dialer.NewSession())
	inc.isStandby.Store(spare)
	self := s.self
	s.rt.goSafe("supervisor", func() {
		<-inc.session.Dead()
		s.rt.system.Root.Send(self, &messages.Died{Epoch: epoch, Cause: inc.session.Cause()})
		<-inc.session.Released()
		s.rt.recordLeft(inc)
		s.rt.system.Root.Send(self, &messages.Released{Epoch: epoch})
	}, nil)
	name := fmt.Sprintf("port-%s.%d.%d", s.name, s.gen, epoch)
	pid, err := c.SpawnNamed(s.rt.props("port", func() actor.Actor { return newPort(s.rt, inc) }), name)
	if err != nil {
		inc.session.Abort(&supervisor.Cause{Kind: supervisor.CausePanic, Err: err, Message: "transport actor could not be spawned: " + err.Error()})
	}
	inc.port = pid
	return inc, pid
}

// onReleased hears that nothing is left of an incarnation. The lifecycle is told
// when nothing is left of any: what a standby replaced, and the standby itself,
// must be gone before anything is dialled.
func (s *supervising) onReleased(c actor.Context, epoch uint64) {
	switch old, left := s.leftovers[epoch]; {
	case left:
		c.Stop(old.port)
		delete(s.leftovers, epoch)
		if s.due {
			s.startSpare(c)
		}
	case s.isSpare(epoch):
		s.spareReleased(c)
	case epoch == s.lc.Epoch() && s.port != nil:
		c.Stop(s.port)
		s.port, s.released = nil, true
	default:
		s.step(c, supervisor.Input{Kind: supervisor.InputReleased, Epoch: epoch}) // stale, and counted as such
		return
	}
	if s.released && s.spare == nil && len(s.leftovers) == 0 {
		s.released = false
		s.step(c, supervisor.Input{Kind: supervisor.InputReleased, Epoch: s.lc.Epoch()})
	}
}

func (s *supervising) armTimer(e supervisor.Effect) {
	self, token := s.self, e.Token
	s.stopTimer()
	s.timer = time.AfterFunc(e.Delay, func() {
		s.rt.system.Root.Send(self, &messages.TimerDue{Token: token})
	})
}

func (s *supervising) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

func (s *supervising) recordHistory(cause *supervisor.Cause, served bool) {
	if len(s.history) >= mcpvisor.HistoryLimit {
		s.history = append([]mcpvisor.Incarnation(nil), s.history[1:]...)
	}
	s.history = append(s.history, mcpvisor.Incarnation{Epoch: s.current.epoch, PID: s.current.session.Info().PID,
		Started: s.current.started, Ended: time.Now(), Served: served, Cause: cause})
}

func (s *supervising) readyEvent() mcpvisor.Event {
	info := s.current.session.Info()
	e := mcpvisor.Event{Kind: mcpvisor.EventReady, PID: info.PID, Protocol: info.ProtocolVersion,
		Tools: len(s.published.Tools), Resources: len(s.published.Resources),
		Templates: len(s.published.Templates), Prompts: len(s.published.Prompts)}
	if !s.downSince.IsZero() {
		e.Downtime = time.Since(s.downSince)
	}
	return e
}

func (s *supervising) stamp(e mcpvisor.Event) mcpvisor.Event {
	e.Time, e.Server, e.Gen = time.Now(), s.name, s.gen
	if e.Epoch == 0 {
		e.Epoch = s.lc.Epoch()
	}
	return e
}

func (s *supervising) report(events []mcpvisor.Event, revived bool) {
	r := s.newReport(events)
	r.restarted = revived
	s.rt.post(r)
}

func (s *supervising) newReport(events []mcpvisor.Event) *report {
	return &report{name: s.name, gen: s.gen, from: s.self, events: events, view: &View{
		Name: s.name, Gen: s.gen, Spec: s.spec, State: s.lc.State(), Since: s.lc.Since(), Epoch: s.lc.Epoch(),
		Attempt: s.lc.Attempt(), Restarts: s.lc.Restarts(), RetryAt: s.lc.RetryAt(), Cause: s.lc.Cause(),
		Catalog: s.published, EverReady: s.everReady,
		History: append([]mcpvisor.Incarnation(nil), s.history...),
		current: s.current, standby: s.ready(), mayTakeOver: s.takeOverBy() != 0 && s.lc.MayTakeOver(time.Now()), stats: s.stats,
	}}
}

package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// idleDue: it is time to look whether an incarnation is used.
type idleDue struct {
	messages.Base
	epoch uint64
}

// restRequest asks the manager whether a server that nothing uses may sleep. It answers with messages.Rest, if so.
type restRequest struct {
	messages.Base
	name       string
	gen, epoch uint64
}

// idleChecks is how often within ServerSpec.IdleStop the use of a server is looked at.
const idleChecks = 4

// unwantedCheck is the pause after which a lazy server that was started for its lists, and may not sleep yet because
// another one starts after it or a list has changed, asks again.
const unwantedCheck = time.Second

// watchUse looks at the use of the incarnation in service, in time. A lazy server that was started for its lists
// sleeps at once.
func (s *supervisingActor) watchUse(unused time.Duration) {
	stopTimer(&s.idleTimer)
	if s.wanted && s.spec.IdleStop <= 0 {
		return
	}
	if unused == 0 {
		s.idleSince, s.idleCalls = time.Now(), s.stats.calls.total.Load()
	}
	next := unwantedCheck
	if s.wanted {
		next = max(min(s.spec.IdleStop/idleChecks, s.spec.IdleStop-unused), time.Millisecond)
	} else {
		s.rt.post(&restRequest{name: s.name, gen: s.gen, epoch: s.lifecycle.Epoch()})
	}
	s.idleTimer = s.afterFunc(next, &idleDue{epoch: s.lifecycle.Epoch()})
}

// checkIdle lets a server sleep that nothing has used for ServerSpec.IdleStop.
func (s *supervisingActor) checkIdle(epoch uint64) {
	if epoch != s.lifecycle.Epoch() || s.lifecycle.State() != supervisor.StateReady || s.drain != nil {
		return
	}
	unused := time.Since(s.idleSince)
	switch {
	case s.isUsed() || s.stats.calls.total.Load() != s.idleCalls:
		s.wanted, unused = true, 0
	case !s.wanted:
	case s.spec.IdleStop > 0 && unused >= s.spec.IdleStop:
		s.rt.post(&restRequest{name: s.name, gen: s.gen, epoch: epoch})
		unused = s.spec.IdleStop / 2 // if it may not, ask again
		s.idleSince = time.Now().Add(-unused)
	}
	s.watchUse(unused)
}

// isUsed reports whether a call, a task or a subscription uses the server, or a copy of it runs.
func (s *supervisingActor) isUsed() bool {
	_, uris, _ := s.inc.desired.Snapshot()
	return len(uris) > 0 || s.inc.following.Load() > 0 || s.inc.tasks.isAsked() || s.stats.calls.inFlight.Load() > 0 || s.stats.calls.queued.Load() > 0 ||
		s.rt.opts.InUse != nil && s.rt.opts.InUse(s.name)
}

// rest ends an incarnation that nothing uses. A call that begins in this moment is not lost: either it keeps the server
// awake, or it is not sent and wakes it. A server whose lists have changed is listed again before it sleeps.
func (s *supervisingActor) rest(c actor.Context, epoch uint64) {
	if epoch != s.lifecycle.Epoch() || s.lifecycle.State() != supervisor.StateReady || s.drain != nil || s.isUsed() || s.wanted && s.spec.IdleStop <= 0 || !s.inc.isListed() {
		return
	}
	if !s.inc.rest() {
		s.report(nil) // a caller that has seen it rested waits for another view
		return
	}
	cause := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "nothing has used the server for " + s.spec.IdleStop.String() + "; it starts when it is wanted"}
	if !s.wanted {
		cause.Message = "the server is lazy: it starts when it is wanted"
	}
	s.step(c, lifecycle.Input{Kind: lifecycle.InputUnwanted, Cause: cause})
}

// noteRest keeps rests true, as View says. The time at rest, and that of a server that was stopped, is no downtime.
func (s *supervisingActor) noteRest(in lifecycle.Input, before supervisor.State) {
	was := s.rests || before == supervisor.StateStopped && s.lifecycle.State() != before
	switch state := s.lifecycle.State(); {
	case state == supervisor.StateAsleep || state == supervisor.StateResting:
		s.rests = true
	case before == supervisor.StateReady && state == supervisor.StateClosing && (in.Kind == lifecycle.InputUnwanted || in.Kind == lifecycle.InputDied && s.lifecycle.Rested()):
		s.rests = true
	case state == supervisor.StateReady, state == supervisor.StateStopped, state == supervisor.StateEvicted, state == supervisor.StateUnregistered, state == supervisor.StateStopping:
		s.rests = false
	case in.Kind == lifecycle.InputFailed, in.Kind == lifecycle.InputDied, in.Kind == lifecycle.InputHalt, in.Kind == lifecycle.InputFence, in.Kind == lifecycle.InputGiveUp: // a restart only wakes it
		s.rests = false
	}
	if was && !s.rests && s.lifecycle.State() != supervisor.StateReady && s.everReady {
		s.downSince = time.Now()
	}
}

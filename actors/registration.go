package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// registration is what the manager knows about one registration. Owned by the current
// manager, as part of [managerState].
type registration struct {
	gen        uint64
	spec       *mcpvisor.ServerSpec // of a candidate, which has no view; nil otherwise
	supervisor *actor.PID           // nil until the actor has reported itself
	stopping   bool
	stopSent   bool              // the actor was told; it is not while others end before it
	drainUntil time.Time         // while stopping: when its calls in flight must have ended; zero: at once
	fence      *supervisor.Cause // why it was fenced; nil if it was not
	grouped    bool              // it was started for a group, or is in one
	halted     bool              // an operator has stopped it, and not started it since
	crashed    bool              // the supervising actor crashed; stopping is true then, and was not requested

	// The callers that wait.
	register   chan<- error
	unregister []chan<- error
	restart    []chan<- error // of orders to restart or start, oldest first
	stopped    []chan<- error // of orders to stop, oldest first
	stops      uint64         // how many of them were answered
	// orders wait for the actor to report itself.
	orders  []*messages.Operate
	fencing []chan<- error

	// successor is the Register that replaces this registration, which is stopping. Usually
	// it is nil.
	successor *messages.Register

	// beside is another registration of the name, which no reader sees: one that starts in order to replace
	// this one (candidate), or one that this one has replaced, while it ends. Usually it is nil. The name is
	// free when both have ended.
	beside    *registration
	replaced  bool         // has been, by another that was a candidate
	ending    *incarnation // of the one beside, if it was replaced: has its calls in flight
	candidate bool
	events    []mcpvisor.Event    // of a candidate: published when it replaces the other
	ended     func(actor.Context) // ends the registration when beside has ended; nil unless it waits for that
}

// answer sends a reply. It never blocks: the caller may have left.
func answer(reply chan<- error, err error) {
	select {
	case reply <- err:
	default:
	}
}

// answerAll replies to every caller when the registration has ended. left is what its
// sessions could not end; nil if they ended all.
func (r *registration) answerAll(name string, cause *supervisor.Cause, left error) {
	if r.register != nil {
		answer(r.register, r.registerError(name, cause, left))
	}
	for _, reply := range slices.Concat(r.unregister, r.fencing, r.stopped) {
		answer(reply, left)
	}
	for _, o := range r.orders {
		if o.Reply != nil {
			r.restart = append(r.restart, o.Reply)
		}
	}
	for _, reply := range r.restart {
		answer(reply, &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.ErrClosed, Cause: errors.New("the server is gone")})
	}
	r.register, r.unregister, r.restart, r.fencing, r.stopped, r.orders = nil, nil, nil, nil, nil, nil
}

// registerError explains why a registration ended before its server was ready.
func (r *registration) registerError(name string, cause *supervisor.Cause, left error) *mcpvisor.Error {
	e := &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.ErrStart}
	switch {
	case r.stopping && !r.crashed:
		e = unregisteredError(name, r.gen)
	case cause != nil:
		e.Cause, e.Stderr = cause, cause.Stderr
		if cause.Kind == supervisor.CauseAuth {
			e.Kind = mcpvisor.ErrAuthRequired
		}
	}
	if r.candidate && !r.stopping && r.fence == nil {
		e.Hint = "the server that it was to replace continues"
	}
	if left != nil {
		e.Hint = left.Error()
	}
	return e
}

// fencedError is the error of a Restart after Fence.
func fencedError(name string, r *registration) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.ErrEvicted, Cause: r.fence, Hint: fencedHint}
}

// fencedHint says what ends a fence.
const fencedHint = "register it again"

// unregisteredError is the error of a Register that Unregister has overtaken.
func unregisteredError(name string, gen uint64) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Gen: gen, Kind: mcpvisor.ErrClosed,
		Cause: errors.New("the server was unregistered before it was ready")}
}

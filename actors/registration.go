package actors

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// registration is what the manager knows about one registration. Owned by the current
// manager, as part of [managerState].
type registration struct {
	gen        uint64
	supervisor *actor.PID // nil until the actor has reported itself
	stopping   bool
	fence      *supervisor.Cause // why it was fenced; nil if it was not
	crashed    bool              // the supervising actor crashed; stopping is true then, and was not requested

	// The callers that wait.
	register   chan<- error
	unregister []chan<- error
	restart    []chan<- error // oldest first
	fencing    []chan<- error

	// successor is the Register that replaces this registration, which is stopping. Usually
	// it is nil.
	successor *messages.Register
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
	for _, reply := range append(r.unregister, r.fencing...) {
		answer(reply, left)
	}
	for _, reply := range r.restart {
		answer(reply, &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.KindClosed, Cause: errors.New("the server is gone")})
	}
	r.register, r.unregister, r.restart, r.fencing = nil, nil, nil, nil
}

// registerError explains why a registration ended before its server was ready.
func (r *registration) registerError(name string, cause *supervisor.Cause, left error) *mcpvisor.Error {
	e := &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.KindStart}
	switch {
	case r.stopping && !r.crashed:
		e = unregisteredError(name, r.gen)
	case cause != nil:
		e.Cause, e.Stderr = cause, cause.Stderr
		if cause.Kind == supervisor.CauseAuth {
			e.Kind = mcpvisor.KindAuthRequired
		}
	}
	if left != nil {
		e.Hint = left.Error()
	}
	return e
}

// fencedError is the error of a Restart after Fence.
func fencedError(name string, r *registration) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.KindEvicted, Cause: r.fence, Hint: fencedHint}
}

// fencedHint says what ends a fence.
const fencedHint = "register it again"

// unregisteredError is the error of a Register that Unregister has overtaken.
func unregisteredError(name string, gen uint64) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Gen: gen, Kind: mcpvisor.KindClosed,
		Cause: errors.New("the server was unregistered before it was ready")}
}

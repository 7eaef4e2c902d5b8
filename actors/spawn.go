package actors

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// props makes the properties of every actor here: with the guard, with a supervision
// strategy that only stops, and with the mailbox that takes least memory. No call passes
// through a mailbox, so its throughput matters less.
func (rt *Runtime) props(role string, make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make,
		actor.WithReceiverMiddleware(rt.guard(role)),
		actor.WithSupervisor(actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })),
		actor.WithMailbox(actor.UnboundedLockfree()),
	)
}

// spawner spawns the actors of one role. They share their properties: those of an actor of
// its own would be kept as long as it lives. Safe for concurrent use.
type spawner struct {
	props *actor.Props

	mu   sync.Mutex
	next actor.Actor // what the props produce; guarded by mu
}

func (rt *Runtime) newSpawner(role string) *spawner {
	s := &spawner{}
	s.props = rt.props(role, func() actor.Actor { return s.next })
	return s
}

// spawn starts a as a child of the actor of c. The actor library takes a from the props
// before SpawnNamed returns, and never again: no actor here is restarted.
func (s *spawner) spawn(c actor.Context, a actor.Actor, name string) (*actor.PID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = a
	defer func() { s.next = nil }()
	return c.SpawnNamed(s.props, name)
}

// guard keeps panics out of the actor library. Its own handling can restart a stopped
// actor, or leave a parent waiting for ever. Here the actor that panicked is stopped,
// and the crash is reported with its stack.
func (rt *Runtime) guard(role string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, envelope *actor.MessageEnvelope) {
			defer func() {
				if p := recover(); p != nil {
					rt.reportCrash(role, fmt.Sprintf("%T", envelope.Message), p)
					rt.system.Root.Stop(c.Self())
				}
			}()
			next(c, envelope)
		}
	}
}

// guardRandom keeps a panic in the host's source of random numbers from stopping the
// supervising actor. The result is then the middle of the range.
func (rt *Runtime) guardRandom(random func() float64) func() float64 {
	return func() (rnd float64) {
		defer func() {
			if p := recover(); p != nil {
				rt.reportCrash("supervisor", "Options.Random", p)
				rnd = 0.5
			}
		}()
		return random()
	}
}

// reportCrash logs a panic. It names the type of the message, and never its contents.
// The line is queued: an actor must not wait for a log writer that blocks.
func (rt *Runtime) reportCrash(role, message string, p any) {
	text, stack := fmt.Sprint(p), debug.Stack()
	rt.logger.Line(func(log *zerolog.Logger) {
		log.Error().Str("actor", role).Str("message", message).
			Str("panic", text).Bytes("stack", stack).Msg("actor crashed; it is stopped")
	})
}

// goSafe runs f in a goroutine of its own. The guard protects only Receive; a panic
// here is reported and passed to failed, which may be nil.
func (rt *Runtime) goSafe(role string, f func(), failed func(p any)) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				rt.reportCrash(role, "goroutine", p)
				if failed != nil {
					failed(p)
				}
			}
		}()
		f()
	}()
}

// safeFunc returns f for a goroutine that is not of this package, which a panic of f must
// not end.
func (rt *Runtime) safeFunc(role string, f func()) func() {
	return func() {
		defer func() {
			if p := recover(); p != nil {
				rt.reportCrash(role, "callback", p)
			}
		}()
		f()
	}
}

package actors

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// props is the one way in which actors are made here: with the guard, and
// with a strategy that only ever stops.
func (rt *Runtime) props(role string, make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make,
		actor.WithReceiverMiddleware(rt.guard(role)),
		actor.WithSupervisor(actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })),
	)
}

// guard keeps panics out of the actor library, whose own handling of them can
// revive a stopped actor or leave a parent waiting for ever: the actor that
// panicked is stopped, and the crash is reported with its stack.
func (rt *Runtime) guard(role string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, envelope *actor.MessageEnvelope) {
			defer func() {
				if p := recover(); p != nil {
					reportCrash(rt.opts.Logger, role, fmt.Sprintf("%T", envelope.Message), p)
					rt.system.Root.Stop(c.Self())
				}
			}()
			next(c, envelope)
		}
	}
}

// guardRandom keeps a panic in the host's source of random numbers from stopping
// the supervising actor that asks. The result is then the middle of the range.
func (rt *Runtime) guardRandom(random func() float64) func() float64 {
	return func() (rnd float64) {
		defer func() {
			if p := recover(); p != nil {
				reportCrash(rt.opts.Logger, "supervisor", "Options.Random", p)
				rnd = 0.5
			}
		}()
		return random()
	}
}

// reportCrash logs a panic. The message's type is named, never its contents.
func reportCrash(log zerolog.Logger, role, message string, p any) {
	log.Error().Str("actor", role).Str("message", message).
		Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("actor crashed; it is stopped")
}

// goSafe runs f in a goroutine of its own. The mailbox protects only Receive;
// a panic here is reported and handed to failed.
func (rt *Runtime) goSafe(role string, f func(), failed func(p any)) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				reportCrash(rt.opts.Logger, role, "goroutine", p)
				if failed != nil {
					failed(p)
				}
			}
		}()
		f()
	}()
}

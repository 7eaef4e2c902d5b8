package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
)

// replaceEventStream gives a new actor system an event stream with one
// subscriber: a Watch that reaches a stopped actor is answered with Terminated.
//
// The library's own subscribers do that too, and log each dead letter. To
// throttle the log they start a goroutine with a ticker, which outlives Close.
// In a synctest bubble it never ends, because time stands still there once the
// test has returned. Dead letters are expected here, and are not logged.
func replaceEventStream(system *actor.ActorSystem) {
	system.EventStream = eventstream.NewEventStream()
	system.EventStream.Subscribe(func(event any) {
		dead, ok := event.(*actor.DeadLetterEvent)
		if !ok {
			return
		}
		watch, ok := dead.Message.(*actor.Watch)
		if !ok {
			return
		}
		if watcher, ok := system.ProcessRegistry.Get(watch.Watcher); ok {
			watcher.SendSystemMessage(watch.Watcher, &actor.Terminated{Who: dead.PID, Why: actor.TerminatedReason_NotFound})
		}
	})
}

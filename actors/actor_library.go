package actors

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/rs/zerolog"
)

// newActorSystem makes an actor system of the library, without what would log dead
// letters, leave a goroutine behind, or grow with every restart.
func newActorSystem(log zerolog.Logger) *actor.ActorSystem {
	logger := slog.New(zerolog.NewSlogHandler(log.Level(zerolog.WarnLevel)))
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }),
	)
	replaceEventStream(system)
	keepOneBucket(system.ProcessRegistry.LocalPIDs)
	return system
}

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

// keepOneBucket makes a registry of names small. The actor library spreads them over
// 1,024 buckets of 32 maps each. A Go map keeps its memory when it is empty again, and
// every restart and registration has a name of its own. So 9 MB would fill up over time,
// beside 3 MB for the empty maps. One bucket keeps only as much as there were actors at
// once. Call it before the first Spawn.
func keepOneBucket(names *actor.SliceMap) {
	buckets := names.LocalPIDs
	names.LocalPIDs = append(buckets[:0:0], buckets[0])
	for _, bucket := range buckets[1:] {
		// Not Items: that starts a goroutine for each of the 32 maps.
		bucket.IterCb(func(name string, process any) { buckets[0].Set(name, process) })
	}
}

package actors

import (
	"log/slog"
	"reflect"
	"sync"
	"unsafe"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/asynkron/protoactor-go/extensions"
	cmap "github.com/orcaman/concurrent-map"
)

// prototype is an actor system that never runs an actor. [newActorSystem] copies it for
// the one field that only the library can set: the logger, which discards. [Runtime.guard]
// and the event stream below leave the library nothing to log but dead letters, which are
// expected here.
var prototype = sync.OnceValue(newPrototype)

// newPrototype makes an actor system without a registry of names. The constructor of the
// library makes one of 1,024 buckets with 32 maps each, which takes 3 ms, 66,000 allocations
// and 3 MB. So the fields are set here. The logger is set by its offset; if a later version
// of the library has no such field, its constructor is called after all.
func newPrototype() *actor.ActorSystem {
	logger := slog.New(slog.DiscardHandler)
	field, ok := reflect.TypeFor[actor.ActorSystem]().FieldByName("logger")
	if !ok || field.Type != reflect.TypeOf(logger) {
		system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }))
		system.ProcessRegistry = nil
		return system
	}
	system := &actor.ActorSystem{ID: "mcpvisor", Config: actor.Configure(), Extensions: extensions.NewExtensions()}
	*(**slog.Logger)(unsafe.Add(unsafe.Pointer(system), field.Offset)) = logger //nolint:gosec // its type was compared
	system.Extensions.Register(actor.NewMetrics(system, nil))
	return system
}

// localAddress is the address of actors of this process, as the library names it.
const localAddress = "nonhost"

// newActorSystem makes an actor system of its own, which logs no dead letters, leaves no
// goroutine behind, and does not grow with every restart. It has no Shutdown: that only
// closes a channel, which the library never reads.
func newActorSystem() *actor.ActorSystem {
	system := new(actor.ActorSystem)
	*system = *prototype()
	// One bucket: a Go map keeps its memory when it is empty again, and every restart and
	// registration has a name of its own. One bucket keeps only as much as there were
	// actors at once; 1,024 of them would fill up over time.
	names := &actor.SliceMap{LocalPIDs: []cmap.ConcurrentMap{cmap.New()}}
	system.ProcessRegistry = &actor.ProcessRegistryValue{ActorSystem: system, Address: localAddress, LocalPIDs: names}
	system.Root = actor.NewRootContext(system, actor.EmptyMessageHeader)
	system.Guardians = actor.NewGuardians(system)
	system.EventStream = eventstream.NewEventStream() // for the subscription of NewDeadLetter, which is dropped below
	system.DeadLetter = actor.NewDeadLetter(system)
	replaceEventStream(system)
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

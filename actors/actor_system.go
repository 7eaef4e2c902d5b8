package actors

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	cmap "github.com/orcaman/concurrent-map"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/messages"
)

// prototype is an actor system that never runs an actor. [newActorSystem] copies it for
// the fields that only the library can set: the configuration and the logger. The
// constructor takes 3 ms, 66,000 allocations and 3 MB, because its registry of names has
// 1,024 buckets of 32 maps each. So it is called once in a process, and its registry is
// dropped.
//
// The logger discards: [Runtime.recoverPanics] and the event stream below leave the library
// nothing to log but dead letters, which are expected here.
var prototype = sync.OnceValue(func() *actor.ActorSystem {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
	system.ProcessRegistry.LocalPIDs = nil
	return system
})

// newActorSystem makes an actor system of its own, which logs no dead letters, leaves no
// goroutine behind, and does not grow with every restart. It has no Shutdown: that only
// closes a channel which it shares with the prototype, and which the library never reads.
func newActorSystem() *actor.ActorSystem {
	system := new(actor.ActorSystem)
	*system = *prototype()
	// One bucket: a Go map keeps its memory when it is empty again, and every restart and
	// registration has a name of its own. One bucket keeps only as much as there were
	// actors at once; 1,024 of them would fill up over time.
	names := &actor.SliceMap{LocalPIDs: []cmap.ConcurrentMap{cmap.New()}}
	system.ProcessRegistry = &actor.ProcessRegistryValue{ActorSystem: system, Address: prototype().ProcessRegistry.Address, LocalPIDs: names}
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

// props makes the properties of every actor here: with recoverPanics, with a supervision
// strategy that only stops, and with the mailbox that takes least memory. No call passes
// through a mailbox, so its throughput matters less.
func (rt *Runtime) props(role string, make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make,
		actor.WithReceiverMiddleware(rt.recoverPanics(role)),
		actor.WithSupervisor(actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })),
		actor.WithMailbox(actor.UnboundedLockfree()),
	)
}

// spawner spawns the actors of one role. They share one Props, because an actor keeps its
// Props in memory as long as it lives. Safe for concurrent use.
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

// recoverPanics keeps panics out of the actor library. Its own handling can restart a stopped
// actor, or leave a parent waiting forever. Here the actor that panicked is stopped,
// and the crash is reported with its stack.
func (rt *Runtime) recoverPanics(role string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, envelope *actor.MessageEnvelope) {
			rt.guard(role, fmt.Sprintf("%T", envelope.Message), func() { next(c, envelope) }, func(any) { rt.system.Root.Stop(c.Self()) })
		}
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

// guard calls f. A panic of f is reported and passed to failed, which may be nil. So is the end of the
// goroutine: an observer of the host may call runtime.Goexit, as t.FailNow does.
func (rt *Runtime) guard(role, message string, f func(), failed func(p any)) {
	returned := false
	defer func() {
		p := recover()
		if p == nil && !returned {
			p = "its goroutine was ended (runtime.Goexit)"
		}
		if p == nil {
			return
		}
		rt.reportCrash(role, message, p)
		if failed != nil {
			failed(p)
		}
	}()
	f()
	returned = true
}

// goSafe is guard in a goroutine of its own. recoverPanics protects only Receive.
func (rt *Runtime) goSafe(role string, f func(), failed func(p any)) {
	go rt.guard(role, "goroutine", f, failed)
}

// safeFunc returns f for a goroutine that is not of this package, which a panic of f must
// not end.
func (rt *Runtime) safeFunc(role string, f func()) func() {
	return func() { rt.guard(role, "callback", f, nil) }
}

// root is the top of the tree. It spawns servers once, and a new manager, and a new parent of the groups, whenever the
// current one has crashed.
//
// All fields are owned by the goroutine of the actor.
type root struct {
	rt       *Runtime
	servers  *actor.PID
	manager  *actor.PID
	groups   *actor.PID
	managers int  // spawned so far, with the parents of the groups; part of their names
	crashes  int  // of parents of the groups
	stopping bool // the end of the manager is wanted
}

// Receive implements actor.Actor.
func (r *root) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.servers, _ = c.SpawnNamed(r.rt.props("servers", func() actor.Actor {
			return &servers{rt: r.rt, children: map[string]child{}}
		}), "servers")
		r.spawnGroups(c)
		r.spawnManager(c)
	case *actor.Terminated:
		switch {
		case r.stopping:
		case r.manager != nil && m.Who.Id == r.manager.Id:
			r.spawnManager(c)
		case r.groups != nil && m.Who.Id == r.groups.Id:
			r.crashes++
			self := c.Self()
			time.AfterFunc(rebuildPause(r.crashes), func() { r.rt.send(self, &rebuildGroup{}) })
		}
	case *rebuildGroup:
		if !r.stopping {
			r.spawnGroups(c)
		}
	case *actor.Stopping:
		r.stopping = true
	}
}

func (r *root) spawnGroups(c actor.Context) {
	r.managers++
	pid, err := c.SpawnNamed(r.rt.props("groups", func() actor.Actor {
		return &groups{rt: r.rt, state: &r.rt.groupsState}
	}), fmt.Sprintf("%s-groups.%d", c.Self().Id, r.managers))
	if err == nil {
		r.groups = pid
	}
}

func (r *root) spawnManager(c actor.Context) {
	r.managers++
	pid, err := c.SpawnNamed(r.rt.props("manager", func() actor.Actor {
		return &manager{rt: r.rt, servers: r.servers, inbox: &r.rt.inbox, state: &r.rt.managerState}
	}), fmt.Sprintf("%s-manager.%d", c.Self().Id, r.managers))
	if err != nil {
		return
	}
	r.manager = pid
	r.rt.manager.Store(pid)
	// A message that was posted before the line above has woken the previous manager. This one
	// must look into the inbox for it.
	c.Send(pid, &wake{})
}

// post sends a message to the manager. After the end of the last server no manager
// handles it: a caller that waits for a reply must wait for Runtime.drained, too.
func (rt *Runtime) post(m messages.Message) {
	if isClosed(rt.drained) {
		return
	}
	rt.inbox.push(m)
	if manager := rt.manager.Load(); manager != nil { // the first one looks into the inbox when it starts
		rt.system.Root.Send(manager, &wake{})
	}
}

// send sends a message to an actor. Any goroutine may call it.
func (rt *Runtime) send(to *actor.PID, m messages.Message) { rt.system.Root.Send(to, m) }

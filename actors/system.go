package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Options are what a [Runtime] needs from outside.
type Options struct {
	// NewDialer makes the dialer of a registration. Required.
	NewDialer func(mcpvisor.ServerSpec) (transport.Dialer, error)
	// Logger gets crash reports and what the actor library has to say.
	Logger zerolog.Logger
	// Random yields numbers in [0, 1) for jitter; nil means math/rand.
	Random func() float64
}

// Runtime is one tree of actors and the snapshot that it publishes. Safe for
// concurrent use.
type Runtime struct {
	opts     Options
	system   *actor.ActorSystem
	root     *actor.PID
	snapshot atomic.Pointer[Snapshot]
	hub      *eventHub
	nextGen  atomic.Uint64
	stale    atomic.Uint64
	managers atomic.Uint64 // how many there were
	inbox    inbox
	desired  sync.Map // gen → *wishes

	leftBehind leftBehind

	drained     chan struct{} // every server is gone, after CloseAll
	drainedOnce sync.Once
	closeOnce   sync.Once
	logQueue    logQueue        // of the journal, beside the events
	logWritten  <-chan struct{} // the journal is complete
	closed      chan struct{}   // the tree is gone too, and all is written
}

// New starts a runtime without servers.
func New(opts Options) *Runtime {
	rt := &Runtime{opts: opts, hub: newEventHub(), drained: make(chan struct{}), closed: make(chan struct{})}
	if opts.Random != nil {
		rt.opts.Random = rt.guardRandom(opts.Random)
	}
	rt.snapshot.Store(newSnapshot(nil, false))
	rt.inbox.registrations = map[string]*registration{}
	rt.logQueue.queue = make(chan queuedLog, maxQueuedLogs)
	rt.logWritten = rt.startEventLogger()
	logger := slog.New(zerolog.NewSlogHandler(opts.Logger.Level(zerolog.WarnLevel)))
	rt.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }),
	)
	replaceEventStream(rt.system)
	keepOneBucket(rt.system.ProcessRegistry.LocalPIDs)
	rt.root = rt.system.Root.Spawn(rt.props("root", func() actor.Actor { return &root{rt: rt} }))
	return rt
}

// keepOneBucket makes a registry of names small. The actor library spreads them
// over 1,024 buckets of 32 maps each. A Go map keeps its memory when it is empty
// again, and every restart and registration has a name of its own: so 9 MB would
// fill, one name after another, beside 3 MB for the empty maps. One bucket keeps
// only as much as there were actors at once. Call it before the first Spawn.
func keepOneBucket(names *actor.SliceMap) {
	buckets := names.LocalPIDs
	names.LocalPIDs = append(buckets[:0:0], buckets[0])
	for _, bucket := range buckets[1:] {
		// Not Items: that starts a goroutine for each of the 32 maps.
		bucket.IterCb(func(name string, process any) { buckets[0].Set(name, process) })
	}
}

// root keeps a manager alive beside the servers, and forwards knocks to the
// one that is current.
type root struct {
	rt      *Runtime
	servers *actor.PID
	manager *actor.PID
	managed int
	// stopping: the end of the manager is wanted, not an accident.
	stopping bool
}

// Receive implements actor.Actor.
func (r *root) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.servers, _ = c.SpawnNamed(r.rt.props("servers", func() actor.Actor {
			return &servers{rt: r.rt, children: map[string]child{}}
		}), "servers")
		r.spawnManager(c)
	case *actor.Terminated:
		if !r.stopping && r.manager != nil && m.Who.Id == r.manager.Id {
			r.spawnManager(c)
		}
	case *actor.Stopping:
		r.stopping = true
	case *wake:
		c.Send(r.manager, m)
	}
}

func (r *root) spawnManager(c actor.Context) {
	r.managed++
	pid, err := c.SpawnNamed(r.rt.props("manager", func() actor.Actor {
		return &manager{rt: r.rt, servers: r.servers, inbox: &r.rt.inbox}
	}), fmt.Sprintf("%s-manager.%d", c.Self().Id, r.managed))
	if err == nil {
		r.manager = pid
	}
}

// post sends a letter to the manager. After the end of the last server nobody
// reads it; who waits for an answer waits for that end too.
func (rt *Runtime) post(letter any) {
	select {
	case <-rt.drained:
		return
	default:
	}
	rt.inbox.push(letter)
	rt.system.Root.Send(rt.root, &wake{})
}

// Snapshot is the registries as they are now.
func (rt *Runtime) Snapshot() *Snapshot { return rt.snapshot.Load() }

// Watch subscribes to events at once; see the hub.
func (rt *Runtime) Watch(ctx context.Context, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	return rt.hub.watch(ctx, kinds...)
}

// Stale counts letters that were dropped because they spoke of a registration
// that is no more.
func (rt *Runtime) Stale() uint64 { return rt.stale.Load() }

// Register adds a server and waits until it is ready, or, if it is
// StartSupervised, until it is accepted. If ctx ends first the registration is
// taken back.
func (rt *Runtime) Register(ctx context.Context, spec mcpvisor.ServerSpec) error {
	reply, accepted := make(chan error, 1), make(chan uint64, 1)
	spec = spec.Clone() // before anybody else sees it: the caller may go on to change it
	rt.post(&messages.Register{Spec: spec, Reply: reply, Accepted: accepted})
	select {
	case err := <-reply:
		return err
	case <-rt.drained:
	case <-ctx.Done():
		select { // both at once: what is done is done
		case err := <-reply:
			return err
		default:
		}
		rt.takeBack(spec.Name, accepted, reply)
		return &mcpvisor.Error{Server: spec.Name, Kind: mcpvisor.KindCanceled, Cause: context.Cause(ctx)}
	}
	select {
	case err := <-reply:
		return err
	default:
		return ClosedError(spec.Name)
	}
}

// takeBack follows a Register whose caller leaves to the manager's verdict,
// which takes no time, and then withdraws it: who registers the name again must
// not be overtaken by the letter of before. Accepted comes before the answer, so
// an answer alone settles nothing.
func (rt *Runtime) takeBack(name string, accepted <-chan uint64, reply <-chan error) {
	var gen uint64
	select {
	case gen = <-accepted:
	case <-reply: //nolint:errcheck // nobody is left to read it
		select {
		case gen = <-accepted:
		default:
			return // refused
		}
	case <-rt.drained:
		return
	}
	rt.post(&messages.Unregister{Name: name, Gen: gen, Reply: make(chan error, 1)})
}

// Unregister removes a server and waits until everything it held is reaped.
func (rt *Runtime) Unregister(ctx context.Context, name string) error {
	reply := make(chan error, 1)
	rt.post(&messages.Unregister{Name: name, Reply: reply})
	return rt.awaitReply(ctx, name, reply, nil)
}

// Restart asks for a fresh start of a server, with a fresh budget.
func (rt *Runtime) Restart(ctx context.Context, name string) error {
	reply := make(chan error, 1)
	rt.post(&messages.Restart{Name: name, Reply: reply})
	return rt.awaitReply(ctx, name, reply, ClosedError(name))
}

func (rt *Runtime) awaitReply(ctx context.Context, name string, reply <-chan error, drained error) error {
	select {
	case err := <-reply:
		return err
	case <-rt.drained:
		select {
		case err := <-reply:
			return err
		default:
			return drained
		}
	case <-ctx.Done():
		select { // both at once: what is done is done
		case err := <-reply:
			return err
		default:
		}
		return &mcpvisor.Error{Server: name, Kind: mcpvisor.KindCanceled, Cause: context.Cause(ctx)}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ClosedError is what becomes of requests after Close, which leaves no server to know.
func ClosedError(name string) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Kind: mcpvisor.KindClosed, Outcome: mcpvisor.OutcomeNotSent,
		Cause: errors.New("the client is closed; make a new one")}
}

// Close stops every server, in parallel, and then the actors. It may be called
// often and from many goroutines; if ctx ends first, closing goes on behind
// it and the error says so.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.closeOnce.Do(func() {
		rt.post(&messages.CloseAll{})
		go func() {
			<-rt.drained
			_ = rt.system.Root.StopFuture(rt.root).Wait()
			rt.system.Shutdown()
			rt.hub.close()
			awaitEventLogger(rt.logWritten)
			close(rt.closed)
		}()
	})
	select {
	case <-rt.closed:
		return rt.leftBehind.afterClose()
	case <-ctx.Done():
		if isClosed(rt.closed) { // both at once: what is done is done
			return rt.leftBehind.afterClose()
		}
		return &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Cause: context.Cause(ctx),
			Hint: "servers are still being stopped in the background"}
	}
}

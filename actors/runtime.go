package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/events"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Options are what a [Runtime] needs from outside.
type Options struct {
	// NewDialer makes the dialer of a registration. Required. It runs in the goroutine
	// of an actor: while it blocks, no server can be registered and none can end.
	NewDialer func(mcpvisor.ServerSpec) (transport.Dialer, error)
	// Logger receives the events, crash reports, and warnings of the actor library.
	Logger zerolog.Logger
	// Observer sees the requests of all servers; nil means none. UpdateObserver replaces it.
	Observer monitor.Observer
	// MaxStarts bounds how many servers that are subprocesses start at one time; 0 means
	// [DefaultMaxStarts].
	MaxStarts int
	// InUse reports whether something other than requests uses a server, so that it does not sleep. Optional; it must
	// not block.
	InUse func(server string) bool
	// Known returns what a lazy server offered when it last ran; nil if that is not known, or not before ctx ends.
	// Optional. The goroutine that registers the server calls it.
	Known func(ctx context.Context, spec *mcpvisor.ServerSpec) *catalog.Catalog
	// Guard decides what of the lists of a server is published; nil: everything.
	Guard mcpvisor.CatalogGuard
	// Records counts the calls of this runtime among its own, and has those that have ended; nil: they are kept here.
	Records *Runtime
}

// Runtime is one tree of actors and the snapshot that it publishes. Safe for
// concurrent use.
type Runtime struct {
	opts   Options
	system *actor.ActorSystem
	root   *actor.PID

	supervisors, ports *spawner
	starts             *startLimiter

	// What outlives a manager. managerState is owned by the current manager.
	inbox        inbox
	managerState managerState
	groupsState  groupsState               // owned by the current actor groups
	nextGen      atomic.Uint64             // the last generation that was given out
	managers     atomic.Uint64             // how many there were
	manager      atomic.Pointer[actor.PID] // the current one; written by root
	groups       atomic.Pointer[actor.PID] // the current one; written by itself

	snapshot   atomic.Pointer[Snapshot] // written by the manager only
	desired    sync.Map                 // gen → *subscription.Desired; written by the manager only
	stats      sync.Map                 // gen → *registrationStats; written by the manager only
	stale      atomic.Uint64
	calls      callFacts
	longCalls  longCalls
	observing  sync.Mutex                  // held while observer is replaced
	observer   atomic.Pointer[observerRef] // nil: none
	badMeta    sync.Once                   // the log names the first _meta of the observer that cannot be sent
	hub        *events.Hub
	logger     *events.Logger
	leftBehind leftBehind
	finishing  sync.WaitGroup // what dialers do in the background when they are idle

	drained     chan struct{} // closed when every server is gone, after CloseAll
	drainedOnce sync.Once
	closeOnce   sync.Once
	closed      chan struct{} // closed when the actors have ended, and the log is written
}

// New starts a runtime without servers.
func New(opts Options) *Runtime {
	rt := &Runtime{opts: opts, hub: events.NewHub(), drained: make(chan struct{}), closed: make(chan struct{})}
	rt.calls.init(opts.Records)
	rt.UpdateObserver(func(monitor.Observer) monitor.Observer { return opts.Observer })
	rt.managerState.registrations, rt.managerState.tree.after = map[string]*registration{}, map[uint64]bool{}
	rt.groupsState = groupsState{nodes: map[string]*groupNode{}, servers: map[string]*place{}}
	rt.snapshot.Store(newSnapshot(nil, false))
	rt.logger = events.NewLogger(rt.hub, opts.Logger)
	rt.starts = newStartLimiter(opts.MaxStarts)
	rt.system = newActorSystem()
	rt.longCalls.rt, rt.longCalls.enabled = rt, opts.Logger.GetLevel() <= zerolog.WarnLevel
	rt.supervisors, rt.ports = rt.newSpawner("supervisor"), rt.newSpawner("port")
	rt.root = rt.system.Root.Spawn(rt.props("root", func() actor.Actor { return &root{rt: rt} }))
	return rt
}

// Snapshot is the registries as they are now.
func (rt *Runtime) Snapshot() *Snapshot { return rt.snapshot.Load() }

// Events returns what has happened, and happens. Only the runtime publishes there.
func (rt *Runtime) Events() *events.Hub { return rt.hub }

// Stale counts reports that were dropped because their registration has ended.
func (rt *Runtime) Stale() uint64 { return rt.stale.Load() }

// desiredOf is the desired state of one registration. The manager makes it; once the
// registration has ended, what is desired has no effect.
func (rt *Runtime) desiredOf(gen uint64) *subscription.Desired {
	if d, ok := rt.desired.Load(gen); ok {
		return d.(*subscription.Desired)
	}
	return subscription.NewDesired()
}

// Register adds a server and waits until it is ready or at rest, or, if it is
// StartSupervised, until it is accepted. If ctx ends first, the registration is
// withdrawn.
func (rt *Runtime) Register(ctx context.Context, spec mcpvisor.ServerSpec) error {
	return rt.RegisterAll(ctx, []mcpvisor.ServerSpec{spec})[0]
}

// RegisterAll is Register of several servers at once, so that they start in their order.
func (rt *Runtime) RegisterAll(ctx context.Context, specs []mcpvisor.ServerSpec) []error {
	return rt.registerAll(ctx, specs, false, func(m *messages.Register, reply <-chan error, accepted <-chan uint64) error {
		select {
		case err := <-reply:
			return err
		case <-rt.drained:
			return replyOr(reply, ClosedError(m.Spec.Name))
		case <-ctx.Done():
			select { // the reply may have come in the same moment
			case err := <-reply:
				return err
			default:
			}
			rt.withdrawRegister(m.Spec.Name, accepted, reply)
			return &mcpvisor.Error{Server: m.Spec.Name, Kind: mcpvisor.ErrCanceled, Cause: context.Cause(ctx)}
		}
	})
}

// ReplaceAll is RegisterAll of names that may be taken, as messages.Register says of it. If ctx ends first,
// what has begun continues.
func (rt *Runtime) ReplaceAll(ctx context.Context, specs []mcpvisor.ServerSpec) []error {
	return rt.registerAll(ctx, specs, true, func(m *messages.Register, reply <-chan error, _ <-chan uint64) error {
		return rt.awaitReply(ctx, m.Spec.Name, reply, ClosedError(m.Spec.Name))
	})
}

// knownTimeout bounds all calls of Options.Known for one registration.
const knownTimeout = 5 * time.Second

func (rt *Runtime) registerAll(ctx context.Context, specs []mcpvisor.ServerSpec, replace bool, await func(m *messages.Register, reply <-chan error, accepted <-chan uint64) error) []error {
	knowing, cancel := context.WithTimeout(ctx, knownTimeout) // await has the context of the caller
	defer cancel()
	all, replies, accepted := &messages.RegisterAll{}, make([]chan error, len(specs)), make([]chan uint64, len(specs))
	for i, spec := range specs {
		replies[i], accepted[i] = make(chan error, 1), make(chan uint64, 1)
		m := &messages.Register{Spec: spec.Clone(), Replace: replace, Reply: replies[i], Accepted: accepted[i]} // the caller may change its copy
		if rt.opts.Known != nil {
			m.Known = rt.opts.Known(knowing, &m.Spec)
		}
		all.All = append(all.All, m)
	}
	rt.post(all)
	errs := make([]error, len(specs))
	for i, m := range all.All { // none keeps another one waiting for longer than itself
		errs[i] = await(m, replies[i], accepted[i])
	}
	return errs
}

// withdrawRegister unregisters what a Register has registered whose context ended. It
// first waits for the decision of the manager, which takes no time: a later Register of
// the same name must not be overtaken by this one. The manager sends accepted before the
// reply, so a reply alone settles nothing.
func (rt *Runtime) withdrawRegister(name string, accepted <-chan uint64, reply <-chan error) {
	var gen uint64
	select {
	case gen = <-accepted:
	case <-reply: //nolint:errcheck // the caller has its error already
		select {
		case gen = <-accepted:
		default:
			return // rejected
		}
	case <-rt.drained:
		return
	}
	rt.post(&messages.Unregister{Name: name, Gen: gen, Reply: make(chan error, 1)})
}

// Unregister removes a server and waits until everything it held is released.
func (rt *Runtime) Unregister(ctx context.Context, name string) error {
	return rt.UnregisterDrained(ctx, name, false)
}

// UnregisterDrained is Unregister with a choice. drain: the calls in flight may end before, within
// Timeouts.Drain.
func (rt *Runtime) UnregisterDrained(ctx context.Context, name string, drain bool) error {
	reply := make(chan error, 1)
	rt.post(&messages.Unregister{Name: name, Drain: drain, Reply: reply})
	return rt.awaitReply(ctx, name, reply, nil)
}

// UnregisterAll is UnregisterDrained of several servers, with drain; each ends before those that it comes after. The
// errors are in the order of the names.
func (rt *Runtime) UnregisterAll(ctx context.Context, names []string) []error {
	all, replies := &messages.UnregisterAll{}, make([]chan error, len(names))
	for i, name := range names {
		replies[i] = make(chan error, 1)
		all.All = append(all.All, &messages.Unregister{Name: name, Drain: true, Reply: replies[i]})
	}
	rt.post(all)
	errs := make([]error, len(names))
	for i, name := range names {
		errs[i] = rt.awaitReply(ctx, name, replies[i], nil)
	}
	return errs
}

// RenewGroup starts a group afresh that has failed.
func (rt *Runtime) RenewGroup(name string) {
	if groups := rt.groups.Load(); groups != nil {
		rt.send(groups, &renewGroup{name: name})
	}
}

// Fence ends a server at once, keeps it from starting again in this registration, and waits
// until everything it held is released.
func (rt *Runtime) Fence(ctx context.Context, name, reason string) error {
	reply := make(chan error, 1)
	cause := &supervisor.Cause{Kind: supervisor.CauseFenced, Permanent: true, Message: "fenced"}
	if reason != "" {
		cause.Message += ": " + reason
	}
	rt.post(&messages.Fence{Name: name, Cause: transport.KeptCause(cause), Reply: reply})
	return rt.awaitReply(ctx, name, reply, nil)
}

// Restart asks for a fresh start of a server, with a fresh budget.
func (rt *Runtime) Restart(ctx context.Context, name string) error {
	return rt.RestartFor(ctx, name, nil, false)
}

// RestartFor is Restart with the cause of the end of the session; nil: a caller has asked. drain is as in
// UnregisterDrained; the restart is under way when the calls have ended.
func (rt *Runtime) RestartFor(ctx context.Context, name string, cause *supervisor.Cause, drain bool) error {
	return rt.operate(ctx, &messages.Operate{Name: name, Order: messages.OrderRestart, Cause: cause, Drain: drain})
}

// Stop ends a server and keeps its registration, and waits until everything it held is released. drain is as in
// UnregisterDrained.
func (rt *Runtime) Stop(ctx context.Context, name string, drain bool) error {
	return rt.operate(ctx, &messages.Operate{Name: name, Order: messages.OrderStop, Drain: drain})
}

// Start starts a server that is stopped, or in any other state does not run, with a fresh budget.
func (rt *Runtime) Start(ctx context.Context, name string) error {
	return rt.operate(ctx, &messages.Operate{Name: name, Order: messages.OrderStart})
}

func (rt *Runtime) operate(ctx context.Context, m *messages.Operate) error {
	reply := make(chan error, 1)
	m.Reply = reply
	rt.post(m)
	return rt.awaitReply(ctx, m.Name, reply, ClosedError(m.Name))
}

// wake tells a server that is at rest, or is going to, that it is wanted. However many callers do, it is told once.
func (rt *Runtime) wake(v *View) {
	if v.rests && v.woken.CompareAndSwap(false, true) {
		rt.post(&messages.Operate{Name: v.Name, Order: messages.OrderWake})
	}
}

// SetGroups makes the groups of the client those of groups.
func (rt *Runtime) SetGroups(ctx context.Context, groups []mcpvisor.Group) error {
	reply := make(chan error, 1)
	rt.post(&messages.SetGroups{Groups: groups, Reply: reply})
	return rt.awaitReply(ctx, "", reply, ClosedError(""))
}

// awaitReply waits for a reply of the manager. drained is the result if the last server
// has ended without one.
func (rt *Runtime) awaitReply(ctx context.Context, name string, reply <-chan error, drained error) error {
	select {
	case err := <-reply:
		return err
	case <-rt.drained:
		return replyOr(reply, drained)
	case <-ctx.Done():
		return replyOr(reply, &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrCanceled, Cause: context.Cause(ctx)})
	}
}

// replyOr returns a reply that has come in the same moment, and otherwise the given
// result.
func replyOr(reply <-chan error, otherwise error) error {
	select {
	case err := <-reply:
		return err
	default:
		return otherwise
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

// ClosedError is the result of requests after Close, when no server is left.
func ClosedError(name string) *mcpvisor.Error {
	return &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrClosed, Outcome: mcpvisor.OutcomeNotSent,
		Cause: errors.New("the client is closed; make a new one")}
}

// Close stops every server, each before those that it comes after, and then the actors. It may be called
// repeatedly and from many goroutines. If ctx ends first, closing continues in the
// background and the error says so.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.closeOnce.Do(func() {
		rt.post(&messages.CloseAll{})
		go func() {
			<-rt.drained
			_ = rt.system.Root.StopFuture(rt.root).Wait()
			rt.finishing.Wait()
			rt.longCalls.stop()
			rt.hub.Close()
			rt.logger.AwaitClose()
			close(rt.closed)
		}()
	})
	select {
	case <-rt.closed:
		return rt.leftBehind.afterClose()
	case <-ctx.Done():
		if isClosed(rt.closed) { // in the same moment
			return rt.leftBehind.afterClose()
		}
		return &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Cause: context.Cause(ctx),
			Hint: "servers are still being stopped in the background"}
	}
}

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/internal/forward"
	"github.com/mcpvisor/mcpvisor/fleet/internal/guards"
	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/internal/runner"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// Node is this process as a member of a fleet. All servers of the fleet are registered in its Client:
// some run here, and the others are reached on their nodes. Register adds servers that belong to
// this process alone. Safe for concurrent use.
type Node struct {
	*facade.Client

	id        string
	config    Config
	store     store.Store
	log       zerolog.Logger
	routes    *routes
	peers     *peers
	server    *peer.Server // nil without a listener
	owner     *forward.Owner
	guards    *guards.Guards
	catalogs  *catalogs
	runner    *runner.Runner
	starts    chan struct{} // a place for each process that is being started; see takeStart
	resolving chan struct{} // a place for each definition that is being resolved
	calls     turnstile     // calls of this process to servers of other nodes; leaving: Leave waits for them

	ctx    context.Context // ends when the node ends
	cancel context.CancelFunc
	work   work
	ran    chan struct{} // closed when the runner has returned
	closed atomic.Bool
	over   chan struct{} // closed when the first Close returns

	lease    atomic.Int64 // of the present life; 0: none
	deadline atomic.Int64 // when it is over, by package boottime; 0: it is

	mu      sync.Mutex
	specs   map[string]*definition // of the fleet, by name; guarded by mu, as the fields below
	ours    map[string]bool        // every name that the fleet has registered here
	gateway json.RawMessage        // the definition of the gateways; nil without one
	untold  bool                   // gateway or specs have changed since the program was told
	lives   map[string]bool        // that this node has had since it joined
	// following are the names whose sessions are being restarted for a new route; true: once more.
	following map[string]bool
	changed   chan struct{} // closed, and replaced, when the registered servers have followed specs
	dirty     chan struct{} // has room for one: specs have changed

	telling sync.Mutex // held while the program is told what has changed
}

// Join makes this process a node of a fleet. It returns when the node is a member and knows the
// servers of the fleet, which then start one by one; WaitReady waits for them. ctx bounds the wait,
// and not the life of the node: end that with [Node.Leave] or [Node.Close].
//
// Errors say what is wrong with the configuration, or why the store could not be reached until ctx
// ended.
func Join(ctx context.Context, config Config) (*Node, error) {
	id, err := config.check()
	if err != nil {
		return nil, err
	}
	if err := config.checkTrust(ctx, id); err != nil {
		return nil, err
	}
	n := &Node{id: id, config: config, store: config.Store, log: config.Logger.With().Str("node", id).Logger(), routes: newRoutes(id), peers: newPeers(config.Identity),
		starts: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), resolving: make(chan struct{}, resolveAtOnce), calls: turnstile{idle: make(chan struct{})}, ran: make(chan struct{}), over: make(chan struct{}),
		specs: map[string]*definition{}, ours: map[string]bool{}, lives: map[string]bool{}, following: map[string]bool{}, changed: make(chan struct{}), dirty: make(chan struct{}, 1)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.catalogs = newCatalogs(n)
	n.guards = guards.New(config.GuardTicket, n.onGuardReady, n.onGuardLost)
	options := append([]facade.Option{facade.WithMaxBufferBytes(defaultBufferBytes)}, config.Options...)
	if n.Client, err = facade.New(append(options, relay.WithDialer(dial.NewHook(n.newDialer, n.refuse)))...); err != nil {
		n.cancel()
		return nil, err
	}
	n.owner = forward.NewOwner(relay.Of(n.Client))
	if config.Listener != nil {
		if n.server, err = peer.NewServer(peer.ServerConfig{Identity: config.Identity, Local: relay.Of(n.Client), Check: n.check, Catalog: n.catalogs.body, Request: n.request, Notices: n.owner.Notices}); err != nil {
			n.cancel()
			return nil, errors.Join(err, n.Client.Close(ctx))
		}
		n.work.Go(func() {
			if err := n.server.Serve(config.Listener); err != nil && n.ctx.Err() == nil {
				n.log.Error().Err(err).Msg("other nodes can no longer reach this node")
			}
		})
	}
	n.runner = runner.New(config.protocol(id), n.store, (*servers)(n))
	n.work.Go(func() {
		defer close(n.ran)
		_ = n.runner.Run(n.ctx)
	})
	n.work.Go(func() { n.warnOfExpiry(n.ctx) })
	n.work.Go(func() { n.followSpecs(n.ctx) })
	n.work.Go(func() { n.followDrain(n.ctx) })
	n.work.Go(func() { n.followEvictions(n.ctx) })
	n.work.Go(func() { n.catalogs.publish(n.ctx) })
	n.work.Go(func() { n.catalogs.watchEvents(n.ctx) })
	n.work.Go(func() { n.catalogs.follow(n.ctx) })
	if err := n.awaitMember(ctx); err != nil {
		return nil, errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	}
	n.tellConfigured()
	return n, nil
}

// awaitMember waits until the store knows this node.
func (n *Node) awaitMember(ctx context.Context) error {
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		s, err := n.runner.Snapshot(ctx)
		if err == nil && s.State == protocol.StateMember && s.Revision > 0 {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("join the fleet as node %q: the store has not answered: %w", n.id, context.Cause(ctx))
		}
	}
}

// ID returns the id of the node.
func (n *Node) ID() string { return n.id }

// Drain hands all servers of this node over to others, and takes none until the process ends: calls
// in flight end, for up to 30 s, and callers with WithWaitReady notice nothing. It returns when none
// is left or ctx ends; the drain continues then.
func (n *Node) Drain(ctx context.Context) error {
	n.runner.Drain()
	select {
	case <-n.runner.Drained():
		return nil
	case <-n.ran:
		return errClosed
	case <-ctx.Done():
		return fmt.Errorf("drain node %q: %w", n.id, context.Cause(ctx))
	}
}

var errClosed = errors.New("the node has left the fleet")

// Leave drains, gives the lease back, lets calls of this process to servers of other nodes end, for up to 30 s,
// and ends the node. Calls that come then are not sent. If ctx ends first, it continues as Close does.
func (n *Node) Leave(ctx context.Context) error {
	n.runner.Leave()
	var err error
	select {
	case <-n.ran:
		calling, cancel := context.WithTimeout(ctx, drainTimeout)
		n.calls.drain(calling)
		cancel()
	case <-ctx.Done():
		err = fmt.Errorf("leave the fleet: %w", context.Cause(ctx))
	}
	return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
}

// Close ends the node at once: its servers end, and others start them. Calls in flight have an
// unknown outcome. It may be called more than once; each call returns when the node has ended.
//
// Errors: those of facade.Client.Close.
func (n *Node) Close(ctx context.Context) error {
	if !n.closed.CompareAndSwap(false, true) {
		select {
		case <-n.over: // it has ended
			return n.Client.Close(context.WithoutCancel(ctx))
		default:
		}
		select {
		case <-n.over:
			return n.Client.Close(ctx)
		case <-ctx.Done():
			return fmt.Errorf("close node %q, which is ending: %w", n.id, context.Cause(ctx))
		}
	}
	defer close(n.over)
	lease := store.Lease(n.lease.Load())
	n.cancel()
	<-n.ran
	err := n.Client.Close(ctx) // ends the servers
	n.guards.Close(err == nil)
	if lease != 0 && err == nil { // nothing is left of the servers
		revoking, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
		_ = n.store.Revoke(revoking, lease) // it ends by itself otherwise
		cancel()
	}
	if n.server != nil { // others hear what has become of their calls
		answering, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		n.server.Shutdown(answering)
		cancel()
	}
	n.peers.close()
	n.work.Wait()
	return err
}

const (
	revokeTimeout = 2 * time.Second
	// answerTimeout bounds how long a node that ends waits for others that do not read its answers.
	answerTimeout = time.Second
)

// work counts the goroutines of a node. After Wait has begun, none is started: what would be done is
// no longer of use.
type work struct {
	mu    sync.Mutex
	ended bool // guarded by mu
	all   sync.WaitGroup
}

func (w *work) Go(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.all.Go(f)
	}
}

func (w *work) Wait() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.all.Wait()
}

// newDialer makes the dialer of a registration.
func (n *Node) newDialer(spec mcpvisor.ServerSpec, opts transport.Options) (transport.Dialer, error) {
	n.mu.Lock()
	d := n.specs[spec.Name]
	ours := d != nil && spec.Transport != nil && spec.Transport == d.shown.Transport
	var of definition
	if ours {
		of = *d
	}
	n.mu.Unlock()
	if !ours {
		return dial.New(spec, opts) // the program has registered it
	}
	return &dialer{node: n, spec: of.spec, err: of.err, opts: opts, host: hostHandlers(&opts.Handlers), buffer: budget.New(spec.WithDefaults().Limits.MaxBufferBytes, opts.Buffer)}, nil
}

// admit waits until a server may start here.
func (n *Node) admit(ctx context.Context, l *local, process bool) (done func(), err error) {
	if l.exclusive && process && n.guards.Exist() {
		g, err := n.guards.Current()
		if err != nil {
			return nil, err
		}
		if g == nil {
			return nil, errGuardStarts
		}
		if err := g.Confirm(ctx); err != nil {
			return nil, err
		}
	}
	done = func() {}
	if process {
		if done, err = n.takeStart(ctx, startHold); err != nil {
			return nil, err
		}
	}
	if l.exclusive && !n.inForce() {
		done()
		return nil, peer.ErrLeaseOver
	}
	return done, nil
}

// takeStart waits until one more process may be started. done says that it has been, or could not be;
// after hold it no longer counts.
func (n *Node) takeStart(ctx context.Context, hold time.Duration) (done func(), err error) {
	select {
	case n.starts <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	over := sync.OnceFunc(func() { <-n.starts })
	timer := time.AfterFunc(hold, over)
	return func() {
		timer.Stop()
		over()
	}, nil
}

// startHold is how long a start counts at most. One that waits or hangs takes no CPU, and must not
// delay the servers of a node that was lost.
const startHold = time.Second

var errGuardStarts = errors.New("the guard of the node is being started")

// inForce reports whether the life of the node is not over.
func (n *Node) inForce() bool { return int64(boottime.Now()) < n.deadline.Load() }

// lifeNow returns the present life, as records name it; "" without one.
func (n *Node) lifeNow() string {
	if lease := n.lease.Load(); lease != 0 && n.inForce() {
		return lifeName(store.Lease(lease))
	}
	return ""
}

// lifeName names the life of a lease, as records do.
func lifeName(lease store.Lease) string { return strconv.FormatInt(int64(lease), 16) }

// check reports whether a call of another node may be executed here.
func (n *Node) check(server string, epoch uint64) error {
	l := n.routes.localOf(server)
	switch {
	case l == nil || l.leaving.Load() || l.epoch.Load() != epoch:
		return peer.ErrMoved
	case l.exclusive && !n.inForce():
		return peer.ErrLeaseOver
	}
	return nil
}

// request executes a request of another node that is not a call.
func (n *Node) request(ctx context.Context, r peer.Request) (json.RawMessage, error) {
	if r.Method == methodRestart {
		return json.RawMessage(`{}`), n.Client.Restart(ctx, r.Server)
	}
	return n.owner.Request(ctx, r)
}

// exclusives returns the exclusive servers that run here.
func (n *Node) exclusives() (all []*local) {
	for _, l := range n.routes.locals() {
		if l.exclusive {
			all = append(all, l)
		}
	}
	return all
}

func (n *Node) onGuardReady() {
	for _, l := range n.exclusives() {
		n.follow(l.name)
	}
}

func (n *Node) onGuardLost() {
	n.log.Error().Msg("the guard of the node is gone and could not be replaced within a second; its life ends, and the next one begins with another guard")
	n.runner.Fence()
}

// servers is the node as its runner sees it.
type servers Node

var _ runner.Servers = (*servers)(nil)

// Deadline implements [runner.Servers].
func (s *servers) Deadline(lease store.Lease, at time.Duration) {
	if at == 0 {
		if s.deadline.Swap(0) != 0 && !s.closed.Load() {
			s.log.Warn().Msg("the lease of the node is over; exclusive servers end")
		}
		return
	}
	s.lease.Store(int64(lease))
	s.mu.Lock()
	s.lives[lifeName(lease)] = true
	s.mu.Unlock()
	s.deadline.Store(int64(at))
	s.guards.SetDeadline(lease, at)
}

// Spec implements [runner.Servers].
func (s *servers) Spec(name string, record *records.Spec) {
	s.mu.Lock()
	if record == nil {
		delete(s.specs, name)
		s.routes.forget(name)
	} else {
		d := &definition{name: name, record: *record}
		if old := s.specs[name]; old != nil && old.resolved && old.record.Exclusive == record.Exclusive && bytes.Equal(old.record.Definition, record.Definition) {
			*d = *old // only where it may run has changed: it continues
			d.record = *record
		}
		s.specs[name] = d
	}
	s.untold = true
	s.mu.Unlock()
	(*Node)(s).register()
}

// Gateway implements [runner.Servers].
func (s *servers) Gateway(definition json.RawMessage) {
	s.mu.Lock()
	s.gateway, s.untold = definition, true
	s.mu.Unlock()
	(*Node)(s).register()
}

// Place implements [runner.Servers].
func (s *servers) Place(name string, place placement.Place, owner *placement.Node) {
	if s.routes.place(name, place, owner) {
		(*Node)(s).follow(name)
	}
}

// Start implements [runner.Servers].
func (s *servers) Start(name string, epoch uint64, spec placement.Spec) {
	l := newLocal(name, s.id, epoch, spec.Exclusive, (*Node)(s).onEnded)
	l.inForce = (*Node)(s).inForce
	s.routes.start(name, l)
	(*Node)(s).follow(name)
}

// Adopt implements [runner.Servers].
func (s *servers) Adopt(name string, epoch uint64) {
	if l := s.routes.localOf(name); l != nil {
		l.epoch.Store(epoch)
		s.catalogs.markChanged(name)
	}
}

// End implements [runner.Servers].
func (s *servers) End(name string, epoch uint64, now bool) {
	l := s.routes.localOf(name)
	if l == nil {
		s.runner.Ended(name, epoch)
		return
	}
	if now {
		l.end(&supervisor.Cause{Kind: supervisor.CauseFenced, Message: "this node may no longer run the server"}, true)
		return
	}
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, drainTimeout)
		defer cancel()
		l.drain(ctx)
		l.end(&supervisor.Cause{Kind: supervisor.CauseMoved, Message: "the server is handed over to another node"}, false)
	})
}

// onEnded follows the end of a server that ran here.
func (n *Node) onEnded(l *local) {
	n.routes.stopped(l.name, l)
	n.catalogs.forget(l.name)
	n.runner.Ended(l.name, l.epoch.Load())
	n.follow(l.name)
}

package runner_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/internal/runner"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/kv"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

var outageSeed = flag.Uint64("outage.seed", 0, "run this one only")

const (
	outageSeeds = 50
	outageTTL   = 8 * time.Second
	outageNames = 9
	// leaveTimeout is that of mcpvisor fleet run, and closeTimeout what Close may take beside the servers.
	leaveTimeout = 40 * time.Second
	closeTimeout = 5 * time.Second
	// backWithin is line 5 of the acceptance lines.
	backWithin = 5 * time.Second
)

// TestRunner_outage drives three runners, in the time of a bubble, with a store that is away for one of
// them, or for all: its calls block until their contexts end, Watch among them; before and after, answers are
// late, get lost, and requests come twice. No exclusive server lives twice; a node that is cut off says so;
// and one that is asked to end meanwhile does.
func TestRunner_outage(t *testing.T) {
	for _, unguarded := range []bool{false, true} {
		for seed := uint64(1); seed <= outageSeeds; seed++ {
			if *outageSeed != 0 && seed != *outageSeed {
				continue
			}
			t.Run(fmt.Sprintf("unguarded %v/seed %d", unguarded, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playOutage(t, seed, unguarded) })
			})
		}
	}
}

type outageNode struct {
	id    string
	node  *runner.Runner
	link  *link
	local *local
	close func() error
}

func playOutage(t *testing.T, seed uint64, unguarded bool) {
	w := newOutageWorld(seed)
	defer w.end()
	f := &fleet{t: t, board: newBoard(), ttl: outageTTL, clock: &clock{w.now}, unguarded: unguarded,
		lasts: func() time.Duration { return w.between(0, 200*time.Millisecond) }, open: w.open}
	f.specs(outageNames)
	w.faulty.Store(true)
	var nodes []*outageNode
	for _, id := range []string{"a", "b", "c"} {
		n := &outageNode{id: id}
		n.node, n.close = f.join(id)
		n.link, n.local = w.links[len(w.links)-1], f.board.nodes[len(f.board.nodes)-1]
		nodes = append(nodes, n)
	}
	f.board.wait(t, "all names run", placed(outageNames, "a", "b", "c"))
	for _, n := range nodes {
		n.awaitMember(t)
	}
	time.Sleep(w.between(0, 10*time.Second)) // the outage comes anywhere between renewals, reports and watches

	cut := nodes[:1+2*w.between(0, 1)]
	began := w.now()
	for _, n := range cut {
		n.link.setAway(true)
	}
	time.Sleep(outageTTL + w.between(0, 20*time.Second))
	for _, n := range cut {
		s := n.snapshot(t)
		require.NotEqual(t, protocol.StateMember, s.State, "node %s has not heard of its lease for %v", n.id, w.now()-began)
		require.EqualValues(t, 1, s.Fences, n.id)
		require.Greater(t, s.CutOff, began, n.id)
		require.LessOrEqual(t, s.CutOff, began+outageTTL, n.id)
		require.Less(t, s.Heard, began+time.Second, "what it knows is old: %s", n.id)
	}
	var left []string
	for i, n := range nodes {
		if i == 0 { // it is asked to end meanwhile
			n.leave(t, w.between(0, 1) == 0)
		} else {
			left = append(left, n.id)
		}
	}
	for _, n := range cut {
		n.link.setAway(false)
	}
	back := w.now()
	f.board.wait(t, "all names run again", placed(outageNames, left...))
	require.Less(t, w.now()-back, backWithin)
	for _, n := range nodes[1:] {
		n.awaitMember(t)
		require.Zero(t, n.snapshot(t).CutOff, n.id)
	}
	for _, n := range nodes[1:] {
		n.leave(t, false)
	}
}

func (n *outageNode) snapshot(t *testing.T) protocol.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s, err := n.node.Snapshot(ctx)
	require.NoError(t, err, "the goroutine of node %s waits for something else", n.id)
	return s
}

func (n *outageNode) awaitMember(t *testing.T) {
	t.Helper()
	for n.snapshot(t).State != protocol.StateMember {
		time.Sleep(10 * time.Millisecond)
	}
}

// leave ends a node as SIGTERM does, or at once.
func (n *outageNode) leave(t *testing.T, atOnce bool) {
	t.Helper()
	begin := time.Now()
	if !atOnce {
		n.node.Leave()
		select {
		case <-n.node.Done():
		case <-time.After(leaveTimeout):
			require.Fail(t, "the node does not leave", "%s: %+v", n.id, n.snapshot(t))
		}
		begin = time.Now()
	}
	_ = n.close()
	n.local.endAll() // as Node.Close does
	require.Less(t, time.Since(begin), closeTimeout)
}

// outageWorld is a store, and the links of the nodes to it.
type outageWorld struct {
	start time.Time
	over  chan struct{}
	links []*link
	late  sync.WaitGroup // requests that come a second time
	// faulty: answers and connections get lost, and requests come twice.
	faulty atomic.Bool

	mu      sync.Mutex
	random  *rand.Rand // guarded by mu, as the fields below
	engine  *kv.Engine
	changed chan struct{}
}

func newOutageWorld(seed uint64) *outageWorld {
	w := &outageWorld{start: time.Now(), over: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 2)), engine: kv.New(), changed: make(chan struct{})}
	w.late.Go(func() {
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-tick.C:
				w.do(func() { w.engine.Expire(w.now()) })
			case <-w.over:
				tick.Stop()
				return
			}
		}
	})
	return w
}

func (w *outageWorld) end() {
	close(w.over)
	w.late.Wait()
}

func (w *outageWorld) now() time.Duration { return time.Hour + time.Since(w.start) }

func (w *outageWorld) do(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	revision := w.engine.Revision()
	change()
	if w.engine.Revision() != revision {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

func (w *outageWorld) between(from, to time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return from + time.Duration(w.random.Int64N(int64(to-from)+1))
}

func (w *outageWorld) chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faulty.Load() && w.random.Float64() < p
}

func (w *outageWorld) open(*testing.T) store.Store {
	l := &link{world: w, closed: make(chan struct{}), changed: make(chan struct{})}
	w.links = append(w.links, l)
	return l
}

// link is the connection of one node.
type link struct {
	world  *outageWorld
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	away    bool
	changed chan struct{}
}

var errLinkLost = errors.New("the connection was lost")

func (l *link) setAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
	close(l.changed)
	l.changed = make(chan struct{})
}

// travel is one way: it takes a moment, and as long as the store is away.
func (l *link) travel(ctx context.Context) error {
	wait := time.After(l.world.between(0, 20*time.Millisecond))
	for {
		l.mu.Lock()
		away, changed := l.away, l.changed
		l.mu.Unlock()
		if away {
			wait = nil
		} else if wait == nil {
			wait = time.After(l.world.between(0, time.Second)) // until it has connected again
		}
		select {
		case <-wait:
			return nil
		case <-changed:
		case <-l.closed:
			return store.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// call carries out a request, perhaps again later; its answer may get lost.
func (l *link) call(ctx context.Context, change func(now time.Duration)) error {
	if err := l.travel(ctx); err != nil {
		return err
	}
	l.world.do(func() { change(l.world.now()) })
	if l.world.chance(0.02) {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return l.travel(ctx)
}

// again carries out a change a second time, much later, as a network does that repeats.
func (l *link) again(change func(now time.Duration)) {
	if !l.world.chance(0.05) {
		return
	}
	at := time.After(l.world.between(0, 3*time.Second))
	l.world.late.Go(func() {
		select {
		case <-at:
			l.world.do(func() { change(l.world.now()) })
		case <-l.world.over:
		}
	})
}

func (l *link) Grant(ctx context.Context, ttl time.Duration) (lease store.Lease, err error) {
	grant := func(now time.Duration) { lease = l.world.engine.Grant(now, ttl) }
	l.again(func(now time.Duration) { l.world.engine.Grant(now, ttl) })
	return lease, l.call(ctx, grant)
}

func (l *link) Renew(ctx context.Context, lease store.Lease) error {
	exists := false
	err := l.call(ctx, func(now time.Duration) { exists = l.world.engine.Renew(now, lease) })
	if err == nil && !exists {
		return store.ErrLeaseGone
	}
	return err
}

func (l *link) Revoke(ctx context.Context, lease store.Lease) error {
	revoke := func(time.Duration) { l.world.engine.Revoke(lease) }
	l.again(revoke)
	return l.call(ctx, revoke)
}

func (l *link) Read(ctx context.Context, prefix string) (snapshot store.Snapshot, err error) {
	err = l.call(ctx, func(time.Duration) { snapshot = l.world.engine.Read(prefix) })
	return snapshot, err
}

func (l *link) Commit(ctx context.Context, txn store.Txn) (result store.Result, err error) {
	var refused error
	l.again(func(time.Duration) { _, _ = l.world.engine.Commit(txn) })
	if err = l.call(ctx, func(time.Duration) { result, refused = l.world.engine.Commit(txn) }); err == nil {
		err = refused
	}
	return result, err
}

// Watch waits until the store has confirmed it, as the client of etcd does.
func (l *link) Watch(ctx context.Context, prefix string, after int64) store.Watcher {
	return &linkWatcher{link: l, ctx: ctx, prefix: prefix, after: after, err: l.travel(ctx)}
}

func (l *link) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

type linkWatcher struct {
	link   *link
	ctx    context.Context
	prefix string
	after  int64
	err    error
}

func (w *linkWatcher) Next(ctx context.Context) (batch store.Batch, err error) {
	world := w.link.world
	for quiet := time.After(2 * time.Second); w.err == nil; {
		world.mu.Lock()
		changed := world.changed
		batch, w.err = world.engine.Since(w.prefix, w.after)
		world.mu.Unlock()
		if w.err == nil && len(batch.Events) == 0 {
			select {
			case <-changed:
				continue
			case <-quiet:
			case <-w.link.closed:
				w.err = store.ErrClosed
			case <-w.ctx.Done():
				w.err = context.Cause(w.ctx)
			case <-ctx.Done():
				return store.Batch{}, context.Cause(ctx)
			}
		}
		if w.err == nil {
			if err := w.link.travel(ctx); err != nil {
				return store.Batch{}, err
			}
			if world.chance(0.02) {
				w.err = errLinkLost
				break
			}
			w.after = batch.Revision
			return batch, nil
		}
	}
	return store.Batch{}, w.err
}

func (w *linkWatcher) Close() {}

package runner_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/internal/etcdtest"
	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/internal/runner"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/memory"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// board knows all servers of all nodes, and notices two lives of an exclusive name.
type board struct {
	mu      sync.Mutex
	alive   map[string]map[string]uint64 // name → node → epoch
	epochs  map[string]uint64
	faults  []string
	nodes   []*local
	changed chan struct{}
}

func newBoard() *board {
	return &board{alive: map[string]map[string]uint64{}, epochs: map[string]uint64{}, changed: make(chan struct{})}
}

func (b *board) change(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	close(b.changed)
	b.changed = make(chan struct{})
}

// wait waits until the servers are as they should be.
func (b *board) wait(t *testing.T, what string, holds func(alive map[string]map[string]uint64) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		b.mu.Lock()
		ok, changed, faults := holds(b.alive), b.changed, b.faults
		b.mu.Unlock()
		require.Empty(t, faults)
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			b.mu.Lock()
			defer b.mu.Unlock()
			require.Fail(t, "not within a minute: "+what, "%v", b.alive)
		}
	}
}

// placed: each of the names runs once, on one of the nodes.
func placed(names int, nodes ...string) func(map[string]map[string]uint64) bool {
	return func(alive map[string]map[string]uint64) bool {
		count := 0
		for _, on := range alive {
			for _, node := range nodes {
				if _, runs := on[node]; runs && len(on) == 1 {
					count++
				}
			}
		}
		return count == names
	}
}

// local are the servers of one node. They end at once, and, if they have a guard, at the deadline by
// themselves.
type local struct {
	*board
	id        string
	unguarded bool
	now       func() time.Duration
	lasts     func() time.Duration // the end of a server; nil: no time
	mu        sync.Mutex
	node      *runner.Runner
	timer     *time.Timer
	at        time.Duration
	runs      map[string]uint64
	only      map[string]bool // exclusive
	specs     map[string]records.Spec
	owner     map[string]string // as told; "" if its life has ended
}

func (l *local) Spec(name string, spec *records.Spec) {
	l.change(func() {
		if delete(l.specs, name); spec != nil {
			l.specs[name] = *spec
		}
	})
}

func (l *local) Gateway(json.RawMessage) {}

func (l *local) Place(name string, place placement.Place, owner *placement.Node) {
	l.change(func() {
		l.owner[name] = ""
		if owner != nil && !place.Released {
			l.owner[name] = owner.ID
		}
	})
}

func (l *local) Deadline(_ store.Lease, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = at
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.unguarded {
		return
	}
	if at == 0 {
		l.endExclusive()
		return
	}
	l.timer = time.AfterFunc(at-l.now(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.at == at {
			l.at = 0
			l.endExclusive()
		}
	})
}

func (l *local) endExclusive() {
	for name, epoch := range l.runs {
		if l.only[name] {
			l.finish(name, epoch)
		}
	}
}

func (l *local) Start(name string, epoch uint64, spec placement.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if spec.Exclusive && l.now() >= l.at {
		l.node.Ended(name, epoch)
		return
	}
	l.runs[name], l.only[name] = epoch, spec.Exclusive
	l.change(func() {
		if l.alive[name] == nil {
			l.alive[name] = map[string]uint64{}
		}
		if spec.Exclusive && len(l.alive[name]) > 0 {
			l.faults = append(l.faults, fmt.Sprintf("%s starts on %s beside %v", name, l.id, l.alive[name]))
		}
		if epoch <= l.epochs[name] {
			l.faults = append(l.faults, fmt.Sprintf("epoch %d of %s after %d", epoch, name, l.epochs[name]))
		}
		l.alive[name][l.id], l.epochs[name] = epoch, epoch
	})
}

func (l *local) Adopt(name string, epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[name] = epoch
	l.change(func() { l.alive[name][l.id], l.epochs[name] = epoch, epoch })
}

func (l *local) End(name string, epoch uint64, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(name, epoch)
}

// endAll ends all servers, as the end of a node does.
func (l *local) endAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, epoch := range l.runs {
		l.remove(name, epoch)
	}
}

// finish ends a server, which takes its time.
func (l *local) finish(name string, epoch uint64) {
	if l.lasts == nil {
		l.remove(name, epoch)
		return
	}
	time.AfterFunc(l.lasts(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remove(name, epoch)
	})
}

func (l *local) remove(name string, epoch uint64) {
	if l.runs[name] != epoch {
		return
	}
	delete(l.runs, name)
	l.change(func() { delete(l.alive[name], l.id) })
	l.node.Ended(name, epoch)
}

// fleet are nodes of one process, each with a connection of its own.
type fleet struct {
	t     *testing.T
	board *board
	ttl   time.Duration
	open  func(t *testing.T) store.Store
	// clock is nil for that of the machine.
	clock     *clock
	unguarded bool
	lasts     func() time.Duration
}

type clock struct{ now func() time.Duration }

var realClock = clock{boottime.Now}

func (f *fleet) join(id string) (node *runner.Runner, stop func() error) {
	s := f.open(f.t)
	l := &local{board: f.board, id: id, unguarded: f.unguarded, now: cmp.Or(f.clock, &realClock).now, lasts: f.lasts, runs: map[string]uint64{}, only: map[string]bool{}, specs: map[string]records.Spec{}, owner: map[string]string{}}
	f.board.change(func() { f.board.nodes = append(f.board.nodes, l) })
	node = runner.New(protocol.Config{
		Node: placement.Node{ID: id}, TTL: f.ttl, Placement: placement.Policy{Settle: 200 * time.Millisecond, Step: 200 * time.Millisecond},
	}, s, l)
	node.SetClock(l.now)
	l.node = node
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		_ = s.Close()
		return err
	})
	f.t.Cleanup(func() { _ = stop() })
	return node, stop
}

// known: the nodes were told of all names, and where each runs.
func (f *fleet) known(names int, nodes ...string) func(map[string]map[string]uint64) bool {
	return func(alive map[string]map[string]uint64) bool {
		know := 0
		for _, l := range f.board.nodes {
			right := len(l.specs) == names && slices.Contains(nodes, l.id)
			for name, on := range alive {
				if _, runs := on[l.owner[name]]; !runs {
					right = false
				}
			}
			if right {
				know++
			}
		}
		return know == len(nodes)
	}
}

func (f *fleet) specs(names int) {
	s := f.open(f.t)
	for i := range names {
		value := records.Encode(records.Spec{Spec: placement.Spec{Exclusive: i%2 == 0}}, nil)
		_, err := s.Commit(f.t.Context(), store.Txn{Then: []store.Change{store.Put(records.SpecKey(fmt.Sprint("server", i)), value)}})
		require.NoError(f.t, err)
	}
}

// shared is a store that its users do not close.
type shared struct{ store.Store }

func (shared) Close() error { return nil }

// TestRunner: three nodes share names; one of them drains, one ends, one leaves.
func TestRunner(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) func(t *testing.T) store.Store{
		"memory": func(t *testing.T) func(t *testing.T) store.Store {
			s := memory.New()
			t.Cleanup(func() { _ = s.Close() })
			return func(*testing.T) store.Store { return shared{s} }
		},
		"etcd": func(t *testing.T) func(t *testing.T) store.Store {
			return openEtcd(etcdtest.Start(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fleet{t: t, board: newBoard(), ttl: 2 * time.Second, open: open(t)}
			const names = 30
			f.specs(names)
			a, _ := f.join("a")
			_, stopB := f.join("b")
			c, stopC := f.join("c")
			f.board.wait(t, "all names run", placed(names, "a", "b", "c"))

			f.board.wait(t, "all nodes know where", f.known(names, "a", "b", "c"))
			snapshot, err := a.Snapshot(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, snapshot.Nodes)
			require.Len(t, snapshot.Names, names)

			a.Drain()
			<-a.Drained()
			f.board.wait(t, "a has drained", placed(names, "b", "c"))
			require.ErrorIs(t, stopB(), context.Canceled)
			f.board.change(func() { // its shared servers end with it
				for _, on := range f.board.alive {
					delete(on, "b")
				}
			})
			f.board.wait(t, "b has ended", placed(names, "c"))
			d, _ := f.join("d")
			c.Leave()
			f.board.wait(t, "c has left", placed(names, "d"))
			require.NoError(t, stopC())
			d.Leave()
			f.board.wait(t, "all have left", placed(0))
			<-d.Done()
			snapshot, err = d.Snapshot(t.Context())
			require.NoError(t, err)
			require.Equal(t, protocol.StateLeft, snapshot.State)
		})
	}
}

func openEtcd(server *etcdtest.Member) func(t *testing.T) store.Store {
	return func(t *testing.T) store.Store {
		t.Helper()
		s, err := etcd.Open(etcd.Config{Endpoints: []string{server.Endpoint}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

// TestRunner_storeAway: without a store exclusive servers end, others keep running; when it is
// back, all run again, the others without a restart.
func TestRunner_storeAway(t *testing.T) {
	server := etcdtest.Start(t)
	f := &fleet{t: t, board: newBoard(), ttl: 2 * time.Second, open: openEtcd(server)}
	const names = 10
	f.specs(names)
	f.join("a")
	f.join("b")
	f.board.wait(t, "all names run", placed(names, "a", "b"))
	server.Kill()
	f.board.wait(t, "exclusive servers end", placed(names/2, "a", "b"))
	server.Run(t)
	f.board.wait(t, "all names run again", placed(names, "a", "b"))
}

// TestRunner_fence: a node without a guard ends its exclusive servers, and has others under another
// life. Shared ones keep running.
func TestRunner_fence(t *testing.T) {
	s := memory.New()
	t.Cleanup(func() { _ = s.Close() })
	f := &fleet{t: t, board: newBoard(), ttl: 2 * time.Second, open: func(*testing.T) store.Store { return shared{s} }}
	const names = 6
	f.specs(names)
	a, _ := f.join("a")
	f.board.wait(t, "all names run", placed(names, "a"))
	before, err := a.Snapshot(t.Context())
	require.NoError(t, err)
	a.Fence()
	f.board.wait(t, "all have another epoch", func(alive map[string]map[string]uint64) bool {
		for _, name := range before.Names {
			if alive[name.Name]["a"] <= name.Epoch {
				return false
			}
		}
		return true
	})
	after, err := a.Snapshot(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, before.Life, after.Life)
}

// awayStore is a store that can be away, without an answer to anything.
type awayStore struct {
	store.Store
	mu      sync.Mutex
	away    bool
	refused int // revocations while it was away
	revoked chan store.Lease
}

func (s *awayStore) reach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("the store is away")
	}
	return nil
}

func (s *awayStore) Renew(ctx context.Context, lease store.Lease) error {
	return cmp.Or(s.reach(), s.Store.Renew(ctx, lease))
}

func (s *awayStore) Grant(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	return s.Store.Grant(ctx, ttl)
}

func (s *awayStore) Revoke(ctx context.Context, lease store.Lease) error {
	if err := s.reach(); err != nil {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		return err
	}
	s.revoked <- lease
	return s.Store.Revoke(ctx, lease)
}

// TestRunner_revokes: a node gives a lease back however long the store was away, because that lets
// leases live for longer than their TTL when it returns.
func TestRunner_revokes(t *testing.T) {
	s := &awayStore{Store: memory.New(), revoked: make(chan store.Lease, 1)}
	defer func() { require.NoError(t, s.Store.Close()) }()
	f := &fleet{t: t, board: newBoard(), ttl: time.Second, open: func(*testing.T) store.Store { return shared{s} }}
	f.specs(2)
	f.join("a")
	f.board.wait(t, "all names run", placed(2, "a"))
	s.mu.Lock()
	s.away = true
	s.mu.Unlock()
	// More attempts than fit into the time of one request.
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.refused > 30
	}, time.Minute, 10*time.Millisecond)
	s.mu.Lock()
	s.away = false
	s.mu.Unlock()
	select {
	case <-s.revoked:
	case <-time.After(time.Minute):
		require.Fail(t, "the lease was not given back")
	}
	f.board.wait(t, "all names run again", placed(2, "a"))
}

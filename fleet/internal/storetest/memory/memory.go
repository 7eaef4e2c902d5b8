// Package memory is a store of a fleet in this process, for tests. It behaves as etcd does, leases,
// compaction and lost connections included.
package memory

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/kv"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// progressEvery is how often a watch reports that nothing has changed.
const progressEvery = 2 * time.Second

// Store is a [store.Store] in memory.
type Store struct {
	mu     sync.Mutex
	engine *kv.Engine
	closed bool
	timer  *time.Timer // ends leases
	// changed is closed and replaced with every change that a watch or a call may wait for.
	changed chan struct{}
	away    bool
	cut     int // how often Disconnect was called
}

// New makes an empty store.
func New() *Store {
	s := &Store{engine: kv.New(), changed: make(chan struct{})}
	s.timer = time.AfterFunc(math.MaxInt64, s.expire)
	return s
}

var _ store.Store = (*Store)(nil)

var errDisconnected = errors.New("the connection to the store was lost")

// do runs a change of the engine when the store can be reached.
func (s *Store) do(ctx context.Context, change func(now time.Duration)) error {
	for {
		s.mu.Lock()
		if s.closed || !s.away || ctx.Err() != nil {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	revision, now := s.engine.Revision(), boottime.Now()
	s.engine.Expire(now)
	change(now)
	if s.engine.Revision() != revision {
		s.wake()
	}
	s.arm(now)
	return nil
}

// wake and arm need the lock.
func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) arm(now time.Duration) {
	if at, ok := s.engine.NextExpiry(); ok {
		s.timer.Reset(at - now)
	}
}

func (s *Store) expire() { _ = s.do(context.Background(), func(time.Duration) {}) }

// Grant makes a lease.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (lease store.Lease, err error) {
	err = s.do(ctx, func(now time.Duration) { lease = s.engine.Grant(now, ttl) })
	return lease, err
}

// Renew renews a lease.
func (s *Store) Renew(ctx context.Context, lease store.Lease) error {
	exists := false
	err := s.do(ctx, func(now time.Duration) { exists = s.engine.Renew(now, lease) })
	if err == nil && !exists {
		return store.ErrLeaseGone
	}
	return err
}

// Revoke ends a lease.
func (s *Store) Revoke(ctx context.Context, lease store.Lease) error {
	return s.do(ctx, func(time.Duration) { s.engine.Revoke(lease) })
}

// Read returns the pairs below a prefix.
func (s *Store) Read(ctx context.Context, prefix string) (snapshot store.Snapshot, err error) {
	err = s.do(ctx, func(time.Duration) { snapshot = s.engine.Read(prefix) })
	return snapshot, err
}

// Commit carries out a transaction.
func (s *Store) Commit(ctx context.Context, txn store.Txn) (result store.Result, err error) {
	var refused error
	if err = s.do(ctx, func(time.Duration) { result, refused = s.engine.Commit(txn) }); err == nil {
		err = refused
	}
	return result, err
}

// Watch yields what changes below a prefix after a revision.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) store.Watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &watcher{ctx: ctx, store: s, prefix: prefix, after: after, cut: s.cut}
}

// Close ends watches and calls.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.timer.Stop()
		s.wake()
	}
	return nil
}

// Compact forgets the events up to a revision. For tests.
func (s *Store) Compact(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine.Compact(revision)
}

// Disconnect ends all watches as a lost connection does. For tests.
func (s *Store) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut++
	s.wake()
}

// SetAway lets the store answer no request, and then again. Leases end meanwhile. For tests.
func (s *Store) SetAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	s.wake()
}

type watcher struct {
	ctx    context.Context // of the watch
	store  *Store
	prefix string
	after  int64
	cut    int
	err    error
}

// Next waits for the next batch.
func (w *watcher) Next(ctx context.Context) (store.Batch, error) {
	progress := time.NewTimer(progressEvery)
	defer progress.Stop()
	for quiet := false; w.err == nil; {
		batch, changed := w.look(quiet)
		if w.err != nil || changed == nil {
			return batch, w.err
		}
		select {
		case <-changed:
		case <-progress.C:
			quiet = true
		case <-w.ctx.Done():
			w.err = context.Cause(w.ctx)
		case <-ctx.Done():
			return store.Batch{}, context.Cause(ctx)
		}
	}
	return store.Batch{}, w.err
}

// look returns a batch, or a channel that is closed when to look again.
func (w *watcher) look(quiet bool) (store.Batch, <-chan struct{}) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		w.err = store.ErrClosed
	case w.cut != s.cut:
		w.err = errDisconnected
	case s.away:
		return store.Batch{}, s.changed
	default:
		batch, err := s.engine.Since(w.prefix, w.after)
		if w.err = err; err != nil {
			break
		}
		w.after = batch.Revision
		if len(batch.Events) == 0 && !quiet {
			return store.Batch{}, s.changed
		}
		return batch, nil
	}
	return store.Batch{}, nil
}

// Close gives the watch back.
func (w *watcher) Close() { w.err = store.ErrClosed }

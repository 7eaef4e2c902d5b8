// Package storetest has the tests that every store of a fleet passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Subject is a store, and what the tests do to it.
type Subject struct {
	Store store.Store
	// Compact forgets the events up to a revision.
	Compact func(revision int64)
	// Away breaks the connection to the store, whose database stays away until back, which returns when it
	// can be reached again.
	Away func() (back func())
}

// Run tests the stores that open makes. All may share one database: each test has keys of its own.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	run := func(t *testing.T, test func(t *testing.T, s Subject)) {
		s := open(t)
		t.Cleanup(func() { _ = s.Store.Close() })
		test(t, s)
	}
	// Alone, because they disturb others.
	t.Run("a lost connection", func(t *testing.T) { run(t, testInterrupt) })
	t.Run("the store is away", func(t *testing.T) { testAway(t, open) })
	t.Run("compaction", func(t *testing.T) { run(t, testCompaction) })
	for name, test := range map[string]func(t *testing.T, s Subject){
		"conditions":                testConditions,
		"a snapshot is sorted":      testSnapshot,
		"a lease ends":              testLeaseEnds,
		"a renewed lease lives":     testRenewal,
		"revoke":                    testRevoke,
		"a key changes its lease":   testLeaseOfKey,
		"a put with a dead lease":   testDeadLease,
		"a watch has no gap":        testWatch,
		"a watch says it is alive":  testProgress,
		"one of many commits holds": testRace,
		"contexts and close":        testEnds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, test)
		})
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func commit(t *testing.T, s store.Store, txn store.Txn) store.Result {
	t.Helper()
	result, err := s.Commit(testContext(t), txn)
	require.NoError(t, err)
	return result
}

func put(t *testing.T, s store.Store, key, value string) int64 {
	t.Helper()
	result := commit(t, s, store.Txn{Then: []store.Change{store.Put(key, []byte(value))}})
	require.True(t, result.OK)
	return result.Revision
}

func read(t *testing.T, s store.Store, prefix string) store.Snapshot {
	t.Helper()
	snapshot, err := s.Read(testContext(t), prefix)
	require.NoError(t, err)
	return snapshot
}

func values(snapshot store.Snapshot) map[string]string {
	values := map[string]string{}
	for _, pair := range snapshot.Pairs {
		values[pair.Key] = string(pair.Value)
	}
	return values
}

func testConditions(t *testing.T, s Subject) {
	first := put(t, s.Store, "conditions/a", "1")
	for _, c := range []struct {
		condition store.Condition
		holds     bool
	}{
		{store.Present("conditions/a"), true},
		{store.Present("conditions/none"), false},
		{store.Absent("conditions/a"), false},
		{store.Absent("conditions/none"), true},
		{store.Unchanged("conditions/a", first), true},
		{store.Unchanged("conditions/a", first-1), false},
		{store.Unchanged("conditions/none", first), false},
	} {
		result := commit(t, s.Store, store.Txn{
			If:   []store.Condition{store.Present("conditions/a"), c.condition},
			Then: []store.Change{store.Put("conditions/b", []byte("2"))},
		})
		require.Equal(t, c.holds, result.OK, "%+v", c.condition)
		if !c.holds {
			require.NotEmpty(t, result.Current)
			require.Equal(t, store.Pair{Key: "conditions/a", Value: []byte("1"), Revision: first}, result.Current[0])
		}
	}

	before := read(t, s.Store, "conditions/")
	result := commit(t, s.Store, store.Txn{Then: []store.Change{store.Put("conditions/c", []byte("3")), store.Remove("conditions/b"), store.Remove("conditions/none")}})
	after := read(t, s.Store, "conditions/")
	require.Equal(t, map[string]string{"conditions/a": "1", "conditions/c": "3"}, values(after), "all changes, or none")
	require.Greater(t, result.Revision, before.Revision)
	require.Equal(t, result.Revision, after.Pairs[1].Revision)
	require.Equal(t, first, after.Pairs[0].Revision, "a key that was not changed keeps its revision")
}

func testSnapshot(t *testing.T, s Subject) {
	for _, key := range []string{"snapshot/b", "snapshot/a/1", "snapshot/c", "snapshot"} {
		put(t, s.Store, key, key)
	}
	snapshot := read(t, s.Store, "snapshot/")
	require.Len(t, snapshot.Pairs, 3)
	for i, key := range []string{"snapshot/a/1", "snapshot/b", "snapshot/c"} {
		require.Equal(t, key, snapshot.Pairs[i].Key)
		require.Equal(t, key, string(snapshot.Pairs[i].Value))
	}
	require.Empty(t, read(t, s.Store, "snapshot/none").Pairs)
}

// shortest is the shortest lease that etcd gives: it counts in seconds, and not below its election.
const shortest = time.Second

func leased(t *testing.T, s store.Store, key string, ttl time.Duration) store.Lease {
	t.Helper()
	lease, err := s.Grant(testContext(t), ttl)
	require.NoError(t, err)
	result := commit(t, s, store.Txn{Then: []store.Change{store.PutLeased(key, []byte("leased"), lease)}})
	require.True(t, result.OK)
	require.Equal(t, lease, read(t, s, key).Pairs[0].Lease)
	return lease
}

// next returns the next batch with events.
func next(t *testing.T, w store.Watcher) store.Batch {
	t.Helper()
	for {
		batch, err := w.Next(testContext(t))
		require.NoError(t, err)
		if len(batch.Events) > 0 {
			return batch
		}
	}
}

func testLeaseEnds(t *testing.T, s Subject) {
	from := read(t, s.Store, "").Revision
	begin := time.Now()
	lease := leased(t, s.Store, "ends/a", shortest)
	w := s.Store.Watch(t.Context(), "ends/", from)
	defer w.Close()
	require.False(t, next(t, w).Events[0].Removed)
	event := next(t, w).Events[0]
	require.GreaterOrEqual(t, time.Since(begin), shortest, "a lease does not end before its time")
	require.True(t, event.Removed)
	require.Equal(t, "ends/a", event.Pair.Key)
	require.Greater(t, event.Pair.Revision, from)
	require.Empty(t, event.Pair.Value)
	require.Empty(t, read(t, s.Store, "ends/").Pairs)
	require.ErrorIs(t, s.Store.Renew(testContext(t), lease), store.ErrLeaseGone)
}

func testRenewal(t *testing.T, s Subject) {
	const ttl = 2 * time.Second
	lease := leased(t, s.Store, "renewal/a", ttl)
	for begin := time.Now(); time.Since(begin) < 2*ttl; {
		sent := time.Now()
		if err := s.Store.Renew(testContext(t), lease); err != nil {
			require.ErrorIs(t, err, store.ErrLeaseGone)
			t.Skip("the machine is too busy to renew a lease in time")
		}
		if pairs := read(t, s.Store, "renewal/").Pairs; time.Since(sent) < ttl {
			require.NotEmpty(t, pairs)
		}
	}
}

func testRevoke(t *testing.T, s Subject) {
	from := read(t, s.Store, "").Revision
	lease := leased(t, s.Store, "revoke/a", time.Minute)
	put := store.PutLeased("revoke/b", nil, lease)
	require.True(t, commit(t, s.Store, store.Txn{Then: []store.Change{put}}).OK)
	require.NoError(t, s.Store.Revoke(testContext(t), lease))
	require.Empty(t, read(t, s.Store, "revoke/").Pairs)
	require.NoError(t, s.Store.Revoke(testContext(t), lease), "a lease that is gone")
	require.ErrorIs(t, s.Store.Renew(testContext(t), lease), store.ErrLeaseGone)

	w := s.Store.Watch(t.Context(), "revoke/", from)
	defer w.Close()
	removed := map[int64]int{}
	for n := 0; n < 4; {
		for _, event := range next(t, w).Events {
			if n++; event.Removed {
				removed[event.Pair.Revision]++
			}
		}
	}
	require.Len(t, removed, 1, "all keys of a lease go in one revision")

	other, err := s.Store.Grant(testContext(t), time.Minute)
	require.NoError(t, err)
	require.NotEqual(t, lease, other)
}

func testLeaseOfKey(t *testing.T, s Subject) {
	lease := leased(t, s.Store, "owner/a", time.Minute)
	put(t, s.Store, "owner/a", "free")
	require.NoError(t, s.Store.Revoke(testContext(t), lease))
	require.Equal(t, map[string]string{"owner/a": "free"}, values(read(t, s.Store, "owner/")))
}

func testDeadLease(t *testing.T, s Subject) {
	lease, err := s.Store.Grant(testContext(t), time.Minute)
	require.NoError(t, err)
	require.NoError(t, s.Store.Revoke(testContext(t), lease))
	txn := store.Txn{Then: []store.Change{store.Put("dead/a", nil), store.PutLeased("dead/b", nil, lease)}}
	_, err = s.Store.Commit(testContext(t), txn)
	require.ErrorIs(t, err, store.ErrLeaseGone)
	require.Empty(t, read(t, s.Store, "dead/").Pairs, "nothing was changed")
}

func testWatch(t *testing.T, s Subject) {
	put(t, s.Store, "watch/old", "0")
	snapshot := read(t, s.Store, "watch/")
	state := values(snapshot)
	const writes = 200
	go func() {
		for i := range writes {
			key := fmt.Sprint("watch/", i%7)
			change := store.Put(key, []byte(fmt.Sprint(i)))
			if i%5 == 4 {
				change = store.Remove(key)
			}
			_, _ = s.Store.Commit(context.Background(), store.Txn{Then: []store.Change{change, store.Put("watch/last", []byte(fmt.Sprint(i)))}})
		}
	}()
	w := s.Store.Watch(t.Context(), "watch/", snapshot.Revision)
	defer func() { w.Close() }()
	last := snapshot.Revision
	for batches := 0; state["watch/last"] != fmt.Sprint(writes-1); batches++ {
		batch := next(t, w)
		for _, event := range batch.Events {
			require.Greater(t, event.Pair.Revision, last, "each revision is in one batch, and comes once")
			if event.Removed {
				delete(state, event.Pair.Key)
			} else {
				state[event.Pair.Key] = string(event.Pair.Value)
			}
		}
		last = batch.Revision
		if batches%10 == 9 { // from where it was
			w.Close()
			w = s.Store.Watch(t.Context(), "watch/", last)
		}
	}
	require.Equal(t, values(read(t, s.Store, "watch/")), state)
}

func testProgress(t *testing.T, s Subject) {
	revision := put(t, s.Store, "progress/a", "1")
	w := s.Store.Watch(t.Context(), "progress/", revision)
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
	batch, err := w.Next(testContext(t))
	require.NoError(t, err, "an error of the context leaves the watch as it is")
	require.Empty(t, batch.Events)
	require.GreaterOrEqual(t, batch.Revision, revision)
	put(t, s.Store, "progress/a", "2")
	require.Equal(t, "2", string(next(t, w).Events[0].Pair.Value))
}

func testCompaction(t *testing.T, s Subject) {
	first := put(t, s.Store, "compact/a", "1")
	put(t, s.Store, "compact/a", "2")
	last := put(t, s.Store, "compact/a", "3")
	s.Compact(last)
	w := s.Store.Watch(t.Context(), "compact/", first-1)
	defer w.Close()
	for {
		if _, err := w.Next(testContext(t)); err != nil {
			require.ErrorIs(t, err, store.ErrCompacted)
			break
		}
	}
	_, err := w.Next(testContext(t))
	require.Error(t, err, "the watch has ended")

	snapshot := read(t, s.Store, "compact/")
	require.Equal(t, map[string]string{"compact/a": "3"}, values(snapshot))
	again := s.Store.Watch(t.Context(), "compact/", snapshot.Revision)
	defer again.Close()
	put(t, s.Store, "compact/a", "4")
	require.Equal(t, "4", string(next(t, again).Events[0].Pair.Value))
}

func testInterrupt(t *testing.T, s Subject) {
	revision := put(t, s.Store, "interrupt/a", "1")
	lease := leased(t, s.Store, "interrupt/lease", time.Minute)
	w := s.Store.Watch(t.Context(), "interrupt/", revision)
	defer func() { w.Close() }()
	require.Equal(t, "interrupt/lease", next(t, w).Events[0].Pair.Key)
	s.Away()()
	put(t, s.Store, "interrupt/a", "2")
	require.NoError(t, s.Store.Renew(testContext(t), lease), "the lease has outlived the connection")
	// Either the watch continues, or it ends and another begins where it was.
	last := read(t, s.Store, "interrupt/lease").Pairs[0].Revision
	for {
		batch, err := w.Next(testContext(t))
		if err != nil {
			require.NotErrorIs(t, err, store.ErrCompacted)
			require.NoError(t, testContext(t).Err())
			w = s.Store.Watch(t.Context(), "interrupt/", last)
			continue
		}
		if len(batch.Events) > 0 {
			require.Equal(t, "2", string(batch.Events[0].Pair.Value))
			break
		}
	}
}

// testAway: while the store is away, each call ends with its context, a watch begins without it, and Close
// ends them all. A node whose one goroutine waited here would not notice that its lease ends.
func testAway(t *testing.T, open func(t *testing.T) Subject) {
	s, other := open(t), open(t)
	revision := put(t, s.Store, "away/a", "1")
	put(t, other.Store, "away/other", "1") // it is connected
	lease := leased(t, s.Store, "away/lease", time.Minute)
	one, two := s.Away(), other.Away()
	back := sync.OnceFunc(func() { one(); two() })
	defer back()
	returns := func(what string, f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			require.FailNow(t, what+" waits for a store that is away")
		}
	}
	for what, call := range map[string]func(ctx context.Context, s store.Store) error{
		"Grant":  func(ctx context.Context, s store.Store) error { _, err := s.Grant(ctx, time.Minute); return err },
		"Renew":  func(ctx context.Context, s store.Store) error { return s.Renew(ctx, lease) },
		"Revoke": func(ctx context.Context, s store.Store) error { return s.Revoke(ctx, lease) },
		"Read":   func(ctx context.Context, s store.Store) error { _, err := s.Read(ctx, "away/"); return err },
		"Commit": func(ctx context.Context, s store.Store) error { _, err := s.Commit(ctx, store.Txn{}); return err },
		"Next": func(ctx context.Context, s store.Store) error {
			w := s.Watch(t.Context(), "away/", revision)
			defer w.Close()
			for {
				if _, err := w.Next(ctx); err != nil {
					return err
				}
			}
		},
	} {
		returns(what, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := call(ctx, s.Store); err == nil || errors.Is(err, store.ErrLeaseGone) {
				t.Errorf("%s: the store is away, and it returns %v", what, err)
			}
		})
	}
	var w store.Watcher
	returns("Watch", func() {
		s.Store.Watch(t.Context(), "away/", revision).Close()
		w = s.Store.Watch(t.Context(), "away/", revision)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	returns("a watch whose context has ended", func() {
		_, err := s.Store.Watch(ctx, "away/", revision).Next(t.Context())
		require.Error(t, err)
	})
	ended := make(chan error, 1)
	returns("Close", func() {
		all := other.Store.Watch(t.Context(), "away/", revision)
		go func() {
			_, err := all.Next(context.Background())
			ended <- err
		}()
		require.NoError(t, other.Store.Close())
		require.ErrorIs(t, <-ended, store.ErrClosed)
	})
	back()
	defer w.Close()
	require.Equal(t, "away/lease", next(t, w).Events[0].Pair.Key)
	require.NoError(t, s.Store.Close())
}

func testRace(t *testing.T, s Subject) {
	const rivals = 20
	won := make(chan bool, rivals)
	for i := range rivals {
		go func() {
			result, err := s.Store.Commit(context.Background(), store.Txn{
				If:   []store.Condition{store.Absent("race/a")},
				Then: []store.Change{store.Put("race/a", []byte(fmt.Sprint(i)))},
			})
			won <- err == nil && result.OK
		}()
	}
	winners := 0
	for range rivals {
		if <-won {
			winners++
		}
	}
	require.Equal(t, 1, winners)
}

func testEnds(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Store.Read(ctx, "ends")
	require.Error(t, err)
	_, err = s.Store.Commit(ctx, store.Txn{Then: []store.Change{store.Put("contexts/a", nil)}})
	require.Error(t, err)

	w := s.Store.Watch(t.Context(), "contexts/", read(t, s.Store, "").Revision)
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := w.Next(context.Background()); err != nil {
				ended <- err
				return
			}
		}
	}()
	require.NoError(t, s.Store.Close())
	require.ErrorIs(t, <-ended, store.ErrClosed)
	_, err = s.Store.Grant(t.Context(), time.Minute)
	require.Error(t, err)
	require.False(t, errors.Is(err, store.ErrLeaseGone))
}

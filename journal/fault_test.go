package journal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/mcpvisor/mcpvisor"
)

// fill puts so many entries.
func fill(t *testing.T, j *Journal, n int, arguments []byte) {
	t.Helper()
	var wg sync.WaitGroup
	for from := range 50 {
		wg.Go(func() {
			for i := from; i < n; i += 50 {
				e := sent(fmt.Sprintf("fill-%d", i), time.Now())
				e.Arguments = arguments
				require.NoError(t, j.Put(t.Context(), e))
			}
		})
	}
	wg.Wait()
}

// A file that is cut, replaced or removed while it is open costs the calls with a key, and not the
// process. Nothing more is written, also when the file is back.
func TestJournal_file_changed_while_open(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"emptied":       func(path string) error { return os.Truncate(path, 0) },
		"copytruncate":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"cut by a page": func(path string) error { return cutBy(path, int64(os.Getpagesize())) },
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".other", bytes.Repeat([]byte("x"), 10<<20), 0o600); err != nil {
				return err
			}
			return os.Rename(path+".other", path)
		},
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := tempFile(t)
			j := openTest(t, path, Options{})
			fill(t, j, 500, bytes.Repeat([]byte(" "), 1000))
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, change(path))
			changed, _ := os.ReadFile(path)
			_, _, err = j.Get(t.Context(), mcpvisor.JournalKey{Key: "fill-7"})
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, "while it was open")
			_, err = j.Entries(t.Context())
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorIs(t, j.Put(t.Context(), sent("new", time.Now())), ErrDamaged)
			require.ErrorIs(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "fill-7"}), ErrDamaged)
			after, _ := os.ReadFile(path)
			require.Equal(t, changed, after, "nothing is written")
			require.NoError(t, os.WriteFile(path, whole, 0o600))
			require.ErrorIs(t, j.Put(t.Context(), sent("new", time.Now())), ErrDamaged)
			require.NoError(t, j.Close())
		})
	}
}

func cutBy(path string, n int64) error {
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-n)
	}
	return err
}

// A file that is cut between the comparison and the transaction is a fault in the memory that it is
// mapped to: of a read, and of the writer.
func TestJournal_file_cut_in_a_transaction(t *testing.T) {
	for _, write := range []bool{false, true} {
		t.Run(fmt.Sprintf("write %t", write), func(t *testing.T) {
			path := tempFile(t)
			j := openTest(t, path, Options{})
			fill(t, j, 500, bytes.Repeat([]byte(" "), 1000))
			cut := func(tx *bolt.Tx) error {
				require.NoError(t, os.Truncate(path, 0))
				return tx.Bucket(callsBucket).ForEach(func(_, value []byte) error { _ = stampOf(value); return nil })
			}
			if write {
				now := j.opts.now
				j.opts.now = func() time.Time { // in the transaction of the next Put
					require.NoError(t, os.Truncate(path, 0))
					return now()
				}
				require.ErrorIs(t, j.Put(t.Context(), sent("new", now())), ErrDamaged)
			} else {
				require.ErrorIs(t, j.transact(func() error { return j.db.View(cut) }), ErrDamaged)
			}
			_, _, err := j.Get(t.Context(), mcpvisor.JournalKey{Key: "fill-7"})
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorIs(t, j.Put(t.Context(), sent("new", time.Now())), ErrDamaged)
			require.NoError(t, j.Close())
		})
	}
}

// A full journal refuses new keys without a look at its entries, and without a transaction. The ends of
// calls are stored.
func TestJournal_full_refuses_at_once(t *testing.T) {
	const n = 400
	c := &clock{at: start}
	j := openTest(t, tempFile(t), c.options(Options{MaxEntries: n, Retention: time.Hour}))
	fill(t, j, n/2, nil)
	c.pass(time.Minute)
	for i := range n / 2 {
		require.NoError(t, j.Put(t.Context(), sent(fmt.Sprint(i), c.now())))
	}
	transactions := func() int {
		id := 0
		require.NoError(t, j.db.View(func(tx *bolt.Tx) error { id = tx.ID(); return nil }))
		return id
	}
	for i := range 1000 {
		require.ErrorContains(t, j.Put(t.Context(), sent(fmt.Sprint("new", i), c.now())), "is full: 400 entries (at most 400)")
	}
	require.Less(t, transactions(), n+10, "1000 refusals took at most a few transactions")
	require.NoError(t, j.Close())
	require.LessOrEqual(t, j.looked, 2*n+swept*(n+10))

	j = openTest(t, j.path, c.options(Options{MaxEntries: n, Retention: time.Hour}))
	require.Error(t, j.Put(t.Context(), sent("new", c.now())))
	// Ends that make no room, and keys that were never stored, cost no sweep, either.
	for i := range 200 {
		e := sent("fill-0", c.now())
		e.State = mcpvisor.JournalEnded
		require.NoError(t, j.Put(t.Context(), e))
		require.Error(t, j.Put(t.Context(), sent(fmt.Sprint("new", i), c.now())))
		require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: fmt.Sprint("new", i)}))
	}
	// There is room as soon as the first entries expire, and when one is removed.
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "fill-1"}))
	require.NoError(t, j.Put(t.Context(), sent("new", c.now())))
	require.Error(t, j.Put(t.Context(), sent("newer", c.now())))
	c.pass(59*time.Minute + 2*time.Second)
	require.NoError(t, j.Put(t.Context(), sent("newest", c.now())))
	require.NoError(t, j.Close())
	require.Less(t, j.looked, 3*n+swept*410)
	require.Equal(t, n/2+3, j.entries)
}

// busy makes the writer of a journal wait in its next transaction until free is called.
func busy(t *testing.T, j *Journal) (free func()) {
	t.Helper()
	began, release := make(chan struct{}), make(chan struct{})
	now := j.opts.now
	j.opts.now = sync.OnceValue(func() time.Time { close(began); <-release; return now() })
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, j.Put(t.Context(), sent("first", now()))) })
	<-began
	return func() { close(release); wg.Wait() }
}

// Where there is room for one of them only, the end of a call is stored, and the new key is refused.
func TestJournal_ends_go_first(t *testing.T) {
	j := openTest(t, tempFile(t), Options{MaxBytes: 4000})
	require.NoError(t, j.Put(t.Context(), sent("old", time.Now())))
	free := busy(t, j)
	var wg sync.WaitGroup
	wg.Go(func() {
		e := sent("new", time.Now())
		e.Arguments = bytes.Repeat([]byte("1"), 2000)
		require.ErrorIs(t, j.Put(t.Context(), e), mcpvisor.ErrJournalFull)
	})
	require.Eventually(t, func() bool { return len(j.fresh) == 1 }, time.Minute, time.Millisecond)
	wg.Go(func() {
		e := sent("old", time.Now())
		e.State, e.Result = mcpvisor.JournalEnded, bytes.Repeat([]byte("1"), 2000)
		require.NoError(t, j.Put(t.Context(), e))
	})
	require.Eventually(t, func() bool { return len(j.ends) == 1 }, time.Minute, time.Millisecond)
	free()
	wg.Wait()
	e, ok := get(t, j, "old")
	require.True(t, ok)
	require.Len(t, e.Result, 2000)
}

// The end of a call is written although its caller has left.
func TestJournal_end_of_a_caller_who_left(t *testing.T) {
	j := openTest(t, tempFile(t), Options{})
	free := busy(t, j)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	e := sent("left", time.Now())
	e.State = mcpvisor.JournalEnded
	go func() { left <- j.Put(ctx, e) }()
	require.Eventually(t, func() bool { return len(j.ends) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	free()
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "first"})) // behind it
	_, ok := get(t, j, "left")
	require.True(t, ok)
}

// The entry of a key that is held is renewed, so that the next host finds it.
func TestJournal_renews_held_keys(t *testing.T) {
	c, path := &clock{at: start}, tempFile(t)
	j := openTest(t, path, c.options(Options{Retention: 20 * time.Millisecond}))
	require.NoError(t, j.Put(t.Context(), sent("held", c.now())))
	require.NoError(t, j.Put(t.Context(), sent("other", c.now())))
	defer j.Hold(mcpvisor.JournalKey{Key: "held"})()
	c.pass(15 * time.Millisecond)
	stamped := func(key string) (at time.Time) {
		require.NoError(t, j.view(t.Context(), func(tx *bolt.Tx) error {
			at = stampOf(tx.Bucket(callsBucket).Get(encodeKey(mcpvisor.JournalKey{Key: key}))).at
			return nil
		}))
		return at
	}
	require.Eventually(t, func() bool { return stamped("held").After(stamped("other")) }, time.Minute, time.Millisecond)
	require.NoError(t, j.Close())
	c.pass(15 * time.Millisecond)
	j = openTest(t, path, c.options(Options{Retention: 20 * time.Millisecond}))
	_, ok := get(t, j, "held")
	require.True(t, ok)
	_, ok = get(t, j, "other")
	require.False(t, ok)
}

// The change of a caller who has left is not made behind a later one of the same key.
func TestJournal_abandoned_write(t *testing.T) {
	j := openTest(t, tempFile(t), Options{})
	free := busy(t, j)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- j.Put(ctx, sent("left", time.Now())) }()
	require.Eventually(t, func() bool { return len(j.fresh) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	wg.Go(func() { require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "left"})) })
	require.Eventually(t, func() bool { return len(j.ends) == 1 }, time.Minute, time.Millisecond)
	free()
	wg.Wait()
	_, ok := get(t, j, "left")
	require.False(t, ok)
}

// A failed transaction leaves no trace: neither in the entries nor in what is counted.
func TestJournal_failed_commit_restores_counts(t *testing.T) {
	j := openTest(t, tempFile(t), Options{MaxEntries: 12})
	fill(t, j, 10, nil)
	require.NoError(t, j.Put(t.Context(), sent("size", time.Now())))
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "size"}))
	bad := &write{key: "", value: make([]byte, 100), done: make(chan struct{})} // the database refuses the key
	good := &write{key: "good", value: bytes.Clone(record1(t)), done: make(chan struct{})}
	gone := &write{key: string(encodeKey(mcpvisor.JournalKey{Key: "fill-1"})), done: make(chan struct{})}
	entries, size := j.entries, j.size
	j.commit([]*write{good, gone, bad}) // the writer is idle
	for _, w := range []*write{good, gone, bad} {
		require.ErrorContains(t, w.result, "write the journal")
	}
	require.Equal(t, entries, j.entries)
	require.Equal(t, size, j.size)
	_, ok := get(t, j, "fill-1")
	require.True(t, ok)
}

func record1(t *testing.T) []byte {
	t.Helper()
	b, err := encode(sent("good", time.Now()))
	require.NoError(t, err)
	return b
}

// shrink makes a journal large, and empty again, so that it is compacted.
func shrink(t *testing.T, j *Journal) {
	t.Helper()
	fill(t, j, 300, bytes.Repeat([]byte(" "), 100_000))
	for i := range 300 {
		require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: fmt.Sprintf("fill-%d", i)}))
	}
}

// A journal that was large writes no more with each change than one that was not, and its file is
// small again. What was written survives the end of the machine, before and after the compaction: the database makes
// each transaction durable.
func TestJournal_after_growth(t *testing.T) {
	path := tempFile(t)
	j := openTest(t, path, Options{})
	require.NoError(t, j.Put(t.Context(), sent("kept", time.Now())))
	require.False(t, j.db.NoSync || j.db.NoFreelistSync)
	shrink(t, j)
	require.False(t, j.db.NoSync || j.db.NoFreelistSync)
	require.NoError(t, j.Put(t.Context(), sent("next", time.Now()))) // the journal is compacted after the answer to a change
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(3*minFree))
	before := j.db.Stats()
	for i := range 20 {
		require.NoError(t, j.Put(t.Context(), sent(fmt.Sprint(i), time.Now())))
	}
	after := j.db.Stats()
	wrote := after.Sub(&before)
	require.Less(t, wrote.TxStats.GetPageAlloc()/20, int64(64<<10), "bytes that a small change writes")
	_, ok := get(t, j, "kept")
	require.True(t, ok)
	require.NoError(t, j.Close())
	j = openTest(t, path, Options{})
	require.Equal(t, 22, j.entries)
	_, err = os.Stat(path + ".compact")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A result is kept if what has expired makes room for it.
func TestJournal_result_beside_expired_entries(t *testing.T) {
	c := &clock{at: start}
	j := openTest(t, tempFile(t), c.options(Options{MaxBytes: 1 << 20, Retention: time.Hour}))
	fill(t, j, 900, bytes.Repeat([]byte(" "), 900))
	c.pass(2 * time.Hour)
	require.NoError(t, j.Put(t.Context(), sent("k", c.now())))
	e := sent("k", c.now())
	e.State, e.Result = mcpvisor.JournalEnded, []byte(`"`+strings.Repeat("x", 300_000)+`"`)
	require.NoError(t, j.Put(t.Context(), e))
	got, ok := get(t, j, "k")
	require.True(t, ok)
	require.Len(t, got.Result, 300_002)
}

// An entry does not expire while its key is locked or held, and is written again meanwhile, so that it
// does not expire for the next host, either.
func TestJournal_open_keys(t *testing.T) {
	c, path := &clock{at: start}, tempFile(t)
	o := Options{Retention: time.Hour, MaxEntries: 2}
	j := openTest(t, path, c.options(o))
	held, locked := mcpvisor.JournalKey{Principal: "p", Key: "held"}, mcpvisor.JournalKey{Key: "locked"}
	release := j.Hold(held)
	again := j.Hold(held)
	unlock, err := j.Lock(t.Context(), locked)
	require.NoError(t, err)
	e := sent("held", c.now())
	e.Principal = "p"
	require.NoError(t, j.Put(t.Context(), e))
	require.NoError(t, j.Put(t.Context(), sent("locked", c.now())))
	again()
	again() // has no effect
	c.pass(3 * time.Hour)
	require.ErrorContains(t, j.Put(t.Context(), sent("new", c.now())), "is full")
	got, ok, err := j.Get(t.Context(), held)
	require.NoError(t, err)
	require.True(t, ok && got.Open)
	all, err := j.Entries(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.True(t, all[0].Open && all[1].Open)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = j.Lock(ctx, locked)
	require.ErrorIs(t, err, context.Canceled)

	batch := j.renewals()
	require.Len(t, batch, 2)
	j.commit(batch) // as the writer, which is idle
	require.Empty(t, j.renewals())
	require.NoError(t, j.Close())
	c.pass(30 * time.Minute)
	j = openTest(t, path, c.options(o))
	got, ok, err = j.Get(t.Context(), held)
	require.NoError(t, err)
	require.True(t, ok && !got.Open)
	release()
	unlock()
	c.pass(time.Hour)
	require.NoError(t, j.Put(t.Context(), sent("new", c.now())))
	_, ok, err = j.Get(t.Context(), held)
	require.NoError(t, err)
	require.False(t, ok)
}

package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/mcpvisor/mcpvisor"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	at  time.Time
	ran time.Duration
}

// options are those of a journal with the clock.
func (c *clock) options(o Options) Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.ran
	o.now = c.now
	o.elapsed = func() time.Duration {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.ran - began
	}
	return o
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// pass lets time pass.
func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.ran = c.at.Add(d), c.ran+d
}

// set sets the clock; no time passes.
func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func openTest(t *testing.T, path string, o Options) *Journal {
	t.Helper()
	j, err := Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

func tempFile(t *testing.T) string { return filepath.Join(t.TempDir(), "calls.db") }

func sent(key string, at time.Time) mcpvisor.JournalEntry {
	return mcpvisor.JournalEntry{Key: key, Server: "s", Tool: "t", State: mcpvisor.JournalSent, Began: at, Updated: at}
}

func get(t *testing.T, j *Journal, key string) (mcpvisor.JournalEntry, bool) {
	t.Helper()
	e, ok, err := j.Get(t.Context(), mcpvisor.JournalKey{Key: key})
	require.NoError(t, err)
	return e, ok
}

// All that an entry has is found again after the journal was closed.
func TestJournal(t *testing.T) {
	path := tempFile(t)
	j := openTest(t, path, Options{now: func() time.Time { return start }})
	_, ok := get(t, j, "none")
	require.False(t, ok)
	full := mcpvisor.JournalEntry{Key: "schlüssel/1", Server: "s", Tool: "t", Principal: "ä", State: mcpvisor.JournalTask, Began: start, Updated: start.Add(1),
		TaskID: "secret", TaskCreated: time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC), Target: "t", Incarnation: "i", Digest: "d", Arguments: []byte(`{"a":1}`), ResultDigest: "r", ResultBytes: 7, Result: []byte(`{"content":[]}`),
		Error: &mcpvisor.JournalError{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Text: "no", Code: -1, Data: []byte(`[1]`)}}
	require.NoError(t, j.Put(t.Context(), full))
	require.NoError(t, j.Put(t.Context(), sent("b", start.Add(2))))
	require.NoError(t, j.Put(t.Context(), sent("c", start.Add(3))))
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "b"}))
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "b"}), "a second time")
	require.NoError(t, j.Close())
	require.NoError(t, j.Close(), "a second time")
	_, _, err := j.Get(t.Context(), mcpvisor.JournalKey{Key: "c"})
	require.ErrorIs(t, err, errClosed)
	require.ErrorIs(t, j.Put(t.Context(), full), errClosed)

	j = openTest(t, path, Options{now: func() time.Time { return start }})
	_, ok = get(t, j, full.Key)
	require.False(t, ok, "of another principal")
	got, ok, err := j.Get(t.Context(), full.JournalKey())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, full, got)
	all, err := j.Entries(t.Context())
	require.NoError(t, err)
	full.Arguments, full.Result = nil, nil
	require.Equal(t, []mcpvisor.JournalEntry{full, sent("c", start.Add(3))}, all)
	require.Equal(t, 2, j.entries)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = j.Get(ctx, mcpvisor.JournalKey{Key: "c"})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, j.Put(ctx, full), context.Canceled)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 2, "the journal and its lock")
}

// Writers that come while one transaction is written share the next one.
func TestJournal_many_writers(t *testing.T) {
	j := openTest(t, tempFile(t), Options{})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := range 10 {
				key := fmt.Sprintf("%d/%d", i, n)
				e := sent(key, time.Now())
				require.NoError(t, j.Put(t.Context(), e))
				e.State, e.Result = mcpvisor.JournalEnded, []byte(`{}`)
				require.NoError(t, j.Put(t.Context(), e))
			}
		})
	}
	wg.Wait()
	all, err := j.Entries(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 640)
	require.NoError(t, j.db.View(func(tx *bolt.Tx) error {
		require.Less(t, tx.ID(), 640, "1280 changes in so many transactions")
		return nil
	}))
}

// Entries expire by the time of their last write, also while they are not asked for.
func TestJournal_expiry(t *testing.T) {
	c := &clock{at: start}
	j := openTest(t, tempFile(t), c.options(Options{Retention: time.Hour}))
	require.NoError(t, j.Put(t.Context(), sent("old", start)))
	c.pass(30 * time.Minute)
	require.NoError(t, j.Put(t.Context(), sent("new", c.now())))
	c.pass(30 * time.Minute)
	_, ok := get(t, j, "old")
	require.True(t, ok, "not before its time")
	c.pass(1)
	_, ok = get(t, j, "old")
	require.False(t, ok)
	all, err := j.Entries(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "none"}))
	require.Equal(t, 1, j.entries)
}

// A clock that is wrong costs no entry its time, and keeps none longer: not in the host that reads it, and
// not in the next one.
func TestJournal_wrong_clock(t *testing.T) {
	const retention = 24 * time.Hour
	for name, wrong := range map[string]time.Duration{"back": -100 * time.Hour, "ten years ahead": 10 * 365 * 24 * time.Hour} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %t", name, restarts), func(t *testing.T) {
				c, path := &clock{at: start}, tempFile(t)
				c.set(start.Add(wrong))
				j := openTest(t, path, c.options(Options{Retention: retention, MaxEntries: 20}))
				require.NoError(t, j.Put(t.Context(), sent("wrong", c.now())))
				c.set(start)
				refused := 0
				for i := range 60 { // 5 a day
					if restarts {
						require.NoError(t, j.Close())
						j = openTest(t, path, c.options(Options{Retention: retention, MaxEntries: 20}))
					}
					if err := j.Put(t.Context(), sent(fmt.Sprint(i), c.now())); err != nil {
						refused++
						continue
					}
					_, ok := get(t, j, fmt.Sprint(i))
					require.True(t, ok, "%d is kept", i)
					if i > 5 && !(restarts && wrong < 0) {
						_, ok = get(t, j, fmt.Sprint(i-6))
						require.False(t, ok, "%d has expired", i-6)
					}
					c.pass(retention / 5)
				}
				require.Zero(t, refused)
			})
		}
	}
}

// A machine without a clock of its own starts in the past, and its clock is set while the host runs. To the
// next host no time has passed.
func TestJournal_clock_set_forward_before_a_restart(t *testing.T) {
	c, path := &clock{at: start}, tempFile(t)
	j := openTest(t, path, c.options(Options{Retention: 24 * time.Hour}))
	require.NoError(t, j.Put(t.Context(), sent("k", c.now())))
	c.set(start.Add(30 * 24 * time.Hour))
	require.NoError(t, j.Close())
	j = openTest(t, path, c.options(Options{Retention: 24 * time.Hour}))
	_, ok := get(t, j, "k")
	require.True(t, ok)
	c.pass(25 * time.Hour)
	_, ok = get(t, j, "k")
	require.False(t, ok)
}

// The journal is bounded in entries and bytes. What was begun can always be ended: a result
// that finds no room is left out.
func TestJournal_full(t *testing.T) {
	j := openTest(t, tempFile(t), Options{MaxEntries: 3, MaxBytes: 2000})
	now := time.Now()
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, j.Put(t.Context(), sent(key, now)))
	}
	require.ErrorContains(t, j.Put(t.Context(), sent("d", now)), "is full: 3 entries (at most 3)")
	ended := sent("a", now)
	ended.State, ended.Result, ended.ResultBytes = mcpvisor.JournalEnded, []byte(strings.Repeat(" ", 2000)), 2000
	require.NoError(t, j.Put(t.Context(), ended))
	e, ok := get(t, j, "a")
	require.True(t, ok)
	require.Equal(t, mcpvisor.JournalEnded, e.State)
	require.Empty(t, e.Result)
	require.Equal(t, 2000, e.ResultBytes)
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "b"}))
	large := sent("e", now)
	large.Arguments = []byte(strings.Repeat(" ", 1900))
	require.ErrorContains(t, j.Put(t.Context(), large), "(at most 2000)")
	require.NoError(t, j.Put(t.Context(), sent("d", now)), "there is room again")
}

// One process at a time has the journal.
func TestOpen_twice(t *testing.T) {
	path := tempFile(t)
	openTest(t, path, Options{})
	_, err := Open(path, Options{})
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, path)
}

// A path that cannot be a journal gives the error of the system, with the path.
func TestOpen_without_access(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none", "calls.db"), dir, "/proc/calls.db"} {
		_, err := Open(path, Options{})
		require.Error(t, err)
		require.ErrorContains(t, err, path)
	}
}

// What is no journal is not touched, and neither is one of a later version.
func TestOpen_other_files(t *testing.T) {
	path := tempFile(t)
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("no database\n", 2000)), 0o600))
	_, err := Open(path, Options{})
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "move the file "+path+" away")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, got, 24000)

	for name, format := range map[string]error{"3": ErrNewer, "10": ErrNewer, "1": ErrDamaged, "0": ErrDamaged, "": ErrDamaged} {
		path := tempFile(t)
		j, err := Open(path, Options{})
		require.NoError(t, err)
		require.NoError(t, j.Close())
		rewrite(t, path, metaBucket, formatKey, []byte(name))
		_, err = Open(path, Options{})
		require.ErrorIs(t, err, format, "%q", name)
	}
}

// An empty file, as of mktemp, becomes a journal. No two processes have it.
func TestOpen_empty_file(t *testing.T) {
	path := tempFile(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	j, err := Open(path, Options{})
	require.NoError(t, err)
	_, err = Open(path, Options{})
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, j.Put(t.Context(), sent("k", time.Now())))
	require.NoError(t, j.Close())
	require.Len(t, entriesOf(t, path), 1)
}

// An entry that was changed on disk is found when the journal is opened.
func TestOpen_changed_entry(t *testing.T) {
	for _, value := range []string{"", "1234", "\x00\x00\x00\x00\x01{}"} {
		path := tempFile(t)
		j, err := Open(path, Options{})
		require.NoError(t, err)
		require.NoError(t, j.Put(t.Context(), sent("k", time.Now())))
		require.NoError(t, j.Close())
		rewrite(t, path, callsBucket, encodeKey(mcpvisor.JournalKey{Key: "k"}), []byte(value))
		_, err = Open(path, Options{})
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, `the entry of the key "k"`)
	}
}

// A disk without room costs the calls with a key, and no entry.
func TestJournal_disk_full(t *testing.T) {
	if path := os.Getenv("JOURNAL_DISK_FULL"); path != "" {
		limitFileSize(t, 64<<10)
		j, err := Open(path, Options{})
		require.NoError(t, err)
		n, err := 0, error(nil)
		for ; err == nil && n < 10_000; n++ {
			e := sent(fmt.Sprint(n), time.Now())
			e.Arguments = []byte(strings.Repeat(" ", 1000))
			err = j.Put(t.Context(), e)
		}
		require.ErrorContains(t, err, "write the journal "+path)
		for i := range n - 1 {
			_, ok := get(t, j, fmt.Sprint(i))
			require.True(t, ok, i)
		}
		require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "0"}))
		_, ok := get(t, j, "0")
		require.False(t, ok)
		require.NoError(t, j.Close())
		return
	}
	path := tempFile(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestJournal_disk_full$", "-test.count=1")
	cmd.Env = append(os.Environ(), "JOURNAL_DISK_FULL="+path)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	j := openTest(t, path, Options{})
	all, err := j.Entries(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, all)
}

var errTest = errors.New("test")

// A panic of the database ends the writing, and no process.
func TestJournal_panic(t *testing.T) {
	j := openTest(t, tempFile(t), Options{})
	require.NoError(t, j.Put(t.Context(), sent("a", time.Now())))
	j.opts.now = func() time.Time { panic(errTest) } // in the transaction
	require.ErrorIs(t, j.Put(t.Context(), sent("b", time.Now())), ErrDamaged)
	require.ErrorIs(t, j.Put(t.Context(), sent("c", time.Now())), ErrDamaged)
}

// Close writes what was asked for before.
func TestJournal_Close_writes(t *testing.T) {
	for range 50 {
		path := tempFile(t)
		j, err := Open(path, Options{})
		require.NoError(t, err)
		stored := make([]error, 8)
		var wg sync.WaitGroup
		for i := range stored {
			wg.Go(func() { stored[i] = j.Put(context.Background(), sent(fmt.Sprint(i), time.Now())) })
		}
		require.NoError(t, j.Close())
		wg.Wait()
		j = openTest(t, path, Options{})
		for i, err := range stored {
			_, ok := get(t, j, fmt.Sprint(i))
			require.Equal(t, err == nil, ok, "%d: %v", i, err)
		}
		require.NoError(t, j.Close())
	}
}

package journal

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/mcpvisor/mcpvisor"
)

var everything = flag.Bool("everything", false, "cut the file at every byte, and damage it at many; without it a part of them")

// rewrite changes a value in a journal that is not open.
func rewrite(t *testing.T, path string, bucket, key, value []byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, value) }))
	require.NoError(t, db.Close())
}

// step is a state of the file after a change, and the entries that it holds.
type step struct {
	file    []byte
	entries map[string]mcpvisor.JournalState
}

// record makes calls, and returns the file after each change.
func recordSteps(t *testing.T, path string) []step {
	t.Helper()
	j, err := Open(path, Options{})
	require.NoError(t, err)
	steps := []step{{file: read(t, path), entries: map[string]mcpvisor.JournalState{}}}
	now := time.Now()
	entries := map[string]mcpvisor.JournalState{}
	for i := range 4 {
		e := sent(fmt.Sprintf("key %d", i), now)
		e.Arguments = bytes.Repeat([]byte(" "), 300*i)
		for _, state := range []mcpvisor.JournalState{mcpvisor.JournalSent, mcpvisor.JournalTask, mcpvisor.JournalEnded} {
			if e.State = state; state == mcpvisor.JournalEnded {
				e.Result = bytes.Repeat([]byte(" "), 700*i)
			}
			require.NoError(t, j.Put(t.Context(), e))
			entries[e.Key] = state
			steps = append(steps, step{read(t, path), maps.Clone(entries)})
		}
	}
	require.NoError(t, j.Delete(t.Context(), mcpvisor.JournalKey{Key: "key 0"}))
	delete(entries, "key 0")
	steps = append(steps, step{read(t, path), maps.Clone(entries)})
	require.NoError(t, j.Close())
	return steps
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// writesBetween are the pages that changed from one state of the file to the next, in the
// order in which the database writes them: the two pages of metadata last.
func writesBetween(from, to []byte) (pages []int) {
	size := os.Getpagesize()
	for at := 0; at < len(to); at += size {
		if at >= len(from) || !bytes.Equal(from[at:min(at+size, len(from))], to[at:at+size]) {
			pages = append(pages, at)
		}
	}
	slices.SortFunc(pages, func(a, b int) int {
		if meta := 2 * size; (a < meta) != (b < meta) {
			if a < meta {
				return 1
			}
			return -1
		}
		return a - b
	})
	return pages
}

// A process that is killed, or a machine that fails, leaves what was written before: the
// journal opens wherever the writes are cut, with the entries before the change or with those
// after it.
func TestJournal_cut_at_every_byte(t *testing.T) {
	dir := t.TempDir()
	steps := recordSteps(t, dir+"/recorded.db")
	path := dir + "/cut.db"
	opened, changed := 0, 0
	for i := 1; i < len(steps); i++ {
		from, to := steps[i-1], steps[i]
		file := append(slices.Clone(from.file), make([]byte, max(0, len(to.file)-len(from.file)))...)
		for _, at := range writesBetween(from.file, to.file) {
			stride := 1
			if data := at >= 2*os.Getpagesize(); data && !*everything { // nothing refers to it before the metadata is written
				stride = 509
			}
			for n := range os.Getpagesize() {
				before := file[at+n]
				file[at+n] = to.file[at+n]
				// Equal bytes in a row are one state of the file.
				if stride == 1 && before == file[at+n] || stride > 1 && n%stride != 0 {
					continue
				}
				require.NoError(t, os.WriteFile(path, file, 0o600))
				got := entriesOf(t, path)
				opened++
				if len(got) == len(to.entries) && fmt.Sprint(got) == fmt.Sprint(to.entries) {
					changed++
					continue
				}
				require.Equal(t, from.entries, got, "change %d, cut in the page at %d after %d bytes", i, at, n)
			}
		}
		require.Equal(t, to.file, file[:len(to.file)])
	}
	require.Greater(t, opened, 300)
	require.Positive(t, changed)
	t.Logf("%d changes, opened %d times, %d times with the change", len(steps)-1, opened, changed)
}

func entriesOf(t *testing.T, path string) map[string]mcpvisor.JournalState {
	t.Helper()
	j, err := Open(path, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	all, err := j.Entries(t.Context())
	require.NoError(t, err)
	got := map[string]mcpvisor.JournalState{}
	for _, e := range all {
		got[e.Key] = e.State
	}
	return got
}

// A file that something else has cut, or changed, is found: the journal opens with entries
// that were there, or says that it is damaged.
func TestOpen_damaged(t *testing.T) {
	dir := t.TempDir()
	steps := recordSteps(t, dir+"/recorded.db")
	whole := steps[len(steps)-1]
	path := dir + "/damaged.db"
	known := map[string]map[mcpvisor.JournalState]bool{}
	for _, s := range steps {
		for key, state := range s.entries {
			if known[key] == nil {
				known[key] = map[mcpvisor.JournalState]bool{}
			}
			known[key][state] = true
		}
	}
	damaged := 0
	try := func(file []byte, what string, at int) {
		require.NoError(t, os.WriteFile(path, file, 0o600))
		j, err := Open(path, Options{})
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged, "%s at %d", what, at)
			damaged++
			return
		}
		all, err := j.Entries(t.Context())
		require.NoError(t, err)
		require.NoError(t, j.Close())
		for _, e := range all {
			require.True(t, known[e.Key][e.State], "%s at %d invents %q", what, at, e.Key)
		}
	}
	cuts, stride := 389, 241
	if *everything {
		cuts, stride = 97, 13
	}
	for at := 1; at < len(whole.file); at += cuts {
		try(whole.file[:at], "cut", at)
	}
	require.Greater(t, damaged, 10)
	damaged = 0
	for at := 0; at < len(whole.file); at += stride {
		file := slices.Clone(whole.file)
		file[at] ^= 0xff
		try(file, "changed", at)
	}
	require.Greater(t, damaged, 10)
}

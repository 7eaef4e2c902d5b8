package jsonrpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Entries behaves like a map, whatever ids come in whatever order.
func TestEntries_is_a_map(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries Entries
		want := map[int64]*Entry{}
		id := rapid.OneOf(rapid.Int64Range(FirstID, FirstID+100), rapid.Int64Range(-5, -1), rapid.Int64Range(0, 20),
			rapid.Map(rapid.Int64Range(0, 20), func(n int64) int64 { return FirstID + 16*n }))
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			n := id.Draw(t, "id")
			if e := entries.Get(n); want[n] != e {
				t.Fatalf("entry %d is %p, not %p", n, e, want[n])
			}
			if want[n] == nil {
				want[n] = &Entry{ID: n}
				entries.Add(want[n])
			} else {
				delete(want, n)
				entries.Delete(n)
			}
			entries.Delete(n + 1000) // is not there
			seen := map[int64]*Entry{}
			for e := range entries.All() {
				seen[e.ID] = e
			}
			require.Equal(t, want, seen)
			require.Equal(t, len(want), entries.Len())
		}
		for e := range entries.All() {
			entries.Delete(e.ID)
		}
		require.Zero(t, entries.Len(), "a loop may delete")
	})
}

// After many requests at a time the memory for them is not kept.
func TestEntries_frees_memory(t *testing.T) {
	var entries Entries
	for id := range int64(10_000) {
		entries.Add(&Entry{ID: FirstID + id})
	}
	for id := range int64(10_000) {
		entries.Delete(FirstID + id)
	}
	require.Zero(t, entries)
}

package records_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/records"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A crash counts and a restart that was asked for does not; time at rest and between two runs is neither ready nor down; what runs at
// the end runs until the time that was asked for.
func TestReadAvailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, began := filepath.Join(t.TempDir(), "records"), time.Now()
		at := func(minute int) time.Time { return began.Add(time.Duration(minute) * time.Minute) }
		var w *records.Writer
		open := func() {
			var err error
			w, err = records.Open(dir, records.Options{})
			require.NoError(t, err)
		}
		event := func(server string, minute int, kind mcpvisor.EventKind, cause supervisor.CauseKind) {
			time.Sleep(time.Until(at(minute)))
			e := mcpvisor.Event{Server: server, Time: time.Now(), Kind: kind}
			if cause != "" {
				e.Cause = &supervisor.Cause{Kind: cause, Message: "exit status 3"}
			}
			w.Event(e)
		}
		open()
		event("a", 0, mcpvisor.EventRegistered, "")
		event("b", 0, mcpvisor.EventRegistered, "")
		event("b", 0, mcpvisor.EventReady, "")
		event("a", 1, mcpvisor.EventReady, "")
		event("a", 20, mcpvisor.EventDown, supervisor.CauseExit)
		event("a", 21, mcpvisor.EventReady, "")
		event("a", 30, mcpvisor.EventDown, supervisor.CauseRestart)
		event("a", 32, mcpvisor.EventReady, "")
		event("b", 40, mcpvisor.EventAsleep, supervisor.CauseRequested)
		time.Sleep(time.Until(at(60)))
		require.NoError(t, w.Close())

		all, first, err := records.ReadAvailability(dir, at(10), time.Time{})
		require.NoError(t, err)
		require.Zero(t, first, "the records are whole")
		require.Len(t, all, 2)
		require.True(t, at(20).Equal(all[0].LastEnd))
		all[0].LastEnd = time.Time{}
		require.Equal(t, []records.Availability{{Server: "a", Ready: 47 * time.Minute, Down: 3 * time.Minute, Ends: 1, Restarts: 2, LastCause: "down: exit status 3"},
			{Server: "b", Ready: 30 * time.Minute}}, all)
		share, ok := all[0].Share()
		require.True(t, ok)
		require.InDelta(t, 0.94, share, 0.001)
		all, _, err = records.ReadAvailability(dir, at(50), at(55))
		require.NoError(t, err)
		require.Equal(t, []records.Availability{{Server: "a", Ready: 5 * time.Minute}}, all, "no event is in this time")

		time.Sleep(time.Until(at(100)))
		open()
		event("a", 100, mcpvisor.EventRegistered, "")
		event("a", 101, mcpvisor.EventReady, "")
		time.Sleep(10 * time.Minute)
		all, _, err = records.ReadAvailability(dir, at(50), time.Now())
		require.NoError(t, err)
		require.Equal(t, []records.Availability{{Server: "a", Ready: 20 * time.Minute, Down: time.Minute}}, all)
		require.NoError(t, w.Close())
	})
}

// Where older records were deleted, the time of the first one that is left is told, and what servers were then is known. What may
// have happened in a gap counts for nothing.
func TestReadAvailability_of_a_part(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, began := filepath.Join(t.TempDir(), "records"), time.Now()
		w, err := records.Open(dir, records.Options{MaxBytes: 16 << 20, Arguments: records.ArgumentsWhole})
		require.NoError(t, err)
		event := func(server string, kind mcpvisor.EventKind) {
			w.Event(mcpvisor.Event{Server: server, Time: time.Now(), Kind: kind, Cause: &supervisor.Cause{Kind: supervisor.CauseExit}})
		}
		event("a", mcpvisor.EventReady)
		event("quiet", mcpvisor.EventReady)
		event("lost", mcpvisor.EventDown)
		event("gone", mcpvisor.EventReady)
		event("gone", mcpvisor.EventUnregistered)
		event("new", mcpvisor.EventRegistered)
		event("new", mcpvisor.EventStartFailed)
		for range 40 { // a minute each
			c := call("b", "read", `{"a":"`+strings.Repeat("a", 1<<19)+`"}`)
			w.Call(c)
			time.Sleep(time.Minute)
		}
		event("new", mcpvisor.EventReady)
		event("lost", mcpvisor.EventReady)
		event("a", mcpvisor.EventDown)
		time.Sleep(time.Minute)
		event("a", mcpvisor.EventReady)
		time.Sleep(time.Minute)
		w.Add(records.Record{Kind: records.KindGap, Lost: 3})
		time.Sleep(time.Hour)
		require.NoError(t, w.Close())
		all, first, err := records.ReadAvailability(dir, began, time.Time{})
		require.NoError(t, err)
		require.True(t, first.After(began.Add(5*time.Minute)), "%v", first)
		require.Len(t, all, 4)
		span := began.Add(41 * time.Minute).Sub(first)
		require.Equal(t, time.Minute, all[0].Down)
		require.Equal(t, span-time.Minute, all[0].Ready)
		require.Equal(t, 1, all[0].Restarts)
		require.Equal(t, []records.Availability{{Server: "lost", Ready: time.Minute, Down: span - time.Minute, Restarts: 1},
			{Server: "new", Ready: time.Minute, Down: span - time.Minute}, {Server: "quiet", Ready: span}}, all[1:], "the start of new is its first one")
	})
}

// What each file says of many servers is within the bound, and leaves room for the end.
func TestWriter_many_servers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	w := open(t, dir, records.Options{MaxBytes: bound, WhenFull: records.FullDrop})
	name, added := strings.Repeat("s", 56), uint64(0)
	for w.Stats().Dropped == 0 {
		w.Event(mcpvisor.Event{Server: fmt.Sprint(name, added), Time: time.Now(), Kind: mcpvisor.EventReady})
		if added++; added%1000 == 0 {
			require.Eventually(t, func() bool { now := w.Stats(); return now.Dropped > 0 || now.Written >= added }, 20*time.Second, time.Millisecond)
		}
	}
	require.NoError(t, w.Close())
	require.LessOrEqual(t, bytesOf(t, dir), int64(bound))
	require.Equal(t, records.KindEnd, read(t, dir, records.Query{Last: 1})[0].Kind)
	_, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	for _, r := range read(t, dir, records.Query{Kinds: []records.Kind{records.KindSegment}}) {
		require.LessOrEqual(t, len(r.Details), bound/16, "half of a file")
	}
}

// What a gap has made unknown is not in the first lines of later files.
func TestReadAvailability_after_a_gap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "records")
		w, err := records.Open(dir, records.Options{MaxBytes: 16 << 20, Arguments: records.ArgumentsWhole})
		require.NoError(t, err)
		w.Event(mcpvisor.Event{Server: "a", Time: time.Now(), Kind: mcpvisor.EventReady})
		w.Add(records.Record{Kind: records.KindGap, Lost: 3})
		for range 40 {
			w.Call(call("b", "read", `{"a":"`+strings.Repeat("a", 1<<19)+`"}`))
			time.Sleep(time.Minute)
		}
		require.NoError(t, w.Close())
		all, first, err := records.ReadAvailability(dir, time.Time{}, time.Time{})
		require.NoError(t, err)
		require.NotZero(t, first, "the first files were deleted")
		require.Empty(t, all)
	})
}

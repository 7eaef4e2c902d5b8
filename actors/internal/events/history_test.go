package events

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

const keptEvents = retention.Events

// seqs are the numbers of events.
func seqs(events []mcpvisor.Event) (all []uint64) {
	for _, e := range events {
		all = append(all, e.Seq)
	}
	return all
}

func TestHub_After(t *testing.T) {
	h := NewHub()
	events, missed := h.After(0)
	require.Empty(t, events)
	require.Zero(t, missed)
	for range 3 {
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown}, mcpvisor.Event{Kind: mcpvisor.EventLog, Log: &mcpvisor.LogMessage{}})
	}
	events, missed = h.After(2)
	require.Zero(t, missed)
	require.Equal(t, []uint64{3, 4, 5, 6}, seqs(events), "both sorts in their order")
	events, missed = h.After(6)
	require.Empty(t, events)
	require.Zero(t, missed)
	events, missed = h.After(7)
	require.Len(t, events, 6, "a number of another hub counts as 0")
	require.Zero(t, missed)
}

// What servers send displaces no supervision event, and what is displaced is counted.
func TestHub_After_keeps_supervision_events(t *testing.T) {
	h := NewHub()
	h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown})
	for range 3 * keptEvents {
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventLog, Log: &mcpvisor.LogMessage{}})
	}
	events, missed := h.After(0)
	require.Len(t, events, keptEvents+1)
	require.EqualValues(t, 2*keptEvents, missed)
	require.Equal(t, mcpvisor.EventDown, events[0].Kind)
	for range keptEvents {
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventReady})
	}
	events, _ = h.After(0)
	require.Len(t, events, 2*keptEvents)
	require.Equal(t, mcpvisor.EventLog, events[0].Kind, "the oldest supervision event made room")
}

// Large events take no more memory than maxHistoryBytes.
func TestHub_After_is_bounded(t *testing.T) {
	h := NewHub()
	text := strings.Repeat("x", maxHistoryBytes/4)
	for range 10 {
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventLog, Log: &mcpvisor.LogMessage{Text: text}})
		require.LessOrEqual(t, h.history.serverEvents.bytes, maxHistoryBytes)
	}
	events, missed := h.After(0)
	require.Len(t, events, 3)
	require.EqualValues(t, 7, missed)
	h.Publish(mcpvisor.Event{Kind: mcpvisor.EventLog, Log: &mcpvisor.LogMessage{Text: strings.Repeat("x", 2*maxHistoryBytes)}})
	events, _ = h.After(0)
	require.Len(t, events, 1, "one event may be larger")
}

// Replay and watch together deliver each event once.
func TestWatchFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		for range 3 {
			h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown}, mcpvisor.Event{Kind: mcpvisor.EventReady})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all, some := h.WatchFrom(ctx, 2), h.WatchFrom(ctx, 2, mcpvisor.EventReady)
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown}, mcpvisor.Event{Kind: mcpvisor.EventReady})
		h.Close()
		var got, ready []uint64
		for e := range all {
			got = append(got, e.Seq)
		}
		for e := range some {
			ready = append(ready, e.Seq)
		}
		require.Equal(t, []uint64{3, 4, 5, 6, 7, 8}, got)
		require.Equal(t, []uint64{4, 6, 8}, ready)
	})
}

// A watcher learns how many events are no longer kept.
func TestWatchFrom_missed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		for range keptEvents + 5 {
			h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown})
		}
		watch := h.WatchFrom(t.Context(), 2)
		h.Close()
		first := <-watch
		require.Equal(t, mcpvisor.EventMissed, first.Kind)
		require.EqualValues(t, 3, first.Missed)
		for seq := uint64(6); seq <= keptEvents+5; seq++ {
			require.Equal(t, seq, (<-watch).Seq)
		}
		_, missed := h.Stats()
		require.Zero(t, missed, "the watcher was not slow")
	})
}

// What slow watchers lose is counted, also when they are gone.
func TestHub_Stats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		ctx, cancel := context.WithCancel(t.Context())
		watch := h.Watch(ctx)
		for range maxEvents + 10 {
			h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown})
		}
		last, missed := h.Stats()
		require.EqualValues(t, maxEvents+10, last)
		require.Positive(t, missed)
		cancel()
		for range watch { // closed when the watcher is gone
		}
		_, after := h.Stats()
		require.Equal(t, missed, after)
	})
}

type goexitOnce struct{ writes int }

func (w *goexitOnce) Write(p []byte) (int, error) {
	if w.writes++; w.writes == 1 {
		runtime.Goexit() // as t.FailNow does in the handler of a test
	}
	return len(p), nil
}

// A writer that ends its goroutine costs one line, and not all later ones.
func TestLogger_writer_that_ends_its_goroutine(t *testing.T) {
	hub, w := NewHub(), &goexitOnce{}
	l := NewLogger(hub, zerolog.New(w))
	for range 3 {
		hub.Publish(mcpvisor.Event{Kind: mcpvisor.EventReady, Server: "s"})
	}
	hub.Close()
	<-l.written
	require.Equal(t, 3, w.writes)
}

package events

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// take returns all waiting events.
func (w *watcher) take() (events []mcpvisor.Event, ended bool) {
	for {
		e, ok, ended := w.next()
		if !ok {
			return events, ended
		}
		events = append(events, e)
	}
}

// A server that sends events without end costs a watcher server events, and no
// supervision events.
func TestWatcherDropsServerEventsFirst(t *testing.T) {
	w := newWatcher()
	supervision := 0
	for i := range 10 * maxEvents {
		w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventLog})
		if i%40 == 0 {
			supervision++
			w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventDown, FailedCalls: supervision})
		}
	}
	events, _ := w.take()
	require.Equal(t, mcpvisor.EventMissed, events[0].Kind)
	require.EqualValues(t, 10*maxEvents-maxServerEvents, events[0].Missed)
	received := 0
	for _, e := range events {
		if e.Kind == mcpvisor.EventDown {
			received++
			require.Equal(t, received, e.FailedCalls, "in order")
		}
	}
	require.Equal(t, supervision, received)
	w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventLog})
	events, _ = w.take()
	require.Len(t, events, 1, "there is room again")
}

// Without server events, the oldest supervision events make room.
func TestWatcherDropsTheOldest(t *testing.T) {
	w := newWatcher()
	for i := range maxEvents + 10 {
		kind := mcpvisor.EventDown
		if i < 5 {
			kind = mcpvisor.EventLog
		}
		w.enqueue(mcpvisor.Event{Kind: kind, FailedCalls: i})
	}
	require.Empty(t, w.serverEvents.events)
	events, _ := w.take()
	require.EqualValues(t, 10, events[0].Missed)
	require.Equal(t, 10, events[1].FailedCalls)
}

// Every dropped event counts as missed, whatever it was.
func TestWatcherCountsServerEventsWithoutRoom(t *testing.T) {
	w := newWatcher()
	for range maxEvents {
		w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventDown})
	}
	w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventLog})
	events, _ := w.take()
	require.EqualValues(t, 1, events[0].Missed)
	require.Len(t, events, 1+maxEvents, "and no supervision event was dropped")
	events, _ = w.take()
	require.Empty(t, events, "the number is delivered once")
}

// Server events and supervision events wait in two queues, and are delivered in the
// order of publication.
func TestWatcherDeliversInOrder(t *testing.T) {
	h := NewHub()
	w := newWatcher()
	h.watchers[w] = struct{}{}
	for i := range 30 {
		kind := mcpvisor.EventDown
		if i%3 == 0 || i%7 == 0 {
			kind = mcpvisor.EventLog
		}
		h.Publish(mcpvisor.Event{Kind: kind})
	}
	events, _ := w.take()
	require.Len(t, events, 30)
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
	}
}

// A watcher whose context ends is removed at once, though nothing is published.
func TestWatcherIsRemovedWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		idle, leave := context.WithCancel(context.Background())
		quiet := h.Watch(idle)
		synctest.Wait()
		leave()
		_, open := <-quiet
		require.False(t, open)

		full, leave := context.WithCancel(context.Background())
		h.Watch(full) // and does not read
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown})
		synctest.Wait()
		leave()
		synctest.Wait()
		require.Empty(t, h.watchers)
	})
}

// A server whose list flips between two large catalogs does not fill the memory through
// a watcher that does not read.
func TestWatcherThatDoesNotRead(t *testing.T) {
	catalogOf := func(prefix string) *catalog.Catalog {
		tools := make([]mcpvisor.Tool, 10_000)
		for i := range tools {
			name := fmt.Sprintf("%s%05d", prefix, i)
			tools[i] = mcpvisor.Tool{Name: "s/" + name, Server: "s", OriginalName: name}
		}
		return catalog.New(catalog.Catalog{Tools: tools})
	}
	change := func() *mcpvisor.Change {
		_, change := catalogOf("a").Refreshed(catalogOf("b"), catalog.ListTools)
		return &change
	}

	t.Run("holds_little_memory", func(t *testing.T) {
		h := NewHub()
		ctx, leave := context.WithCancel(t.Context())
		events := h.Watch(ctx)
		before := heap()
		for range 12 {
			h.Publish(mcpvisor.Event{Kind: mcpvisor.EventChanged, Change: change()})
		}
		require.Less(t, heap()-before, 2<<20)
		leave()
		for range events {
			continue
		}
	})
	testutil.RunInBubble(t, "receives_the_number_of_missed_events_once_its_bytes_are_used_up", func(t *testing.T) {
		const size = 1 << 20
		h := NewHub()
		events := h.Watch(t.Context())
		line := &mcpvisor.LogMessage{Text: strings.Repeat("x", size)}
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown, FailedCalls: 7})
		synctest.Wait() // it is receiving that one
		for i := range 100 {
			h.Publish(mcpvisor.Event{Kind: mcpvisor.EventLog, Log: line, FailedCalls: i})
			h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown, FailedCalls: i})
		}
		h.Close()
		got := []mcpvisor.Event{}
		for e := range events {
			got = append(got, e)
		}
		require.Equal(t, 7, got[0].FailedCalls)
		require.Equal(t, mcpvisor.EventMissed, got[1].Kind)
		require.EqualValues(t, 93, got[1].Missed)
		logs, supervision := 0, 0
		for _, e := range got[2:] {
			if e.Kind == mcpvisor.EventLog {
				logs++
				continue
			}
			require.Equal(t, supervision, e.FailedCalls)
			supervision++
		}
		require.Equal(t, 7, logs)
		require.Equal(t, 100, supervision, "supervision events are dropped last")
	})
	t.Run("has_room_again_when_it_has_read", func(t *testing.T) {
		w := newWatcher()
		e := mcpvisor.Event{Kind: mcpvisor.EventLog, Log: &mcpvisor.LogMessage{Text: strings.Repeat("x", maxBytes/2)}}
		for range 3 {
			w.enqueue(e)
		}
		events, _ := w.take()
		require.Equal(t, 2, len(events)) //nolint:testifylint // they are large
		require.EqualValues(t, 2, events[0].Missed)
		require.Zero(t, w.supervisionEvents.bytes+w.serverEvents.bytes)
	})
}

// heap is the number of bytes that are reachable.
func heap() int {
	runtime.GC()
	runtime.GC() // the second empties what the first left in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestWatch_kinds(t *testing.T) {
	t.Run("other_kinds_are_not_delivered", func(t *testing.T) {
		h := NewHub()
		events := h.Watch(t.Context(), mcpvisor.EventDown, mcpvisor.EventReady)
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventLog}, mcpvisor.Event{Kind: mcpvisor.EventDown},
			mcpvisor.Event{Kind: mcpvisor.EventRetry}, mcpvisor.Event{Kind: mcpvisor.EventReady})
		h.Close()
		var kinds []mcpvisor.EventKind
		for e := range events {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventDown, mcpvisor.EventReady}, kinds)
	})
	t.Run("other_kinds_displace_nothing", func(t *testing.T) {
		w := newWatcher(mcpvisor.EventDown)
		w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventDown, FailedCalls: 7})
		for range 10 * maxEvents {
			w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventReady})
			w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventLog})
		}
		e, ok, _ := w.next()
		require.True(t, ok)
		require.Equal(t, mcpvisor.Event{Kind: mcpvisor.EventDown, FailedCalls: 7}, e)
		_, ok, _ = w.next()
		require.False(t, ok, "nothing was missed")
	})
	t.Run("missed_events_are_always_reported", func(t *testing.T) {
		w := newWatcher(mcpvisor.EventDown)
		for range maxEvents + 3 {
			w.enqueue(mcpvisor.Event{Kind: mcpvisor.EventDown})
		}
		e, ok, _ := w.next()
		require.True(t, ok)
		require.Equal(t, mcpvisor.EventMissed, e.Kind)
		require.EqualValues(t, 3, e.Missed)
	})
	t.Run("the_kinds_are_copied", func(t *testing.T) {
		h := NewHub()
		kinds := []mcpvisor.EventKind{mcpvisor.EventDown}
		events := h.Watch(t.Context(), kinds...)
		kinds[0] = mcpvisor.EventLog
		h.Publish(mcpvisor.Event{Kind: mcpvisor.EventDown})
		require.Equal(t, mcpvisor.EventDown, (<-events).Kind)
		h.Close()
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

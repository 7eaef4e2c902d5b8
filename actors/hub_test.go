package actors

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/messages"
)

// A server that talks without end costs a watcher what servers tell, and no
// news of any server.
func TestChatterCostsNoNews(t *testing.T) {
	w := &watcher{wake: make(chan struct{}, 1)}
	news := 0
	for i := range 10 * watcherQueue {
		w.put(messages.Event{Kind: messages.EventLog})
		if i%40 == 0 {
			news++
			w.put(messages.Event{Kind: messages.EventDown, Failed: news})
		}
	}
	events, _ := w.take()
	require.Equal(t, messages.EventMissed, events[0].Kind)
	require.EqualValues(t, 10*watcherQueue-chatQueue, events[0].Missed)
	heard := 0
	for _, e := range events {
		if e.Kind == messages.EventDown {
			heard++
			require.Equal(t, heard, e.Failed, "in order")
		}
	}
	require.Equal(t, news, heard)
	w.put(messages.Event{Kind: messages.EventLog})
	events, _ = w.take()
	require.Len(t, events, 1, "there is room again")
}

// Without chatter the oldest make room.
func TestASlowWatcherLosesTheOldest(t *testing.T) {
	w := &watcher{wake: make(chan struct{}, 1)}
	for i := range watcherQueue + 10 {
		kind := messages.EventDown
		if i < 5 {
			kind = messages.EventLog
		}
		w.put(messages.Event{Kind: kind, Failed: i})
	}
	require.Empty(t, w.chat)
	events, _ := w.take()
	require.EqualValues(t, 10, events[0].Missed)
	require.Equal(t, 10, events[1].Failed)
}

// What is lost is told, whatever it was.
func TestChatterThatFindsNoRoomIsMissed(t *testing.T) {
	w := &watcher{wake: make(chan struct{}, 1)}
	for range watcherQueue {
		w.put(messages.Event{Kind: messages.EventDown})
	}
	w.put(messages.Event{Kind: messages.EventLog})
	events, _ := w.take()
	require.EqualValues(t, 1, events[0].Missed)
	require.Len(t, events, 1+watcherQueue, "and it cost no news")
	events, _ = w.take()
	require.Empty(t, events, "it is told once")
}

// News and chatter wait apart, and are told in the order in which they happened.
func TestAWatcherHearsInOrder(t *testing.T) {
	h := newHub()
	w := &watcher{wake: make(chan struct{}, 1)}
	h.watchers[w] = struct{}{}
	for i := range 30 {
		kind := messages.EventDown
		if i%3 == 0 || i%7 == 0 {
			kind = messages.EventLog
		}
		h.emit(messages.Event{Kind: kind})
	}
	events, _ := w.take()
	require.Len(t, events, 30)
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
	}
}

// Whoever stops watching is forgotten at once, though nothing happens.
func TestAWatcherThatLeavesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		idle, leave := context.WithCancel(context.Background())
		quiet := h.watch(idle)
		synctest.Wait()
		leave()
		_, open := <-quiet
		require.False(t, open)

		full, leave := context.WithCancel(context.Background())
		h.watch(full) // and does not read
		h.emit(messages.Event{Kind: messages.EventDown})
		synctest.Wait()
		leave()
		synctest.Wait()
		require.Empty(t, h.watchers)
	})
}

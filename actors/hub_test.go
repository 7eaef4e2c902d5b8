package actors

import (
	"testing"

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

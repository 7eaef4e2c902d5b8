package events

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

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

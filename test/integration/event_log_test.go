//go:build linux

package integration

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// history records every event of one client, from the first to the last.
type history struct {
	ended chan struct{} // closed when the client has closed

	mu     sync.Mutex
	events []mcpvisor.Event
	grown  chan struct{} // closed when an event was added
}

// recordEvents records the events of a client until it closes. Call it before the first
// registration, so that no event is missed.
func recordEvents(c *facade.Client) *history {
	h := &history{ended: make(chan struct{}), grown: make(chan struct{})}
	events := c.Watch(context.Background())
	go func() {
		defer close(h.ended)
		for e := range events {
			h.mu.Lock()
			h.events = append(h.events, e)
			close(h.grown)
			h.grown = make(chan struct{})
			h.mu.Unlock()
		}
	}()
	return h
}

// all returns the events so far.
func (h *history) all() []mcpvisor.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// drain waits until every registration has ended, and then returns and deletes the
// events.
func (h *history) drain(ctx context.Context, t *testing.T) (events []mcpvisor.Event) {
	t.Helper()
	waitUntil(ctx, t, "every registration has ended", func() bool {
		registered := 0
		for _, e := range h.all() {
			switch e.Kind {
			case mcpvisor.EventRegistered:
				registered++
			case mcpvisor.EventUnregistered:
				registered--
			default:
			}
		}
		return registered == 0
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	events, h.events = h.events, nil
	return events
}

// of returns the events of one server so far.
func (h *history) of(server string) []mcpvisor.Event {
	return slices.DeleteFunc(h.all(), func(e mcpvisor.Event) bool { return e.Server != server })
}

// wait returns the first event that matches, whether it was recorded before or is still
// to come.
func (h *history) wait(ctx context.Context, match func(mcpvisor.Event) bool) (mcpvisor.Event, error) {
	for seen := 0; ; {
		h.mu.Lock()
		fresh, grown := h.events[seen:], h.grown
		seen = len(h.events)
		h.mu.Unlock()
		for _, e := range fresh {
			if match(e) {
				return e, nil
			}
		}
		select {
		case <-grown:
		case <-h.ended:
			return mcpvisor.Event{}, mcpvisor.ErrClosed
		case <-ctx.Done():
			return mcpvisor.Event{}, ctx.Err()
		}
	}
}

// eventIs matches events of one server, one kind and one epoch; epoch 0 matches every
// epoch.
func eventIs(server string, kind mcpvisor.EventKind, epoch uint64) func(mcpvisor.Event) bool {
	return func(e mcpvisor.Event) bool {
		return e.Server == server && e.Kind == kind && (epoch == 0 || e.Epoch == epoch)
	}
}

// kinds returns the kinds of the events, in their order.
func kinds(events []mcpvisor.Event) []mcpvisor.EventKind {
	out := make([]mcpvisor.EventKind, 0, len(events))
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

//go:build linux

package integration

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/messages"
)

// history is every event of one client, from its first to its last.
type history struct {
	ended chan struct{} // closed when the client has closed

	mu     sync.Mutex
	events []messages.Event
	grown  chan struct{} // closed when an event was added
}

// follow must be called before the first registration, or events are missed.
func follow(c *facade.Client) *history {
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
func (h *history) all() []messages.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// take returns the events so far, once every registration has ended, and
// forgets them.
func (h *history) take(ctx context.Context, t *testing.T) (events []messages.Event) {
	t.Helper()
	until(ctx, t, "every registration has ended", func() bool {
		registered := 0
		for _, e := range h.all() {
			switch e.Kind {
			case messages.EventRegistered:
				registered++
			case messages.EventUnregistered:
				registered--
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
func (h *history) of(server string) []messages.Event {
	return slices.DeleteFunc(h.all(), func(e messages.Event) bool { return e.Server != server })
}

// wait returns the first event that matches, past or to come.
func (h *history) wait(ctx context.Context, match func(messages.Event) bool) (messages.Event, error) {
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
			return messages.Event{}, messages.ErrClosed
		case <-ctx.Done():
			return messages.Event{}, ctx.Err()
		}
	}
}

// is matches the kind of a server's event at an epoch; epoch 0 matches any.
func is(server string, kind messages.EventKind, epoch uint64) func(messages.Event) bool {
	return func(e messages.Event) bool {
		return e.Server == server && e.Kind == kind && (epoch == 0 || e.Epoch == epoch)
	}
}

// kinds is what happened, without when.
func kinds(events []messages.Event) []messages.EventKind {
	out := make([]messages.EventKind, 0, len(events))
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

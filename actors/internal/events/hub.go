package events

import (
	"context"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Hub hands events to watchers. Publishing never blocks. Safe for concurrent use.
type Hub struct {
	mu       sync.Mutex
	seq      uint64 // of the last event
	watchers map[*watcher]struct{}
	history  history
	// summaries fold the events about the life of servers.
	summaries summaries
	gone      uint64 // events that watchers which are gone have missed
	closed    bool
}

// NewHub makes a hub without watchers.
func NewHub() *Hub { return &Hub{watchers: map[*watcher]struct{}{}} }

// Publish numbers the events and queues them for each watcher.
func (h *Hub) Publish(events ...mcpvisor.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.seq++
		e.Seq = h.seq
		h.history.add(e)
		h.summaries.add(&e)
		for w := range h.watchers {
			w.enqueue(e)
		}
	}
}

// Hold stops Publish and Watch until release is called. It is for tests, which look
// at what the publisher has done up to this point.
func (h *Hub) Hold() (release func()) {
	h.mu.Lock()
	return h.mu.Unlock
}

// Watch subscribes at once to events of the given kinds; no kinds means all. EventMissed
// is always delivered. The channel is closed when ctx ends, or when the hub is closed and
// everything was delivered.
func (h *Hub) Watch(ctx context.Context, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	return h.watch(ctx, newWatcher(kinds...), nil)
}

// WatchFrom is Watch that first delivers the kept events with a higher Seq than after. No
// event comes twice, and none is left out between these and the later ones. If events after
// that Seq are no longer kept, EventMissed comes first.
func (h *Hub) WatchFrom(ctx context.Context, after uint64, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	w := newWatcher(kinds...)
	return h.watch(ctx, w, func() {
		events, missed := h.afterLocked(after)
		w.missed = missed
		for _, e := range events {
			w.enqueue(e)
		}
	})
}

// watch subscribes a watcher. replay, if set, fills its queue before the next event is
// published.
func (h *Hub) watch(ctx context.Context, w *watcher, replay func()) <-chan mcpvisor.Event {
	out := make(chan mcpvisor.Event)
	h.mu.Lock()
	if replay != nil {
		replay()
	}
	if w.ended = h.closed; !h.closed {
		h.watchers[w] = struct{}{}
	}
	h.mu.Unlock()
	w.signal()
	go func() {
		defer close(out)
		defer h.remove(w)
		w.deliver(ctx, out)
	}()
	return out
}

func (h *Hub) remove(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone += w.totalMissed()
	delete(h.watchers, w)
}

// After returns the kept events with a higher Seq than seq, in order, and how many such
// events are no longer kept. If seq is beyond the last event, it counts as 0: it is not
// from this hub.
func (h *Hub) After(seq uint64) (events []mcpvisor.Event, missed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.afterLocked(seq)
}

func (h *Hub) afterLocked(seq uint64) (events []mcpvisor.Event, missed uint64) {
	if seq > h.seq {
		seq = 0
	}
	events = h.history.after(seq)
	return events, h.seq - seq - uint64(len(events))
}

// Summaries returns the summaries that have changed since the event of a number, in the order of
// their last events, and how many were displaced so far. A number beyond the last event counts as
// 0.
func (h *Hub) Summaries(after uint64) (all []monitor.EventSummary, dropped uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after > h.seq {
		after = 0
	}
	return h.summaries.after(after), h.summaries.dropped
}

// Stats returns the Seq of the last event, and how many events slow watchers have missed,
// all together.
func (h *Hub) Stats() (last, missed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed = h.gone
	for w := range h.watchers {
		missed += w.totalMissed()
	}
	return h.seq, missed
}

// Close ends every watch after what waits has been delivered.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.watchers {
		w.end()
	}
}

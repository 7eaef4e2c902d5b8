package events

import (
	"context"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// Hub hands events to watchers. Publishing never blocks. Safe for concurrent use.
type Hub struct {
	mu       sync.Mutex
	seq      uint64 // of the last event
	watchers map[*watcher]struct{}
	closed   bool
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
	out := make(chan mcpvisor.Event)
	w := newWatcher(kinds...)
	h.mu.Lock()
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
	delete(h.watchers, w)
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

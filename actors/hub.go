package actors

import (
	"context"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/mcpvisor/mcpvisor"
)

// maxWatcherEvents is how many events wait for one watcher; beyond it the oldest
// are dropped and the watcher is told how many.
const maxWatcherEvents = 1024

// maxWatcherBytes is how much memory the events that wait for one watcher may take.
const maxWatcherBytes = 8 << 20

// eventHub hands events to watchers. Publishing never waits for anybody.
type eventHub struct {
	mu       sync.Mutex
	seq      uint64
	watchers map[*watcher]struct{}
	closed   bool
}

// watcher is one who watches. What servers tell of themselves waits apart from
// the news of them, so that it cannot push those out.
type watcher struct {
	mu                              sync.Mutex
	supervisionEvents, serverEvents []queuedEvent
	bytes                           int // of those that wait
	missed                          uint64
	ended                           bool
	wake                            chan struct{}
	// kinds are those that the watcher gets; none means all. They do not change.
	kinds []mcpvisor.EventKind
}

// queuedEvent is an event that waits, with its size at the time when it came: others
// have the same event, and may change what it points at.
type queuedEvent struct {
	mcpvisor.Event
	bytes int
}

func newEventHub() *eventHub { return &eventHub{watchers: map[*watcher]struct{}{}} }

func (h *eventHub) publish(events ...mcpvisor.Event) {
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

// maxServerEvents is how many of those that wait may be of the servers' own telling: a
// server that talks too much must not cost a watcher the news of another.
const maxServerEvents = maxWatcherEvents / 2

// enqueue queues an event, unless it is of a kind that the watcher did not ask for: such
// an event takes no room and displaces no other.
func (w *watcher) enqueue(e mcpvisor.Event) {
	if len(w.kinds) > 0 && !slices.Contains(w.kinds, e.Kind) {
		return
	}
	w.mu.Lock()
	mine, most := &w.supervisionEvents, maxWatcherEvents
	if isServerEvent(e) {
		mine, most = &w.serverEvents, maxServerEvents
	}
	size := bytesOf(&e)
	for w.bytes+size > maxWatcherBytes && len(w.supervisionEvents)+len(w.serverEvents) > 0 {
		if len(w.serverEvents) > 0 {
			w.drop(&w.serverEvents)
		} else {
			w.drop(&w.supervisionEvents)
		}
	}
	full := len(w.supervisionEvents)+len(w.serverEvents) >= maxWatcherEvents
	switch {
	case full && len(w.serverEvents) > 0:
		w.drop(&w.serverEvents)
	case len(*mine) >= most:
		w.drop(mine)
	case full: // of news, and this is none
		w.missed++
		w.mu.Unlock()
		w.signal()
		return
	}
	*mine = append(*mine, queuedEvent{e, size})
	w.bytes += size
	w.mu.Unlock()
	w.signal()
}

// bytesOf is about how much memory an event takes, with what it points at. What
// many events share counts for each of them.
func bytesOf(e *mcpvisor.Event) int {
	n := int(unsafe.Sizeof(*e)) + len(e.URI) + e.Change.Bytes()
	if e.Log != nil {
		n += len(e.Log.Logger) + len(e.Log.Text)
	}
	if e.Cause != nil {
		n += len(e.Cause.Message)
		for _, line := range e.Cause.Stderr {
			n += len(line) + int(unsafe.Sizeof(line))
		}
	}
	return n
}

// drop makes room by the oldest of a queue.
func (w *watcher) drop(queue *[]queuedEvent) {
	w.pop(queue)
	w.missed++
}

// pop removes the oldest of a queue.
func (w *watcher) pop(queue *[]queuedEvent) mcpvisor.Event {
	first := (*queue)[0]
	(*queue)[0] = queuedEvent{} // the array stays until the queue grows
	*queue = (*queue)[1:]
	w.bytes -= first.bytes
	return first.Event
}

func isServerEvent(e mcpvisor.Event) bool {
	return e.Kind == mcpvisor.EventLog || e.Kind == mcpvisor.EventResourceUpdated
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next returns the oldest event that waits, or first a notice of what was lost. ok
// is false when nothing waits; ended says that nothing will.
func (w *watcher) next() (e mcpvisor.Event, ok, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.missed > 0:
		e = mcpvisor.Event{Kind: mcpvisor.EventMissed, Time: time.Now(), Missed: w.missed}
		w.missed = 0
	case len(w.supervisionEvents) > 0 && (len(w.serverEvents) == 0 || w.supervisionEvents[0].Seq <= w.serverEvents[0].Seq): // in the order of publication
		e = w.pop(&w.supervisionEvents)
	case len(w.serverEvents) > 0:
		e = w.pop(&w.serverEvents)
	default:
		w.supervisionEvents, w.serverEvents = nil, nil
		return e, false, w.ended
	}
	return e, true, false
}

// watch subscribes at once. The channel is closed when ctx ends, or when the
// runtime has closed and everything was delivered. Only events of the given kinds are
// delivered; no kinds means all. EventMissed is always delivered.
func (h *eventHub) watch(ctx context.Context, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	out := make(chan mcpvisor.Event)
	w := &watcher{wake: make(chan struct{}, 1), kinds: slices.Clone(kinds)}
	h.mu.Lock()
	if w.ended = h.closed; !h.closed {
		h.watchers[w] = struct{}{}
	}
	h.mu.Unlock()
	w.signal()
	go func() {
		defer close(out)
		defer func() {
			h.mu.Lock()
			delete(h.watchers, w)
			h.mu.Unlock()
		}()
		for {
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			}
			for {
				e, ok, ended := w.next()
				if ended {
					return
				}
				if !ok {
					break
				}
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

// close ends every watch after what is waiting has been delivered.
func (h *eventHub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.watchers {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.signal()
	}
}

package actors

import (
	"context"
	"sync"
	"time"
	"unsafe"

	"github.com/mcpvisor/mcpvisor"
)

// watcherQueue is how many events wait for one watcher; beyond it the oldest
// are dropped and the watcher is told how many.
const watcherQueue = 1024

// watcherBytes is how much memory the events that wait for one watcher may take.
const watcherBytes = 8 << 20

// hub hands events to watchers. Publishing never waits for anybody.
type hub struct {
	mu       sync.Mutex
	seq      uint64
	watchers map[*watcher]struct{}
	closed   bool
}

// watcher is one who watches. What servers tell of themselves waits apart from
// the news of them, so that it cannot push those out.
type watcher struct {
	mu         sync.Mutex
	news, chat []queued
	bytes      int // of those that wait
	missed     uint64
	ended      bool
	wake       chan struct{}
}

// queued is an event that waits, with its size at the time when it came: others
// have the same event, and may change what it points at.
type queued struct {
	mcpvisor.Event
	bytes int
}

func newHub() *hub { return &hub{watchers: map[*watcher]struct{}{}} }

func (h *hub) emit(events ...mcpvisor.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.seq++
		e.Seq = h.seq
		for w := range h.watchers {
			w.put(e)
		}
	}
}

// chatQueue is how many of those that wait may be of the servers' own telling: a
// server that talks too much must not cost a watcher the news of another.
const chatQueue = watcherQueue / 2

func (w *watcher) put(e mcpvisor.Event) {
	w.mu.Lock()
	mine, most := &w.news, watcherQueue
	if isChat(e) {
		mine, most = &w.chat, chatQueue
	}
	size := bytesOf(&e)
	for w.bytes+size > watcherBytes && len(w.news)+len(w.chat) > 0 {
		if len(w.chat) > 0 {
			w.drop(&w.chat)
		} else {
			w.drop(&w.news)
		}
	}
	full := len(w.news)+len(w.chat) >= watcherQueue
	switch {
	case full && len(w.chat) > 0:
		w.drop(&w.chat)
	case len(*mine) >= most:
		w.drop(mine)
	case full: // of news, and this is none
		w.missed++
		w.mu.Unlock()
		w.ring()
		return
	}
	*mine = append(*mine, queued{e, size})
	w.bytes += size
	w.mu.Unlock()
	w.ring()
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
func (w *watcher) drop(queue *[]queued) {
	w.pop(queue)
	w.missed++
}

// pop removes the oldest of a queue.
func (w *watcher) pop(queue *[]queued) mcpvisor.Event {
	first := (*queue)[0]
	(*queue)[0] = queued{} // the array stays until the queue grows
	*queue = (*queue)[1:]
	w.bytes -= first.bytes
	return first.Event
}

func isChat(e mcpvisor.Event) bool {
	return e.Kind == mcpvisor.EventLog || e.Kind == mcpvisor.EventResourceUpdated
}

func (w *watcher) ring() {
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
	case len(w.news) > 0 && (len(w.chat) == 0 || w.news[0].Seq <= w.chat[0].Seq): // in the order of publication
		e = w.pop(&w.news)
	case len(w.chat) > 0:
		e = w.pop(&w.chat)
	default:
		w.news, w.chat = nil, nil
		return e, false, w.ended
	}
	return e, true, false
}

// watch subscribes at once. The channel is closed when ctx ends, or when the
// runtime has closed and everything was delivered.
func (h *hub) watch(ctx context.Context) <-chan mcpvisor.Event {
	out := make(chan mcpvisor.Event)
	w := &watcher{wake: make(chan struct{}, 1)}
	h.mu.Lock()
	if w.ended = h.closed; !h.closed {
		h.watchers[w] = struct{}{}
	}
	h.mu.Unlock()
	w.ring()
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
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.watchers {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.ring()
	}
}

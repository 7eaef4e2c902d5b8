package actors

import (
	"context"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
)

// watcherQueue is how many events wait for one watcher; beyond it the oldest
// are dropped and the watcher is told how many.
const watcherQueue = 1024

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
	news, chat []messages.Event
	missed     uint64
	ended      bool
	wake       chan struct{}
}

func newHub() *hub { return &hub{watchers: map[*watcher]struct{}{}} }

func (h *hub) emit(events ...messages.Event) {
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

func (w *watcher) put(e messages.Event) {
	w.mu.Lock()
	mine, most := &w.news, watcherQueue
	if isChat(e) {
		mine, most = &w.chat, chatQueue
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
	*mine = append(*mine, e)
	w.mu.Unlock()
	w.ring()
}

// drop makes room by the oldest of a queue.
func (w *watcher) drop(queue *[]messages.Event) {
	*queue = (*queue)[1:]
	w.missed++
}

func isChat(e messages.Event) bool {
	return e.Kind == messages.EventLog || e.Kind == messages.EventResourceUpdated
}

func (w *watcher) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns what is waiting, with a notice in front if something was lost.
func (w *watcher) take() (events []messages.Event, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missed > 0 {
		events = append(events, messages.Event{Kind: messages.EventMissed, Time: time.Now(), Missed: w.missed})
		w.missed = 0
	}
	for len(w.news) > 0 && len(w.chat) > 0 { // in the order in which they were published
		from := &w.news
		if w.chat[0].Seq < w.news[0].Seq {
			from = &w.chat
		}
		events, *from = append(events, (*from)[0]), (*from)[1:]
	}
	events = append(append(events, w.news...), w.chat...)
	w.news, w.chat = nil, nil
	return events, w.ended
}

// watch subscribes at once. The channel is closed when ctx ends, or when the
// runtime has closed and everything was delivered.
func (h *hub) watch(ctx context.Context) <-chan messages.Event {
	out := make(chan messages.Event)
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
			events, ended := w.take()
			for _, e := range events {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			if ended {
				return
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

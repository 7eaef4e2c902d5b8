package actors

import (
	"context"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// maxTaskStreams bounds the streams about tasks of one session: over HTTP each one holds a
// connection, or a part of one.
const maxTaskStreams = 16

// maxEarly bounds the notifications that are kept for those who are about to watch.
const maxEarly = 16

// maxHeldTasks bounds the ids that an incarnation remembers for [View.HoldTask].
const maxHeldTasks = 4096

// taskWatches are the tasks of one incarnation about whose changes callers want to hear, and
// the streams on which the server tells them (2026-07-28, subscriptions/listen with taskIds).
// A server of 2025-11-25 tells them unasked. The zero value is empty. Safe for concurrent use.
type taskWatches struct {
	mu      sync.Mutex                         // guards the fields below
	byID    map[string]map[*TaskWatch]struct{} // by the id of the task
	early   []string                           // the ids of the last notifications without a watcher
	held    []string                           // the ids of tasks that are open for calls; the oldest first
	streams map[int64]*TaskWatch               // by the id of their request
	opened  int                                // streams that have not ended
	honored bool                               // the server has acknowledged a task
	refused bool                               // it has not, when it was asked first: it is not asked again
}

// HoldTask notes that a task of the incarnation in the view is open for a call. made: the server has
// made it of the call; HoldTask then reports false if it is open for another call: both would get
// the result of one.
func (v *View) HoldTask(id string, made bool) bool {
	if v.current == nil {
		return true
	}
	all := &v.current.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	if made && slices.Contains(all.held, id) {
		return false
	}
	if len(all.held) == maxHeldTasks {
		all.held = slices.Delete(all.held, 0, 1)
	}
	all.held = append(all.held, id)
	return true
}

// DropTask ends what HoldTask has begun.
func (v *View) DropTask(id string) {
	if v.current == nil {
		return
	}
	all := &v.current.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	if at := slices.Index(all.held, id); at >= 0 {
		all.held = slices.Delete(all.held, at, at+1)
	}
}

// TaskWatch tells one caller that a task may have changed. The caller stops it.
type TaskWatch struct {
	// Changed gets an element when the task may have changed since it was received from last.
	Changed <-chan struct{}

	changed chan<- struct{}
	rt      *Runtime
	inc     *incarnation
	id      string
	ctx     context.Context // of the stream; ends with the watch
	stop    context.CancelFunc

	// Guarded by taskWatches.mu.
	listening bool // a stream is open
	acked     bool // the server has acknowledged it
}

// WatchTask watches a task of the incarnation in a view.
func (rt *Runtime) WatchTask(v *View, id string) *TaskWatch {
	changed := make(chan struct{}, 1)
	w := &TaskWatch{Changed: changed, changed: changed, rt: rt, inc: v.current, id: id}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if w.inc == nil {
		return w
	}
	w.inc.following.Add(1)
	all := &w.inc.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byID == nil {
		all.byID = map[string]map[*TaskWatch]struct{}{}
	}
	if all.byID[id] == nil {
		all.byID[id] = map[*TaskWatch]struct{}{}
	}
	all.byID[id][w] = struct{}{}
	if at := slices.Index(all.early, id); at >= 0 { // it came before the answer to the call was read
		all.early = slices.Delete(all.early, at, at+1)
		w.wakeLocked()
	}
	return w
}

// Stop ends the watch, and its stream.
func (w *TaskWatch) Stop() {
	ended := w.ctx.Err() != nil
	w.stop()
	if w.inc == nil || ended {
		return
	}
	all := &w.inc.tasks
	all.mu.Lock()
	if delete(all.byID[w.id], w); len(all.byID[w.id]) == 0 {
		delete(all.byID, w.id)
	}
	all.mu.Unlock()
	w.inc.following.Add(-1)
	w.inc.checkIdle()
}

// TaskTaken ends what the result [transport.ErrTask] of a request has begun: until then, the call counts
// as one in flight.
func (v *View) TaskTaken() {
	v.current.following.Add(-1)
	v.current.checkIdle()
}

// wakeLocked notes that the task may have changed. Call it with taskWatches.mu held.
func (w *TaskWatch) wakeLocked() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Listen asks the server to tell when the task changes, unless it was asked, does not do that,
// or has enough to tell already. It does not wait for an answer. A stream that ends is not opened
// again before the next Listen.
func (w *TaskWatch) Listen(v *View) {
	if w.inc == nil || w.inc != v.current || v.State != supervisor.StateReady || !v.Modern() {
		return
	}
	all := &w.inc.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.listening || w.ctx.Err() != nil || all.refused || all.opened >= maxTaskStreams {
		return
	}
	w.listening, w.acked = true, false
	all.opened++
	w.rt.goSafe("port", w.listen, nil)
}

// listen holds the stream of the watch open until that or the session ends, or the server ends
// it.
func (w *TaskWatch) listen() {
	all := &w.inc.tasks
	var sent int64
	request := transport.Request{Method: "subscriptions/listen", Params: task.ListenParams(w.id),
		Stream: &transport.Stream{CancelGrace: subscription.CancelGrace, Sent: func(id int64) {
			all.mu.Lock()
			defer all.mu.Unlock()
			if all.streams == nil {
				all.streams = map[int64]*TaskWatch{}
			}
			delete(all.streams, sent)
			sent, all.streams[id] = id, w
		}}}
	_, _ = w.inc.session.Request(w.ctx, request) // what the server says of the stream comes before it ends
	all.mu.Lock()
	delete(all.streams, sent)
	w.listening = false
	all.opened--
	if w.ctx.Err() == nil {
		all.refused = !all.honored
	}
	honored := all.honored
	all.mu.Unlock()
	if !honored && w.inc.session.Cause() == nil { // a server that honors tasks does not forget
		w.rt.send(w.inc.port, &otherStreamEnded{})
	}
}

// onChanged handles a notification about a task.
func (all *taskWatches) onChanged(id string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.byID[id]) == 0 {
		if len(all.early) == maxEarly {
			all.early = slices.Delete(all.early, 0, 1)
		}
		all.early = append(all.early, id)
	}
	for w := range all.byID[id] {
		w.wakeLocked()
	}
}

// onAck handles the acknowledgement of a stream about a task. It reports false for one of
// another stream. The task may have changed before, so that counts as a change.
func (all *taskWatches) onAck(n transport.Notice) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	w := all.streams[n.Stream]
	if n.Stream == 0 { // the server does not name it
		for _, other := range all.streams {
			if slices.Contains(n.Tasks, other.id) {
				w = other
			}
		}
	}
	switch {
	case w == nil:
		return false
	case w.acked:
	case slices.Contains(n.Tasks, w.id):
		w.acked, all.honored = true, true
		w.wakeLocked()
	default:
		all.refused = !all.honored
		w.stop()
	}
	return true
}

// otherStreamEnded: a stream that is not of the subscriber has ended, and the server may be
// one that forgets others then. A port sends it to itself.
type otherStreamEnded struct{ messages.Base }

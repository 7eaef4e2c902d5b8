package actors

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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

// maxHeldTasks bounds the tasks that an incarnation remembers for [View.HoldTask].
const maxHeldTasks = 4096

// taskWatches are the tasks of one incarnation about whose changes callers want to hear, and
// the streams on which the server tells them (2026-07-28, subscriptions/listen with taskIds).
// A server of 2025-11-25 tells them unasked. The zero value is empty. Safe for concurrent use.
type taskWatches struct {
	mu      sync.Mutex                         // guards the fields below
	byID    map[string]map[*TaskWatch]struct{} // by the id of the task
	early   []string                           // the ids of the last notifications without a watcher
	held    []*HeldTask                        // the oldest first
	asked   map[string]time.Time               // when callers that come and go asked last for their tasks, by id
	streams map[int64]*TaskWatch               // by the id of their request
	opened  int                                // streams that have not ended
	honored bool                               // the server has acknowledged a task
	refused bool                               // it has not, when it was asked first: it is not asked again
}

// HeldTask is a task of an incarnation that a call has, or had, open: its server may give the id to
// another task when that has ended, when its ttl is over, and after a restart that was not seen.
type HeldTask struct {
	all     *taskWatches
	id      string
	created time.Time
	until   time.Time // the end of its ttl; zero: none
	made    bool
	dropped bool // guarded by all.mu, which may hold it still
}

func (h *HeldTask) openLocked() bool {
	return !h.dropped && (h.until.IsZero() || time.Now().Before(h.until))
}

// HoldTask notes that a task of the incarnation in the view is open for a call. made: the server has
// made it of the call; HoldTask then returns nil if it is open for another call: both would get
// the result of one.
func (v *View) HoldTask(t *task.Task, made bool) *HeldTask {
	h := &HeldTask{all: new(taskWatches), id: strings.Clone(t.ID), created: t.Created, made: made}
	if v.current != nil {
		h.all = &v.current.tasks
	}
	if t.TTL > 0 {
		h.until = time.Now().Add(t.TTL)
	}
	unseen := v.HasNoSession()
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if made && slices.ContainsFunc(h.all.held, func(o *HeldTask) bool {
		return o.id == h.id && o.openLocked() && (!unseen || o.created.Equal(h.created))
	}) {
		return nil
	}
	if len(h.all.held) == maxHeldTasks {
		at := max(0, slices.IndexFunc(h.all.held, func(o *HeldTask) bool { return !o.openLocked() }))
		h.all.held = slices.Delete(h.all.held, at, at+1)
	}
	h.all.held = append(h.all.held, h)
	return h
}

// Drop ends what HoldTask has begun. It has no effect the second time.
func (h *HeldTask) Drop() {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.dropped = true
}

// askedTask is how long a task counts as use of its server after a caller that comes and goes has asked for it.
const askedTask = 10 * time.Minute

// TaskAsked notes that a caller that comes and goes has a task of the incarnation, and asks for it now.
func (v *View) TaskAsked(id string) {
	if v.current == nil {
		return
	}
	all := &v.current.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.asked == nil {
		all.asked = map[string]time.Time{}
	}
	if _, known := all.asked[id]; !known && len(all.asked) == maxHeldTasks {
		return // these are use enough
	}
	all.asked[strings.Clone(id)] = time.Now()
}

// isAsked reports whether a task counts as use because of TaskAsked.
func (all *taskWatches) isAsked() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	maps.DeleteFunc(all.asked, func(_ string, last time.Time) bool { return time.Since(last) >= askedTask })
	return len(all.asked) > 0
}

// DropTask is [HeldTask.Drop] by what identifies the task.
func (v *View) DropTask(id string, created time.Time) {
	if v.current == nil {
		return
	}
	all := &v.current.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.asked, id)
	for _, h := range all.held {
		h.dropped = h.dropped || h.id == id && h.created.Equal(created)
	}
}

// MadeForAnother reports whether the incarnation has made the task for another call than that of own. here: it has made a task
// of that call, which the first follower of the call holds. A later one cannot tell that from another call's.
func (v *View) MadeForAnother(t *task.Task, own *HeldTask, here bool) bool {
	if v.current == nil || here && (own == nil || !own.made) {
		return false
	}
	all := &v.current.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, h := range slices.Backward(all.held) {
		if h.made && h.id == t.ID && h.created.Equal(t.Created) {
			return h != own
		}
	}
	return false
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
	w.stop() // the stream; it has ended before if the server does not tell of this task
	if w.inc == nil {
		return
	}
	all := &w.inc.tasks
	all.mu.Lock()
	_, watched := all.byID[w.id][w]
	if delete(all.byID[w.id], w); len(all.byID[w.id]) == 0 {
		delete(all.byID, w.id)
	}
	all.mu.Unlock()
	if !watched { // it was stopped before
		return
	}
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

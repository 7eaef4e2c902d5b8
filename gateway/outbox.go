package gateway

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

// exchange is where the answers to requests are written: the connection of a Transport, one POST, or the stream of a
// session.
type exchange struct {
	session *session
	out     *outbox       // what waits to be written
	http    *httpExchange // of a POST; nil otherwise
	asks    bool          // it may get questions, because the client reads a stream
}

// outbox holds messages for the client until they are read: those of one exchange. A client
// that does not read delays no other one, and what waits for it is bounded: only the newest progress report of
// a request is kept, the notifier bounds other notifications, and MaxUnreadBytes bounds answers and
// questions. While the client reads nothing, MaxQueuedBytes does so.
type outbox struct {
	wake    chan struct{} // holds a value while something may be there
	limits  *Limits       // read only
	stalled func()        // read only; called when the client reads nothing, see watchLocked; nil over HTTP
	notify  *notifier     // has the notifications that are not in queue; nil: there are none
	room    answerRoom    // counts large answers; read only

	broken  atomic.Bool  // the connection of the client has broken: what was read last may not have arrived
	dropped atomic.Int64 // requests that ended without an answer

	mu         sync.Mutex // guards the fields below
	queue      []outgoing // oldest first
	bytes      int        // of the answers and questions in queue
	notifyNext bool       // the next message comes from notify, and not from queue: they take turns
	logs       int        // log messages in queue
	logBytes   int        // of these log messages
	closed     bool       // the session has ended

	reads uint64         // what the peer has read so far: messages, and pieces of large ones
	watch *overdue.Timer // runs while more than MaxQueuedBytes wait; nil without stalled
}

// outgoing is one message that a request has caused: its answer, a question, or a notification. If it
// has none of them, it is the progress of the request.
type outgoing struct {
	request      *request
	answer       *jsonrpc.Response
	question     *question
	notification jsonrpc.Message
	logBytes     int // of a notification that is a log message
}

// answerRoom bounds the large answers that were not read, in bytes: the [budget.Budget] of a session, or that of a principal
// over HTTP.
type answerRoom interface {
	Take(bytes int) bool
	Return(bytes int)
}

func newOutbox(limits *Limits, notify *notifier, room answerRoom) *outbox {
	o := &outbox{wake: make(chan struct{}, 1), limits: limits, notify: notify, room: room}
	if notify != nil {
		notify.ReadBy(0, o.signal)
	}
	return o
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// answerCost is the memory that a message takes in addition to its text, in bytes.
const answerCost = 512

func answerBytes(a *jsonrpc.Response) int {
	n := answerCost + len(a.Result)
	if wire, ok := a.Error.(*jsonrpc.Error); ok {
		n += len(wire.Message) + len(wire.Data)
	}
	if id, ok := a.ID.Raw().(string); ok {
		n += len(id)
	}
	return n
}

// addAnswer adds the answer to a request. It reports false if the client has too much unread: then the
// session ends.
func (o *outbox) addAnswer(r *request, a *jsonrpc.Response) bool {
	n := answerBytes(a)
	o.mu.Lock()
	closed, fits := o.closed, o.bytes == 0 || o.bytes+n <= o.limits.MaxUnreadBytes
	if !closed && fits {
		o.bytes += n
		o.queue = append(o.queue, outgoing{request: r, answer: a})
		o.watchLocked()
	}
	o.mu.Unlock()
	if closed || !fits {
		o.returnRoom(r)
	}
	o.signal()
	return closed || fits
}

func (o *outbox) returnRoom(r *request) {
	o.room.Return(r.room)
	r.room = 0
}

// addShort adds a short answer in place of one that does not fit. Each request has one at most, so it
// needs no bound.
func (o *outbox) addShort(r *request, a *jsonrpc.Response) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	defer o.signal()
	o.bytes += answerBytes(a)
	o.queue = append(o.queue, outgoing{request: r, answer: a})
}

// addProgress adds a progress report of a request. It replaces a report that is not read yet.
func (o *outbox) addProgress(r *request, p mcpvisor.Progress) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if r.progress == nil {
		o.queue = append(o.queue, outgoing{request: r})
		o.signal()
	}
	r.progress = &p
}

func (o *outgoing) isProgress() bool {
	return o.answer == nil && o.question == nil && o.notification == nil
}

func questionBytes(q *question) int { return answerCost + len(q.Params) }

// addQuestion adds a question that the request causes. It reports false if the peer has too much unread,
// or is gone.
func (o *outbox) addQuestion(r *request, q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := questionBytes(q)
	if o.closed || o.bytes > 0 && o.bytes+n > o.limits.MaxUnreadBytes {
		return false
	}
	o.bytes += n
	o.queue = append(o.queue, outgoing{request: r, question: q})
	o.watchLocked()
	o.signal()
	return true
}

// removeLocked removes a question that is not read yet. It reports false if the queue does not have it.
func (o *outbox) removeLocked(q *question) bool {
	n := len(o.queue)
	o.queue = slices.DeleteFunc(o.queue, func(waits outgoing) bool { return waits.question == q })
	if len(o.queue) == n {
		return false
	}
	o.bytes -= questionBytes(q)
	return true
}

// takeQuestion removes a question that is not read yet, so that it can move to another outbox. It
// reports false if the queue does not have it.
func (o *outbox) takeQuestion(q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.removeLocked(q)
}

// withdrawQuestion ends a question. If the peer has read it, it is told; otherwise it never sees the
// question.
func (o *outbox) withdrawQuestion(r *request, q *question) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.removeLocked(q)
	if !q.sent.Load() || o.closed {
		return
	}
	o.queue = append(o.queue, outgoing{request: r, notification: message.Notification("notifications/cancelled", map[string]any{"requestId": q.ID.Raw()})})
	o.signal()
}

// addNotification adds a notification that the request causes. Package elicited bounds how many there are.
func (o *outbox) addNotification(r *request, notification jsonrpc.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && !r.canceled.Load() {
		o.queue = append(o.queue, outgoing{request: r, notification: notification})
		o.signal()
	}
}

// addLog adds a log message about a request. If too many are not read, the oldest are dropped.
func (o *outbox) addLog(r *request, m mcpvisor.LogMessage) {
	notification := message.Notification("notifications/message", notices.LogParams(m))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || r.canceled.Load() || notification == nil {
		return
	}
	n := answerCost + len(m.Text)
	o.queue = append(o.queue, outgoing{request: r, notification: notification, logBytes: n})
	o.logs++
	o.logBytes += n
	for o.logs > notices.MaxLogs || o.logBytes > notices.MaxLogBytes+answerCost*notices.MaxLogs {
		at := slices.IndexFunc(o.queue, func(waits outgoing) bool { return waits.logBytes > 0 })
		o.forgetLogLocked(o.queue[at])
		o.queue = slices.Delete(o.queue, at, at+1)
	}
	o.signal()
}

func (o *outbox) forgetLogLocked(waits outgoing) {
	if waits.logBytes > 0 {
		o.logs--
		o.logBytes -= waits.logBytes
	}
}

// drop records that a request ends without an answer, and drops its progress.
func (o *outbox) drop(r *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.signal()
	o.dropped.Add(1)
	if r.progress != nil {
		r.progress = nil
		o.queue = slices.DeleteFunc(o.queue, func(waits outgoing) bool { return waits.request == r && waits.isProgress() })
	}
}

// next returns the next message for the peer; nil without one. ended is the request that ends with
// the message; nil if none does. The caller must call next until it returns nil: wake is not signaled
// again for messages that were already there.
func (o *outbox) next() (m jsonrpc.Message, ended *request) {
	o.mu.Lock()
	notifyFirst := o.notifyNext
	o.notifyNext = !notifyFirst
	o.mu.Unlock()
	defer func() {
		if m != nil {
			o.noteRead()
		}
	}()
	if notifyFirst && o.notify != nil {
		if m = o.notify.Next(); m != nil {
			return m, nil
		}
	}
	if m, ended = o.nextOfQueue(); m != nil || notifyFirst || o.notify == nil {
		return m, ended
	}
	return o.notify.Next(), nil
}

func (o *outbox) nextOfQueue() (m jsonrpc.Message, ended *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 {
		first := o.queue[0]
		o.queue[0] = outgoing{}
		if o.queue = o.queue[1:]; len(o.queue) == 0 {
			o.queue = nil
		}
		if first.answer != nil {
			o.bytes -= answerBytes(first.answer)
			return first.answer, first.request
		}
		if q := first.question; q != nil {
			o.bytes -= questionBytes(q)
			q.sent.Store(true)
			return q.Request, nil
		}
		if first.notification != nil {
			o.forgetLogLocked(first)
			return first.notification, nil
		}
		progress := first.request.progress
		first.request.progress = nil
		if first.request.canceled.Load() { // the peer no longer knows the token
			continue
		}
		if text, err := json.Marshal(progressParams{ProgressToken: first.request.token, Progress: *progress}); err == nil {
			return &jsonrpc.Request{Method: "notifications/progress", Params: text}, nil
		}
	}
	return nil, nil
}

// close drops all messages, and those that are added later.
func (o *outbox) close() {
	o.mu.Lock()
	unread := o.queue
	o.closed, o.queue, o.bytes, o.logs, o.logBytes = true, nil, 0, 0, 0
	if o.watch != nil {
		o.watch.Stop()
	}
	o.mu.Unlock()
	for _, waits := range unread {
		if waits.answer != nil {
			o.returnRoom(waits.request)
		}
	}
}

// noteRead records that the peer has read a message, or a piece of a large one.
func (o *outbox) noteRead() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
}

// watchLocked starts the timer that calls stalled, if more than MaxQueuedBytes wait. It calls stalled if
// as many still wait after StallTimeout, and the peer has read nothing meanwhile.
func (o *outbox) watchLocked() {
	if o.stalled == nil || o.closed || o.watch != nil || o.bytes <= o.limits.MaxQueuedBytes {
		return
	}
	reads := o.reads
	o.watch = overdue.AfterFunc(o.limits.StallTimeout, func() {
		o.mu.Lock()
		stalls := !o.closed && o.bytes > o.limits.MaxQueuedBytes && o.reads == reads
		o.watch = nil
		if !stalls {
			o.watchLocked()
		}
		o.mu.Unlock()
		if stalls {
			o.stalled()
		}
	})
}

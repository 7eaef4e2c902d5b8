package gateway

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
)

// outbox holds what a session has for its peer until Read takes it. Nothing waits for a peer
// that does not read: of the progress of a request only the newest report is kept, other
// notifications are bounded by the notifier, and the bytes of answers by MaxUnreadBytes. While the peer
// reads nothing, the bound is MaxQueuedBytes.
type outbox struct {
	wake     chan struct{} // holds a value while something may be there
	limits   *Limits       // read only
	stalled  func()        // read only: the peer reads nothing, and more than MaxQueuedBytes wait; nil: something else notices
	overflow func()        // read only: more than MaxUnreadBytes wait; nil for a whole session, which ends
	notify   *notifier     // all notifications but progress; nil if there are no others
	asks     bool          // read only: it may have questions, because the peer reads a stream
	http     *exchange     // read only: whose answers it has; nil for a whole session

	mu       sync.Mutex // guards the fields below
	queue    []outgoing // oldest first
	bytes    int        // of the answers in queue
	noteNext bool       // a notification is before the next of queue, so that neither waits for many of the others
	logs     int        // log messages in queue
	logBytes int        // of these
	closed   bool       // the session has ended
	broken   bool       // see noteBreak
	dropped  int        // requests that ended without an answer

	reads uint64      // what the peer has read so far: messages, and pieces of large ones
	watch *time.Timer // runs while more than MaxQueuedBytes wait; nil without stalled
}

// outgoing is the answer to a request, a question because of it, a message about it or, without these,
// its progress.
type outgoing struct {
	request  *request
	answer   *jsonrpc.Response
	question *question
	note     jsonrpc.Message
	logBytes int // of a note that is a log message
}

func newOutbox(limits *Limits, notify *notifier) *outbox {
	o := &outbox{wake: make(chan struct{}, 1), limits: limits, notify: notify}
	if notify != nil {
		notify.WakeWith(o.signal)
	}
	return o
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// answerCost is what an answer holds beside its text, in bytes.
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

// addAnswer adds the answer to a request. It reports false if more waits than the peer may
// leave unread: the session ends then.
func (o *outbox) addAnswer(r *request, a *jsonrpc.Response) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.byReader {
		defer o.signal()
	}
	n := answerBytes(a)
	if o.closed {
		return true
	}
	fits := o.bytes == 0 || o.bytes+n <= o.limits.MaxUnreadBytes
	if fits {
		o.bytes += n
		o.queue = append(o.queue, outgoing{request: r, answer: a})
		o.watchLocked()
	}
	return fits
}

// addShort adds an answer in place of one that does not fit. It is small, and there is one for each request at most.
func (o *outbox) addShort(r *request, a *jsonrpc.Response) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.signal()
	o.bytes += answerBytes(a)
	o.queue = append(o.queue, outgoing{request: r, answer: a})
}

// addProgress adds a report of the progress of a request. It replaces one that is not read yet.
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

func (g *outgoing) isProgress() bool { return g.answer == nil && g.question == nil && g.note == nil }

func questionBytes(q *question) int { return answerCost + len(q.Params) }

// addQuestion adds a question because of a request. It reports false if the peer has too much unread, or
// is gone.
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

// isSent reports whether the peer has read a question.
func (o *outbox) isSent(q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return q.sent
}

// removeLocked removes a question that was not read. It reports false if there is none.
func (o *outbox) removeLocked(q *question) bool {
	n := len(o.queue)
	o.queue = slices.DeleteFunc(o.queue, func(waits outgoing) bool { return waits.question == q })
	if len(o.queue) == n {
		return false
	}
	o.bytes -= questionBytes(q)
	return true
}

// takeQuestion removes a question that was not read, to be added to another outbox. It reports false if there is
// none.
func (o *outbox) takeQuestion(q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.removeLocked(q)
}

// noteBreak notes that the connection of the peer has broken: what was read last may not have arrived.
func (o *outbox) noteBreak() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken = true
}

func (o *outbox) isBroken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

// withdrawQuestion ends a question: the peer does not get it or, if it has it, is told.
func (o *outbox) withdrawQuestion(r *request, q *question) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.removeLocked(q)
	if !q.sent || o.closed {
		return
	}
	o.queue = append(o.queue, outgoing{request: r, note: message.Notification("notifications/cancelled", map[string]any{"requestId": q.ID.Raw()})})
	o.signal()
}

// addNote adds a notification because of a request. Servers bound how many there are: see package elicited.
func (o *outbox) addNote(r *request, note jsonrpc.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && !r.canceled.Load() {
		o.queue = append(o.queue, outgoing{request: r, note: note})
		o.signal()
	}
}

// addLog adds a log message about a request. Of those that are not read the newest stay.
func (o *outbox) addLog(r *request, m mcpvisor.LogMessage) {
	note := message.Notification("notifications/message", notices.LogParams(m))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || r.canceled.Load() || note == nil {
		return
	}
	n := answerCost + len(m.Text)
	o.queue = append(o.queue, outgoing{request: r, note: note, logBytes: n})
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

// drop notes that a request ends without an answer, and drops its progress.
func (o *outbox) drop(r *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.signal()
	o.dropped++
	if r.progress != nil {
		r.progress = nil
		o.queue = slices.DeleteFunc(o.queue, func(waits outgoing) bool { return waits.request == r && waits.isProgress() })
	}
}

// droppedAnswers is how many requests have ended without an answer.
func (o *outbox) droppedAnswers() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// next returns what the peer gets next; nil if there is nothing. ended is the request that
// ends with it; nil if it does not end one. Whoever calls it calls it until it returns nil: wake says nothing of what
// was there before.
func (o *outbox) next() (m jsonrpc.Message, ended *request) {
	o.mu.Lock()
	notesFirst := o.noteNext
	o.noteNext = !notesFirst
	o.mu.Unlock()
	defer func() {
		if m != nil {
			o.noteRead()
		}
	}()
	if notesFirst && o.notify != nil {
		if m = o.notify.Next(); m != nil {
			return m, nil
		}
	}
	if m, ended = o.nextOfQueue(); m != nil || notesFirst || o.notify == nil {
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
			q.sent = true
			return q.Request, nil
		}
		if first.note != nil {
			o.forgetLogLocked(first)
			return first.note, nil
		}
		progress := first.request.progress
		first.request.progress = nil
		if first.request.canceled.Load() { // canceled: the peer has forgotten the token
			continue
		}
		if text, err := json.Marshal(progressParams{ProgressToken: first.request.token, Progress: *progress}); err == nil {
			return &jsonrpc.Request{Method: "notifications/progress", Params: text}, nil
		}
	}
	return nil, nil
}

// close drops everything, and what follows, when the session has ended.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.queue, o.bytes, o.logs, o.logBytes = true, nil, 0, 0, 0
	if o.watch != nil {
		o.watch.Stop()
	}
}

// noteRead notes that the peer has read a message, or a piece of a large one.
func (o *outbox) noteRead() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
}

// watchLocked looks after StallTimeout whether the peer reads, if more waits than it may leave unread for
// that long.
func (o *outbox) watchLocked() {
	if o.stalled == nil || o.closed || o.watch != nil || o.bytes <= o.limits.MaxQueuedBytes {
		return
	}
	reads := o.reads
	o.watch = time.AfterFunc(o.limits.StallTimeout, func() {
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

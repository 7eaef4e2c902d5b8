package reader

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/poll"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// maxLead is how long a leader reads whose context may be canceled.
	maxLead = time.Millisecond
	// lingerTime is how long the goroutine waits for the next call, at most, when nothing is
	// in flight.
	lingerTime = 10 * time.Millisecond
	// lingerRounds is how many times it may do so, after several calls were in flight or a
	// leader stopped early. Then it ends although calls still follow each other.
	lingerRounds = 32
)

// State says who reads stdout; see the table of the package.
type State uint8

// The states of a [Reader].
const (
	Looping  State = iota // a goroutine of the Reader
	Leading               // the caller of the only call in flight
	Watching              // none: the poller waits for something to read
	Stopped               // no goroutine begins to read
)

// Handler handles what a [Reader] has read. Only the goroutine that reads calls it. Lines are
// valid until the method returns; see [Reader.Keep].
type Handler interface {
	// ReceiveLine handles one line, which is not empty.
	ReceiveLine(line []byte)
	// ReceiveResponse handles a line if it is a response to a call, and otherwise reports
	// false. A leader calls it, so it must not take long.
	ReceiveResponse(line []byte) (handled bool)
	// ReceiveSkipped handles the two ends of a line that was skipped: it was too long, or
	// there was no room for it.
	ReceiveSkipped(head, tail []byte, noRoom bool)
	// ReceiveUnfinished looks at the beginning of a line whose rest has not arrived yet.
	ReceiveUnfinished(begin []byte)
	// NoteReceived records that the server is alive.
	NoteReceived()
	// ReadEnded is called once, with the error that ended the stream.
	ReadEnded(err error)
}

// Call is a call in flight.
type Call interface {
	// Answered reports whether the call has ended, with an answer or with an error.
	Answered() bool
}

// Options configures a [Reader].
type Options struct {
	MaxLine int             // the longest line that is not skipped, in bytes
	Buffer  *budget.Budget  // bounds large lines; nil: without bound
	Dead    <-chan struct{} // closed at the end of the session, which ends the wait for Buffer
	OnLarge func()          // called once, at the first large line; may be nil
	Go      func(f func())  // starts a goroutine; must not block; nil: go f()
}

// Reader reads the lines of one stdout. See the package for who reads when. Safe for
// concurrent use, except for Keep, which belongs to the goroutine that reads.
type Reader struct {
	// Constant after New.
	handler Handler
	options Options
	stdout  *os.File // nil: it cannot be watched, and the goroutine always reads

	// Owned by the goroutine that reads.
	lines *lineReader
	noted int           // the reads of lines that NoteReceived knows
	share *budget.Share // what the current line holds of Buffer; nil: nothing

	// mu guards the fields below, for a moment only. Order of locks: the request table, this
	// one, the poller.
	mu       sync.Mutex
	state    State
	pinned   bool        // the goroutine stays although nothing is in flight
	calls    int         // in flight
	leader   Call        // nil unless Leading
	linger   int         // how many of lingerRounds are left
	deadline time.Time   // the read deadline of stdout; zero: none
	watch    *poll.Watch // of stdout; nil until it is first watched
}

// New returns a Reader that reads from Start on, and that does not become idle before
// AllowIdle.
func New(stdout io.Reader, h Handler, o Options) *Reader {
	if o.Go == nil {
		o.Go = func(f func()) { go f() }
	}
	r := &Reader{handler: h, options: o, lines: newLineReader(stdout, o.MaxLine), pinned: true}
	if f, ok := stdout.(*os.File); ok && f.SetReadDeadline(time.Time{}) == nil {
		r.stdout = f
	}
	r.lines.in.OnEmpty = r.mayPause
	r.lines.onUnfinished, r.lines.onLarge = h.ReceiveUnfinished, o.OnLarge
	r.lines.reserve, r.lines.free = r.reserve, r.release
	return r
}

// Start begins to read. It is called once.
func (r *Reader) Start() { r.options.Go(r.loop) }

// State returns who reads.
func (r *Reader) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Begin registers a call. others reports whether other calls are in flight. leads reports
// that the caller has to read: it calls Lead when its request is written. canRead is false
// for a caller that waits for something else beside its answer.
func (r *Reader) Begin(ctx context.Context, c Call, canRead bool) (others, leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if others = r.calls > 1; others {
		r.linger = lingerRounds
	}
	if r.state != Watching || !canRead {
		return others, false
	}
	r.state, r.leader = Leading, c
	if ctx.Done() == nil {
		r.setDeadlineLocked(time.Time{})
	} else if now := time.Now(); r.deadline.Before(now.Add(maxLead/2)) || r.deadline.After(now.Add(maxLead)) {
		r.setDeadlineLocked(now.Add(maxLead)) // not for each call: that costs
	}
	return others, true
}

// End unregisters a call whose response has arrived.
func (r *Reader) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
}

// GiveUp unregisters a call that ends without a response. If its caller reads, the read is
// interrupted, so that it can receive the error in place of a response. If it was the last call, the goroutine may end soon.
func (r *Reader) GiveUp(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	switch {
	case r.leader == c:
		r.interruptLocked()
	case r.idleLocked():
		r.lingerLocked()
	}
}

// Lead reads until the call of the leader has ended. If answered is false, the leader
// stopped early; the caller must then wait for its answer.
func (r *Reader) Lead(c Call) (answered bool) {
	r.watch.Disarm()
	r.lines.forLeader = true
	defer func() { r.endLead(answered) }()
	for {
		line, _, skipped, err := r.lines.next()
		if err != nil {
			return false
		}
		r.noteReceived()
		if skipped || len(line) > 0 && !r.handler.ReceiveResponse(line) {
			r.lines.unread()
			return false
		}
		if c.Answered() {
			return true
		}
	}
}

// endLead lets the goroutine continue if there is something left to do, and otherwise the
// poller.
func (r *Reader) endLead(answered bool) {
	r.lines.forLeader = false
	r.lines.Release() // an idle connection holds no buffer
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leader = nil
	if !answered {
		r.linger = lingerRounds
	}
	if r.state == Leading && (r.lines.holds() || r.calls > 0 || !r.watchLocked()) {
		r.startLoopLocked()
	}
}

// loop reads lines until the stream ends, or until nothing is left to do.
func (r *Reader) loop() {
	for {
		line, tail, skipped, err := r.lines.next()
		if errors.Is(err, errPaused) {
			if r.endLoop() {
				return
			}
			continue
		}
		r.noteReceived()
		if skipped {
			r.handler.ReceiveSkipped(line, tail, r.lines.noRoom)
		} else if len(line) > 0 {
			r.handler.ReceiveLine(line)
		}
		if err != nil {
			r.release() // what the end of the stream has cut short
			r.handler.ReadEnded(err)
			return
		}
	}
}

// endLoop lets the poller watch, unless something is left to do. It reports whether the
// goroutine ends.
func (r *Reader) endLoop() (ended bool) {
	r.lines.Release() // an idle connection holds no buffer
	r.mu.Lock()
	defer r.mu.Unlock()
	idle := r.idleLocked() && !r.lines.inLongLine()
	if idle && r.watchLocked() {
		return true
	}
	r.pinned = r.pinned || idle // the system does not allow watching
	r.setDeadlineLocked(time.Time{})
	return false
}

// mayPause reports whether the goroutine that reads may stop, as there is nothing to read. The
// line reader calls it. A leader is never told to stop here.
func (r *Reader) mayPause() bool {
	if r.stdout == nil || r.lines.inLongLine() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.idleLocked() {
		return false
	}
	if r.linger == 0 {
		return true
	}
	r.linger--
	r.lingerLocked()
	return false
}

// idleLocked reports whether the goroutine reads although nothing needs it.
func (r *Reader) idleLocked() bool { return r.state == Looping && !r.pinned && r.calls == 0 }

// watchLocked lets the poller watch. It reports false if the system does not allow that.
func (r *Reader) watchLocked() bool {
	if r.watch == nil {
		if r.watch = poll.Shared.Watch(r.stdout, r.Wake); r.watch == nil {
			return false
		}
	}
	if !r.watch.Arm() {
		return false
	}
	r.state, r.linger = Watching, 0
	return true
}

// startLoopLocked starts the goroutine. It holds the mutex, so that none starts after Stop.
func (r *Reader) startLoopLocked() {
	r.state = Looping
	r.setDeadlineLocked(time.Time{}) // with one in the past, it would never read
	r.options.Go(r.loop)
}

// Wake starts the goroutine if no goroutine reads: there may be something to read, such as the end
// of the stream.
func (r *Reader) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == Watching {
		r.startLoopLocked()
	}
}

// AllowIdle lets the goroutine end when no call is in flight and there is nothing to read.
func (r *Reader) AllowIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pinned = false
	if r.idleLocked() {
		r.interruptLocked()
	}
}

// Stop ends the reading: after it no goroutine begins to read. It is called before stdout is closed, which ends the
// goroutine that reads.
func (r *Reader) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = Stopped
	if r.watch != nil {
		r.watch.Remove()
	}
}

// interruptLocked makes the goroutine that reads return from its wait.
func (r *Reader) interruptLocked() { r.setDeadlineLocked(time.Unix(1, 0)) }

// lingerLocked makes the goroutine that reads return from its wait in a moment.
func (r *Reader) lingerLocked() {
	if r.deadline.IsZero() {
		r.setDeadlineLocked(time.Now().Add(lingerTime))
	}
}

func (r *Reader) setDeadlineLocked(at time.Time) {
	if r.stdout != nil && (!at.IsZero() || !r.deadline.IsZero()) {
		r.deadline = at
		_ = r.stdout.SetReadDeadline(at)
	}
}

// noteReceived records that the server is alive, if it has sent something. It is called for
// complete lines only: a server that sends one endless line answers nothing more.
func (r *Reader) noteReceived() {
	if r.noted != r.lines.readCount {
		r.noted = r.lines.readCount
		r.handler.NoteReceived()
	}
}

// reserve reserves memory for more of the current line. It reports false if the wait for
// memory took too long, or if the session has ended.
func (r *Reader) reserve(bytes int) bool {
	if r.share == nil {
		s := r.options.Buffer.Share()
		r.share = &s
	}
	return jsonrpc.GrowShare(r.share, r.options.Dead, bytes, r.handler.NoteReceived)
}

// release releases what the last line has reserved, unless Keep has moved that.
func (r *Reader) release() {
	if r.share != nil {
		r.share.Release()
	}
}

// Keep returns a part of the current line in memory that the Reader does not reuse. share is
// what it holds of Options.Buffer, for the caller to release; nil: nothing. ok is false if
// no memory became free. Only a method of the [Handler] calls it.
func (r *Reader) Keep(part []byte) (kept []byte, share *budget.Share, ok bool) {
	if !r.lines.reserveFor(len(part)) {
		return nil, nil, false
	}
	kept = r.lines.detach(part)
	share, r.share, r.lines.reserved = r.share, nil, 0
	return kept, share, true
}

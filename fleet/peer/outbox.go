package peer

import "sync"

// maxControl bounds the credits and drops that wait to be sent. They answer frames of the peer, so
// a peer that sends such frames and reads nothing is cut.
const maxControl = 4096

// transfer is one message on its way out. The outbox owns its fields, except those that are set
// before it is added.
type transfer struct {
	what byte
	call uint64
	body []byte
	done func() // called once, when the last byte was taken or the message was given up; nil for none

	message uint64 // of a begun one
	sent    int
	credit  bool // for all of it
	state   transferState
}

type transferState byte

const (
	transferQueued transferState = iota
	transferAwaitsCredit
	transferTaken
	transferGone // withdrawn, dropped, or the stream has ended
)

// outbox holds what is to be sent on one stream. Any goroutine may add. A goroutine that has claimed it takes
// packets of it, and then releases it. Messages share the stream: each has one chunk in turn.
type outbox struct {
	wake chan struct{} // has room for one

	mu       sync.Mutex
	closed   bool
	noCalls  bool   // further calls are refused
	last     uint64 // number of the last message that was begun
	ending   bool   // the stream ends when everything is sent
	sending  bool   // somebody sends a packet
	control  []byte // frames
	controls int
	ready    []*transfer // the next chunk of each, in turn
	waiting  map[uint64]*transfer

	done []*transfer // what take has finished; owned by whoever has claimed
}

// maxKept is the longest list whose memory is kept for the next packet.
const maxKept = 1 << 10

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), waiting: map[uint64]*transfer{}}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// add queues a message. It reports false if the stream has ended, or may have no further call.
func (o *outbox) add(t *transfer) bool {
	o.mu.Lock()
	if o.closed || o.noCalls && t.what == messageCall {
		o.mu.Unlock()
		return false
	}
	o.ready = append(o.ready, t)
	o.mu.Unlock()
	o.signal()
	return true
}

// claim makes the caller the one that takes packets. It reports false if there is none to take, or if
// somebody else does that.
func (o *outbox) claim() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending || len(o.ready) == 0 && len(o.control) == 0 {
		return false
	}
	o.sending = true
	return true
}

// claimFor is claim and take for a message that is not added: it appends the packet to b. It reports
// false if other messages are there or being sent.
func (o *outbox) claimFor(t *transfer, b []byte) ([]byte, bool) {
	o.mu.Lock()
	if o.closed || o.noCalls && t.what == messageCall || o.sending || len(o.ready) > 0 || len(o.control) > 0 {
		o.mu.Unlock()
		return b, false
	}
	o.sending = true
	b = appendWhole(b, t.what, t.call, t.body)
	t.state = transferTaken
	o.mu.Unlock()
	t.body = nil
	t.callDone()
	return b, true
}

// release ends a claim.
func (o *outbox) release() {
	o.mu.Lock()
	o.sending = false
	more := o.ending || len(o.ready) > 0 || len(o.control) > 0
	o.mu.Unlock()
	if more {
		o.signal()
	}
}

// addControl queues a credit or a drop. It reports false if there are too many.
func (o *outbox) addControl(kind byte, message uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.controls >= maxControl {
		return false
	}
	o.controls++
	o.control = appendControl(o.control, kind, message)
	o.signal()
	return true
}

// withdraw gives a message up, and reports whether the peer cannot have all of it.
func (o *outbox) withdraw(t *transfer) bool {
	o.mu.Lock()
	state := t.state
	if state == transferTaken {
		o.mu.Unlock()
		return false
	}
	t.state = transferGone
	if t.message != 0 && state != transferGone && !o.closed {
		delete(o.waiting, t.message)
		o.controls++
		o.control = appendControl(o.control, frameDrop, t.message)
		o.signal()
	}
	o.mu.Unlock()
	if state != transferGone {
		t.callDone()
	}
	return true
}

func (t *transfer) callDone() {
	if t.done != nil {
		t.done()
	}
}

// grant handles a credit. It reports false if it is for a message that was never begun.
func (o *outbox) grant(message uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.waiting[message]; t != nil {
		delete(o.waiting, message)
		t.credit, t.state = true, transferQueued
		o.ready = append(o.ready, t)
		o.signal()
	}
	return message <= o.last
}

// refused gives up a message that the receiver does not want.
func (o *outbox) refused(message uint64) {
	o.mu.Lock()
	t := o.waiting[message]
	if t == nil {
		for _, queued := range o.ready {
			if queued.message == message {
				t = queued
			}
		}
	}
	if t != nil && t.state == transferGone { // withdrawn: its end was told
		t = nil
	}
	if t != nil {
		delete(o.waiting, message)
		t.state = transferGone
	}
	o.mu.Unlock()
	if t != nil {
		t.callDone()
	}
}

// take appends the next packet to b. It is empty if there is nothing to send.
func (o *outbox) take(b []byte) []byte {
	o.mu.Lock()
	done := o.done[:0]
	if len(o.control) > 0 {
		n := min(len(o.control), packetSize)
		if n < len(o.control) { // not within a frame
			n = wholeFrames(o.control[:n])
		}
		b = append(b, o.control[:n]...)
		o.control = o.control[n:]
		if len(o.control) == 0 {
			o.control, o.controls = nil, 0
		}
	}
	taken := 0
	for taken < len(o.ready) && len(b) < packetSize {
		t := o.ready[taken]
		o.ready[taken] = nil
		taken++
		switch {
		case t.state == transferGone:
		case t.message == 0 && len(t.body) <= maxChunk:
			b = appendWhole(b, t.what, t.call, t.body)
			t.state = transferTaken
			done = append(done, t)
		case t.message == 0:
			o.last++
			t.message, t.sent, t.state = o.last, maxChunk, transferAwaitsCredit
			o.waiting[t.message] = t
			b = appendBegin(b, t.message, t.what, t.call, len(t.body), t.body[:maxChunk])
		default:
			end := min(t.sent+maxChunk, len(t.body))
			b = appendMore(b, t.message, t.body[t.sent:end])
			if t.sent = end; end == len(t.body) {
				t.state = transferTaken
				done = append(done, t)
			} else {
				o.ready = append(o.ready, t)
			}
		}
	}
	switch {
	case taken < len(o.ready):
		o.ready = o.ready[taken:]
	case cap(o.ready) > maxKept:
		o.ready = nil
	default:
		o.ready = o.ready[:0]
	}
	o.mu.Unlock()
	for i, t := range done {
		t.body, done[i] = nil, nil
		t.callDone()
	}
	if o.done = done; cap(done) > maxKept {
		o.done = nil
	}
	return b
}

// wholeFrames is the length of the control frames that are complete in b.
func wholeFrames(b []byte) int {
	n := 0
	for rest := b; len(rest) > 0; {
		_, next, err := readFrame(rest)
		if err != nil {
			break
		}
		n, rest = len(b)-len(next), next
	}
	return n
}

// refuseCalls lets add refuse calls.
func (o *outbox) refuseCalls() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noCalls = true
}

// endWhenEmpty lets the stream end when everything is sent.
func (o *outbox) endWhenEmpty() {
	o.mu.Lock()
	o.ending = true
	o.mu.Unlock()
	o.signal()
}

// isFinished reports whether the stream is to end, and everything is sent.
func (o *outbox) isFinished() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ending && !o.sending && len(o.ready) == 0 && len(o.control) == 0 && len(o.waiting) == 0
}

// close gives up everything that waits.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	var lost []*transfer
	for _, t := range o.ready {
		if t.state != transferGone {
			t.state = transferGone
			lost = append(lost, t)
		}
	}
	for _, t := range o.waiting {
		t.state = transferGone
		lost = append(lost, t)
	}
	o.ready, o.control = nil, nil
	clear(o.waiting)
	o.mu.Unlock()
	for _, t := range lost {
		t.callDone()
	}
}

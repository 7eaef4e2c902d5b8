package framing

import "sync"

// maxControl bounds the control frames that wait to be sent. They answer frames of the peer: a peer that
// sends such frames and reads nothing loses its stream.
const maxControl = 4096

// Message is one message to be sent. Its maker sets the exported fields before it is added. Then the
// stream owns it.
type Message struct {
	What byte   // its kind
	Call uint64 // what it is about
	Body []byte // of MaxMessage bytes at most
	Done func() // called once, when the last byte was taken or the message was given up; may be nil

	message uint64 // its number, if it has begun in several frames; otherwise 0
	sent    int    // bytes so far
	state   messageState
}

type messageState byte

const (
	messageQueued messageState = iota
	messageAwaitsCredit
	messageTaken
	messageGone // withdrawn, dropped, or the stream has ended
)

// sendQueue holds the messages and control frames of one stream until they are sent. Any goroutine may add some.
// The goroutine that has claimed the queue takes packets from it, and then releases it. Messages share the
// stream: in turn, one chunk of each is sent.
type sendQueue struct {
	wake chan struct{} // has room for one

	mu       sync.Mutex
	closed   bool
	noMore   byte                // the kind of messages that is refused; 0: none
	last     uint64              // number of the last message that has begun
	ending   bool                // the stream ends when everything is sent
	sending  bool                // a goroutine has claimed the queue
	control  []byte              // control frames
	controls int                 // number of these
	ready    []*Message          // the next chunk of each may be sent, in this order
	waiting  map[uint64]*Message // without credit, by number

	done []*Message // memory for take; owned by the goroutine that has claimed the queue
}

// maxKept bounds the lists whose memory is kept for the next packet.
const maxKept = 1 << 10

func newSendQueue() *sendQueue {
	return &sendQueue{wake: make(chan struct{}, 1), waiting: map[uint64]*Message{}}
}

func (o *sendQueue) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// add queues a message. It reports false if the stream has ended, or refuses its kind.
func (o *sendQueue) add(m *Message) bool {
	o.mu.Lock()
	if o.closed || o.noMore != 0 && m.What == o.noMore {
		o.mu.Unlock()
		return false
	}
	o.ready = append(o.ready, m)
	o.mu.Unlock()
	o.signal()
	return true
}

// claim lets the caller take packets, until release. It reports false if there is nothing to send, or if
// another goroutine has claimed the queue.
func (o *sendQueue) claim() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending || len(o.ready) == 0 && len(o.control) == 0 {
		return false
	}
	o.sending = true
	return true
}

// claimFor claims the queue for a message that is not added, and appends its packet to b. It reports
// false if other messages wait or are being sent.
func (o *sendQueue) claimFor(m *Message, b []byte) ([]byte, bool) {
	o.mu.Lock()
	if o.closed || o.noMore != 0 && m.What == o.noMore || o.sending || len(o.ready) > 0 || len(o.control) > 0 {
		o.mu.Unlock()
		return b, false
	}
	o.sending = true
	b = appendWhole(b, m.What, m.Call, m.Body)
	m.state = messageTaken
	o.mu.Unlock()
	m.Body = nil
	m.callDone()
	return b, true
}

// release ends a claim.
func (o *sendQueue) release() {
	o.mu.Lock()
	o.sending = false
	more := o.ending || len(o.ready) > 0 || len(o.control) > 0
	o.mu.Unlock()
	if more {
		o.signal()
	}
}

// addControl queues a control frame. It reports false if too many wait.
func (o *sendQueue) addControl(kind byte, message uint64) bool {
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

// withdraw gives up a message, and reports whether the peer does not get all of it.
func (o *sendQueue) withdraw(m *Message) bool {
	o.mu.Lock()
	state := m.state
	if state == messageTaken {
		o.mu.Unlock()
		return false
	}
	m.state = messageGone
	if m.message != 0 && state != messageGone && !o.closed {
		delete(o.waiting, m.message)
		o.controls++
		o.control = appendControl(o.control, frameDrop, m.message)
		o.signal()
	}
	o.mu.Unlock()
	if state != messageGone {
		m.callDone()
	}
	return true
}

func (m *Message) callDone() {
	if m.Done != nil {
		m.Done()
	}
}

// grant handles a credit. It reports false if the message has never begun.
func (o *sendQueue) grant(message uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.waiting[message]; m != nil {
		delete(o.waiting, message)
		m.state = messageQueued
		o.ready = append(o.ready, m)
		o.signal()
	}
	return message <= o.last
}

// refused gives up a message that the receiver does not want.
func (o *sendQueue) refused(message uint64) {
	o.mu.Lock()
	m := o.waiting[message]
	if m == nil {
		for _, queued := range o.ready {
			if queued.message == message {
				m = queued
			}
		}
	}
	if m != nil && m.state == messageGone { // withdrawn: Done was called
		m = nil
	}
	if m != nil {
		delete(o.waiting, message)
		m.state = messageGone
	}
	o.mu.Unlock()
	if m != nil {
		m.callDone()
	}
}

// take appends the next packet to b. It is empty if there is nothing to send.
func (o *sendQueue) take(b []byte) []byte {
	o.mu.Lock()
	done := o.done[:0]
	if len(o.control) > 0 {
		n := min(len(o.control), packetSize)
		if n < len(o.control) { // do not cut a frame
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
		m := o.ready[taken]
		o.ready[taken] = nil
		taken++
		switch {
		case m.state == messageGone:
		case m.message == 0 && len(m.Body) <= MaxChunk:
			b = appendWhole(b, m.What, m.Call, m.Body)
			m.state = messageTaken
			done = append(done, m)
		case m.message == 0:
			o.last++
			m.message, m.sent, m.state = o.last, MaxChunk, messageAwaitsCredit
			o.waiting[m.message] = m
			b = appendBegin(b, m.message, m.What, m.Call, len(m.Body), m.Body[:MaxChunk])
		default:
			end := min(m.sent+MaxChunk, len(m.Body))
			b = appendMore(b, m.message, m.Body[m.sent:end])
			if m.sent = end; end == len(m.Body) {
				m.state = messageTaken
				done = append(done, m)
			} else {
				o.ready = append(o.ready, m)
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
	for i, m := range done {
		m.Body, done[i] = nil, nil
		m.callDone()
	}
	if o.done = done; cap(done) > maxKept {
		o.done = nil
	}
	return b
}

// wholeFrames returns the length of the complete control frames in b.
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

// sendNoMore makes add refuse messages of a kind.
func (o *sendQueue) sendNoMore(what byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noMore = what
}

// endWhenEmpty ends the stream when everything is sent.
func (o *sendQueue) endWhenEmpty() {
	o.mu.Lock()
	o.ending = true
	o.mu.Unlock()
	o.signal()
}

// isFinished reports whether the stream has to end because everything is sent.
func (o *sendQueue) isFinished() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ending && !o.sending && len(o.ready) == 0 && len(o.control) == 0 && len(o.waiting) == 0
}

// close gives up all messages that wait.
func (o *sendQueue) close() {
	o.mu.Lock()
	o.closed = true
	var lost []*Message
	for _, m := range o.ready {
		if m.state != messageGone {
			m.state = messageGone
			lost = append(lost, m)
		}
	}
	for _, m := range o.waiting {
		m.state = messageGone
		lost = append(lost, m)
	}
	o.ready, o.control = nil, nil
	clear(o.waiting)
	o.mu.Unlock()
	for _, m := range lost {
		m.callDone()
	}
}

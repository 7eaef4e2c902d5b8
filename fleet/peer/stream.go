package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of messages.
const (
	messageHello    = iota + 1 // client → server: who I am
	messageWelcome             // server → client: who I am
	messageCall                // client → server
	messageCancel              // client → server: nobody waits for the call any longer
	messageResult              // server → client: ends a call
	messageFailure             // server → client: ends a call
	messageProgress            // server → client
	messageLog                 // server → client: a log message about the call
	messageQuestion            // server → client: what the MCP server asks of the caller
	messageWithdraw            // server → client: nobody waits for the answer any longer
	messageAnswer              // client → server
	messageBeat                // client → server, each second
	messageBeatBack            // server → client, as an answer
	// Since version 2, where they are asked for.
	messageTask   // server → client: ends a call, whose result is a task
	messageNotice // server → client: of a server
	// Ignored by nodes that do not know them.
	messageLeaving  // server → client: make no further calls here
	messageLastCall // client → server, as an answer
)

// verdict is what becomes of a message before its bytes are kept.
type verdict byte

const (
	verdictKeep   verdict = iota
	verdictIgnore         // nobody waits for it any longer
)

// stream is one of the streams of a link: frames in both directions. Whoever makes it sets the
// fields above out, then calls run.
type stream struct {
	grpc packets
	room *room
	// accept decides about a message, by its kind, its call and its length. An error ends the
	// stream. deliver gets a message that was accepted, and owns its bytes; it releases the place
	// that a long one has in the room. Both are called by the goroutine that reads, and must not
	// block.
	accept  func(what byte, call, total uint64) (verdict, error)
	deliver func(what byte, call uint64, body []byte, held *place) error

	out      *outbox
	began    time.Time
	lastSeen atomic.Int64 // when the last packet came, in nanoseconds since began
	unsent   atomic.Int64 // bytes that gRPC has not written yet

	endOnce sync.Once
	onEnd   func()        // called by end; nil for none
	ended   chan struct{} // closed by end, after err is set
	err     error         // nil: as was announced

	incoming map[uint64]*incoming // owned by the goroutine that reads
	lastIn   uint64
}

// maxTrustedLength is how much memory a message gets because of the length that it began with.
// Beyond that it has to come first.
const maxTrustedLength = 8 << 20

// incoming is a long message on its way in.
type incoming struct {
	what    byte
	call    uint64
	total   int
	body    []byte
	place   *place
	granted atomic.Bool
}

func newStream(grpc packets, roomBytes int) *stream {
	return &stream{grpc: grpc, room: &room{limit: roomBytes}, out: newOutbox(), began: time.Now(), ended: make(chan struct{}), incoming: map[uint64]*incoming{}}
}

// end ends the stream with its first error.
func (s *stream) end(err error) {
	s.endOnce.Do(func() {
		s.err = err
		close(s.ended)
		s.out.close()
		if s.onEnd != nil {
			s.onEnd()
		}
	})
}

// silence is how long nothing has come.
func (s *stream) silence() time.Duration {
	return time.Since(s.began) - time.Duration(s.lastSeen.Load())
}

// send queues a message without a callback.
func (s *stream) send(what byte, call uint64, body []byte) {
	s.out.add(&transfer{what: what, call: call, body: body})
}

// sendNow queues a message like outbox.add. If nothing else is being sent, and gRPC has so little to
// write that it does not block, it is sent at once: that saves a short message the way over the goroutine
// of write. It is for a stream with little to do; the messages of a busy one share packets.
func (s *stream) sendNow(t *transfer) bool {
	if len(t.body) > smallPacket/2 || s.unsent.Load() > maxUnsent {
		return s.out.add(t)
	}
	p := newPacket(true)
	var claimed bool
	if p.bytes, claimed = s.out.claimFor(t, p.bytes); !claimed {
		p.free()
		return s.out.add(t)
	}
	s.transmit(p)
	s.out.release()
	return true
}

// maxUnsent is how many bytes gRPC may hold when sendNow sends more. Beyond 64 KiB it blocks.
const maxUnsent = 32 << 10

// transmit hands a packet to gRPC. The caller has claimed the outbox. It reports false if the stream has
// ended.
func (s *stream) transmit(p *packet) bool {
	p.unsent = &s.unsent
	s.unsent.Add(int64(len(p.bytes)))
	switch err := s.grpc.SendMsg(p); {
	case errors.Is(err, io.EOF):
		return false // the stream has ended, and read finds out why
	case err != nil:
		s.end(err)
		return false
	}
	return true
}

// write sends packets until the stream ends. A peer that does not read blocks it; whoever owns the
// connection closes that then.
func (s *stream) write() {
	for {
		if !s.out.claim() {
			if s.out.isFinished() {
				s.end(nil)
				return
			}
			select {
			case <-s.out.wake:
				runtime.Gosched() // those that are about to send something share the packet
			case <-s.ended:
				return
			}
			continue
		}
		p := newPacket(false)
		p.bytes = s.out.take(p.bytes)
		if len(p.bytes) <= smallPacket {
			small := newPacket(true)
			small.bytes = append(small.bytes, p.bytes...)
			p.free()
			p = small
		}
		ok := true
		if len(p.bytes) > 0 {
			ok = s.transmit(p)
		} else {
			p.free()
		}
		s.out.release()
		if !ok {
			return
		}
	}
}

// read handles packets until the stream ends.
func (s *stream) read() {
	var packet []byte
	for {
		if err := s.grpc.RecvMsg(&packet); err != nil {
			s.end(err)
			break
		}
		s.lastSeen.Store(int64(time.Since(s.began)))
		if err := s.readPacket(packet); err != nil {
			s.end(fmt.Errorf("the peer breaks the protocol: %w", err))
			break
		}
	}
	for _, in := range s.incoming {
		s.room.release(in.place)
	}
}

func (s *stream) readPacket(packet []byte) error {
	for len(packet) > 0 {
		f, rest, err := readFrame(packet)
		if err != nil {
			return err
		}
		packet = rest
		switch f.kind {
		case frameWhole:
			err = s.readWhole(&f)
		case frameBegin:
			err = s.readBegin(&f)
		case frameMore:
			err = s.readMore(&f)
		case frameCredit:
			if !s.out.grant(f.message) {
				err = fmt.Errorf("credit for message %d, which was never begun", f.message)
			}
		case frameDrop:
			s.readDrop(f.message)
		case frameRefuse:
			s.out.refused(f.message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) readWhole(f *frame) error {
	v, err := s.accept(f.what, f.call, f.total)
	if err != nil || v == verdictIgnore {
		return err
	}
	return s.deliver(f.what, f.call, bytes.Clone(f.payload), nil)
}

func (s *stream) readBegin(f *frame) error {
	if f.message <= s.lastIn {
		return fmt.Errorf("message %d begins after message %d", f.message, s.lastIn)
	}
	s.lastIn = f.message
	switch v, err := s.accept(f.what, f.call, f.total); {
	case err != nil:
		return err
	case v == verdictIgnore:
		return s.control(frameRefuse, f.message)
	}
	message := f.message
	in := &incoming{what: f.what, call: f.call, total: int(f.total), body: bytes.Clone(f.payload)}
	s.incoming[f.message] = in
	in.place = s.room.reserve(in.total, func() {
		in.granted.Store(true)
		if err := s.control(frameCredit, message); err != nil {
			s.end(err)
		}
	})
	return nil
}

func (s *stream) control(kind byte, message uint64) error {
	if !s.out.addControl(kind, message) {
		return fmt.Errorf("more than %d answers wait for a peer that does not read", maxControl)
	}
	return nil
}

func (s *stream) readMore(f *frame) error {
	in := s.incoming[f.message]
	switch {
	case in == nil && f.message <= s.lastIn:
		return nil // what was sent before it was refused
	case in == nil:
		return fmt.Errorf("a chunk of message %d, which was never begun", f.message)
	case !in.granted.Load():
		return fmt.Errorf("a chunk of message %d without credit", f.message)
	case len(f.payload) == 0, len(in.body)+len(f.payload) > in.total:
		return fmt.Errorf("message %d is not of the length that it began with", f.message)
	}
	if cap(in.body) < len(in.body)+len(f.payload) {
		in.body = slices.Grow(in.body, min(in.total-len(in.body), max(len(in.body), maxTrustedLength)))
	}
	in.body = append(in.body, f.payload...)
	if len(in.body) < in.total {
		return nil
	}
	delete(s.incoming, f.message)
	return s.deliver(in.what, in.call, in.body, in.place)
}

// readDrop forgets a message that its sender has given up.
func (s *stream) readDrop(message uint64) {
	if in := s.incoming[message]; in != nil {
		delete(s.incoming, message)
		s.room.release(in.place)
	}
}

// Package framing moves messages between two nodes over a stream of gRPC. It sends many messages at a time,
// each in frames, so that a long one does not delay others. The rest of a long message is sent once its
// receiver has reserved room for all of it, and has given credit. To a [Stream], a message is a kind, the
// number of the call that it is about, and bytes; the layer above knows what they mean. A Stream owns what
// it sends and receives; Config.RoomBytes and the constants of this package bound it.
package framing

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

// Verdict says whether a message is received.
type Verdict byte

// The verdicts of Config.Accept.
const (
	Keep   Verdict = iota
	Ignore         // no caller waits for it
)

// Config says what a [Stream] does with the messages that it receives.
type Config struct {
	// RoomBytes bounds the bytes of long messages (more than MaxChunk) that are received at a time.
	// A message that exceeds it is received alone.
	RoomBytes int
	// Accept decides about a message by its kind, its call and its length. An error ends the
	// stream. Deliver gets a message that was accepted, and owns its bytes; if the message is long,
	// it must release held. Both are called by the goroutine that reads, and must not block.
	// Required.
	Accept  func(what byte, call, total uint64) (Verdict, error)
	Deliver func(what byte, call uint64, body []byte, held *Place) error
	// OnEnd, if set, is called once, when the stream has ended.
	OnEnd func()
}

// Stream moves messages in both directions. Safe for concurrent use.
type Stream struct {
	packets Packets
	config  Config
	room    room

	out      *sendQueue
	began    time.Time
	lastSeen atomic.Int64 // when the last packet came, in nanoseconds since began
	unsent   atomic.Int64 // bytes that gRPC has not written yet

	endOnce sync.Once
	ended   chan struct{} // closed by End, after err is set
	err     error         // nil: the stream has ended without an error

	incoming map[uint64]*incoming // owned by the goroutine that reads
	lastIn   uint64               // number of the last message that has begun; owned likewise
}

// maxTrustedLength bounds the memory that is allocated because of the length with which a message has
// begun. Beyond it, memory is allocated as the bytes arrive.
const maxTrustedLength = 8 << 20

// incoming is a long message that is being received.
type incoming struct {
	what    byte
	call    uint64
	total   int
	body    []byte
	place   *Place
	granted atomic.Bool
}

// New makes a stream. Messages that are added before [Stream.Start] wait.
func New(packets Packets, config Config) *Stream {
	return &Stream{packets: packets, config: config, room: room{limit: config.RoomBytes}, out: newSendQueue(), began: time.Now(), ended: make(chan struct{}), incoming: map[uint64]*incoming{}}
}

// Start begins to send and to receive, in two goroutines that loops counts. They end when the stream has
// ended, and SendMsg and RecvMsg have returned: a peer that does not read may block these until its
// connection is closed.
func (s *Stream) Start(loops *sync.WaitGroup) {
	loops.Go(s.write)
	loops.Go(s.read)
}

// End ends the stream with err, unless it has ended. Messages that wait are given up.
func (s *Stream) End(err error) {
	s.endOnce.Do(func() {
		s.err = err
		close(s.ended)
		s.out.close()
		if s.config.OnEnd != nil {
			s.config.OnEnd()
		}
	})
}

// EndWhenEmpty ends the stream, without an error, when everything is sent.
func (s *Stream) EndWhenEmpty() { s.out.endWhenEmpty() }

// Ended returns a channel that is closed when the stream has ended.
func (s *Stream) Ended() <-chan struct{} { return s.ended }

// Err returns why the stream has ended. It is called after Ended is closed.
func (s *Stream) Err() error { return s.err }

// Silence returns the time since the last packet has come.
func (s *Stream) Silence() time.Duration {
	return time.Since(s.began) - time.Duration(s.lastSeen.Load())
}

// Incoming returns the number of long messages that are being received. Only Config.Accept may call it.
func (s *Stream) Incoming() int { return len(s.incoming) }

// Room returns how much of RoomBytes is reserved, and how many messages wait for room.
func (s *Stream) Room() (used, waiting int) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.used, len(s.room.queue)
}

// SendNoMore lets Add and SendNow refuse further messages of a kind.
func (s *Stream) SendNoMore(what byte) { s.out.sendNoMore(what) }

// Send queues a message without a callback.
func (s *Stream) Send(what byte, call uint64, body []byte) {
	s.Add(&Message{What: what, Call: call, Body: body})
}

// Add queues a message. It reports false if the stream has ended, or refuses its kind; then Done is not
// called.
func (s *Stream) Add(m *Message) bool { return s.out.add(m) }

// Withdraw gives up a message that was added, and reports whether that was in time: the peer does not
// get all of it.
func (s *Stream) Withdraw(m *Message) bool { return s.out.withdraw(m) }

// SendNow queues a message like [Stream.Add]. If nothing else is being sent, and gRPC has so little to
// write that it does not block, the caller sends the message itself: that saves a short message the way
// through the goroutine of write. It is for a stream with little to do; the messages of a busy stream
// share packets.
func (s *Stream) SendNow(m *Message) bool {
	if len(m.Body) > smallPacket/2 || s.unsent.Load() > maxUnsent {
		return s.out.add(m)
	}
	p := newPacket(true)
	var claimed bool
	if p.bytes, claimed = s.out.claimFor(m, p.bytes); !claimed {
		p.free()
		return s.out.add(m)
	}
	s.transmit(p)
	s.out.release()
	return true
}

// maxUnsent bounds the bytes that gRPC has not written when SendNow sends more. Beyond 64 KiB, gRPC
// blocks.
const maxUnsent = 32 << 10

// transmit hands a packet to gRPC. The caller has claimed the queue. It reports false if the stream has
// ended.
func (s *Stream) transmit(p *packet) bool {
	p.unsent = &s.unsent
	s.unsent.Add(int64(len(p.bytes)))
	switch err := s.packets.SendMsg(p); {
	case errors.Is(err, io.EOF):
		return false // the stream has ended; read gets the error
	case err != nil:
		s.End(err)
		return false
	}
	return true
}

// write sends packets until the stream ends. A peer that does not read blocks it until the owner of the
// connection closes the connection.
func (s *Stream) write() {
	for {
		if !s.out.claim() {
			if s.out.isFinished() {
				s.End(nil)
				return
			}
			select {
			case <-s.out.wake:
				runtime.Gosched() // goroutines that are about to send something share the packet
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
func (s *Stream) read() {
	var packet []byte
	for {
		if err := s.packets.RecvMsg(&packet); err != nil {
			s.End(err)
			break
		}
		s.lastSeen.Store(int64(time.Since(s.began)))
		if err := s.readPacket(packet); err != nil {
			s.End(fmt.Errorf("the peer breaks the protocol: %w", err))
			break
		}
	}
	for _, in := range s.incoming {
		in.place.Release()
	}
}

func (s *Stream) readPacket(packet []byte) error {
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

func (s *Stream) readWhole(f *frame) error {
	v, err := s.config.Accept(f.what, f.call, f.total)
	if err != nil || v == Ignore {
		return err
	}
	return s.config.Deliver(f.what, f.call, bytes.Clone(f.payload), nil)
}

func (s *Stream) readBegin(f *frame) error {
	if f.message <= s.lastIn {
		return fmt.Errorf("message %d begins after message %d", f.message, s.lastIn)
	}
	s.lastIn = f.message
	switch v, err := s.config.Accept(f.what, f.call, f.total); {
	case err != nil:
		return err
	case v == Ignore:
		return s.control(frameRefuse, f.message)
	}
	message := f.message
	in := &incoming{what: f.what, call: f.call, total: int(f.total), body: bytes.Clone(f.payload)}
	s.incoming[f.message] = in
	in.place = s.room.reserve(in.total, func() {
		in.granted.Store(true)
		if err := s.control(frameCredit, message); err != nil {
			s.End(err)
		}
	})
	return nil
}

func (s *Stream) control(kind byte, message uint64) error {
	if !s.out.addControl(kind, message) {
		return fmt.Errorf("more than %d answers wait for a peer that does not read", maxControl)
	}
	return nil
}

func (s *Stream) readMore(f *frame) error {
	in := s.incoming[f.message]
	switch {
	case in == nil && f.message <= s.lastIn:
		return nil // sent before the sender knew that the message is refused
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
	return s.config.Deliver(in.what, in.call, in.body, in.place)
}

// readDrop forgets a message that its sender has given up.
func (s *Stream) readDrop(message uint64) {
	if in := s.incoming[message]; in != nil {
		delete(s.incoming, message)
		in.place.Release()
	}
}

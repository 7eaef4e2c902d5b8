package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A packet is one gRPC message: frames one after another, of maxPacket bytes at most. A message of
// the layer above is one whole frame or, if it is longer than a chunk, a begin frame with its length
// and its first chunk, and more frames once the receiver has given credit for the rest.
//
//	whole   kind, call, payload
//	begin   message, kind, call, total, chunk
//	more    message, chunk
//	credit  message             the rest may come
//	drop    message             by the sender: no more comes
//	refuse  message             by the receiver: no more is wanted
//
// Numbers are unsigned varints. The number of a message grows with each begin of its sender.
const (
	frameWhole = iota + 1
	frameBegin
	frameMore
	frameCredit
	frameDrop
	frameRefuse
)

const (
	// maxChunk is the longest payload of a frame.
	maxChunk = 32 << 10
	// packetSize is when no further frame is added to a packet.
	packetSize = maxChunk
	// maxPacket is the longest packet: a full one, and one frame.
	maxPacket = packetSize + maxChunk + 64
	// maxMessage is the longest message.
	maxMessage = 1 << 30
)

// frame is one frame that was read. payload is part of the packet.
type frame struct {
	kind    byte // frameWhole …
	message uint64
	what    byte // kind of the message
	call    uint64
	total   uint64
	payload []byte
}

var errFrame = errors.New("a frame that cannot be read")

// readFrame reads the first frame of a packet and returns the rest.
func readFrame(packet []byte) (f frame, rest []byte, err error) {
	r := reader{rest: packet}
	switch f.kind = r.byte(); f.kind {
	case frameWhole:
		f.what, f.call, f.payload = r.byte(), r.uint(), r.bytes()
		f.total = uint64(len(f.payload))
	case frameBegin:
		f.message, f.what, f.call, f.total, f.payload = r.uint(), r.byte(), r.uint(), r.uint(), r.bytes()
	case frameMore:
		f.message, f.payload = r.uint(), r.bytes()
	case frameCredit, frameDrop, frameRefuse:
		f.message = r.uint()
	default:
		return f, nil, fmt.Errorf("%w: kind %d", errFrame, f.kind)
	}
	switch {
	case r.failed:
		return f, nil, errFrame
	case len(f.payload) > maxChunk:
		return f, nil, fmt.Errorf("%w: a chunk of %d bytes", errFrame, len(f.payload))
	case f.total > maxMessage:
		return f, nil, fmt.Errorf("%w: a message of %d bytes", errFrame, f.total)
	case f.kind == frameBegin && f.total <= uint64(len(f.payload)):
		return f, nil, fmt.Errorf("%w: it begins a message that it holds", errFrame)
	}
	return f, r.rest, nil
}

func appendWhole(b []byte, what byte, call uint64, payload []byte) []byte {
	b = binary.AppendUvarint(append(b, frameWhole, what), call)
	return appendBytes(b, payload)
}

func appendBegin(b []byte, message uint64, what byte, call uint64, total int, chunk []byte) []byte {
	b = binary.AppendUvarint(append(b, frameBegin), message)
	b = binary.AppendUvarint(append(b, what), call)
	b = binary.AppendUvarint(b, uint64(total))
	return appendBytes(b, chunk)
}

func appendMore(b []byte, message uint64, chunk []byte) []byte {
	return appendBytes(binary.AppendUvarint(append(b, frameMore), message), chunk)
}

func appendControl(b []byte, kind byte, message uint64) []byte {
	return binary.AppendUvarint(append(b, kind), message)
}

func appendBytes(b, payload []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(payload))), payload...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader reads numbers and texts. After a failure everything is zero.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) byte() byte {
	if r.failed || len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uint() uint64 {
	if r.failed {
		return 0
	}
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) int() int64 {
	if r.failed {
		return 0
	}
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// bytes returns a part of what is read.
func (r *reader) bytes() []byte {
	n := r.uint()
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

// optional is bytes, with nil for none.
func (r *reader) optional() []byte {
	if b := r.bytes(); len(b) > 0 {
		return b
	}
	return nil
}

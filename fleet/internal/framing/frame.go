package framing

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor/fleet/internal/varint"
)

// A packet is one gRPC message: a sequence of frames, of maxPacket bytes at most. A message is sent as one
// whole frame or, if it is longer than MaxChunk, as a begin frame with its length and its first chunk, and
// then, once the receiver has given credit, as more frames with the other chunks.
//
//	whole   kind, call, payload
//	begin   message, kind, call, total, chunk
//	more    message, chunk
//	credit  message             from the receiver: the rest may come
//	drop    message             from the sender: no more comes
//	refuse  message             from the receiver: no more is wanted
//
// Numbers are unsigned varints. Each begin of a sender has a greater message number than the one before.
const (
	frameWhole = iota + 1
	frameBegin
	frameMore
	frameCredit
	frameDrop
	frameRefuse
)

const (
	// MaxChunk is the longest payload of a frame. A message that is not longer needs no credit.
	MaxChunk = 32 << 10
	// MaxMessage is the longest message.
	MaxMessage = 1 << 30
	// packetSize is the length from which no further frame is added to a packet.
	packetSize = MaxChunk
	// maxPacket is the longest packet: packetSize, and one more frame.
	maxPacket = packetSize + MaxChunk + 64
)

// frame is one frame that was read. payload shares the memory of the packet.
type frame struct {
	kind    byte // frameWhole …
	message uint64
	what    byte // kind of the message
	call    uint64
	total   uint64
	payload []byte
}

var errFrame = errors.New("a frame cannot be read")

// readFrame reads the first frame of a packet and returns the rest.
func readFrame(packet []byte) (f frame, rest []byte, err error) {
	r := varint.Reader{Rest: packet}
	switch f.kind = r.Byte(); f.kind {
	case frameWhole:
		f.what, f.call, f.payload = r.Byte(), r.Uint(), r.Bytes()
		f.total = uint64(len(f.payload))
	case frameBegin:
		f.message, f.what, f.call, f.total, f.payload = r.Uint(), r.Byte(), r.Uint(), r.Uint(), r.Bytes()
	case frameMore:
		f.message, f.payload = r.Uint(), r.Bytes()
	case frameCredit, frameDrop, frameRefuse:
		f.message = r.Uint()
	default:
		return f, nil, fmt.Errorf("%w: kind %d", errFrame, f.kind)
	}
	switch {
	case r.Failed:
		return f, nil, errFrame
	case len(f.payload) > MaxChunk:
		return f, nil, fmt.Errorf("%w: a chunk of %d bytes", errFrame, len(f.payload))
	case f.total > MaxMessage:
		return f, nil, fmt.Errorf("%w: a message of %d bytes", errFrame, f.total)
	case f.kind == frameBegin && f.total <= uint64(len(f.payload)):
		return f, nil, fmt.Errorf("%w: it begins a message that ends with it", errFrame)
	}
	return f, r.Rest, nil
}

func appendWhole(b []byte, what byte, call uint64, payload []byte) []byte {
	b = binary.AppendUvarint(append(b, frameWhole, what), call)
	return varint.AppendBytes(b, payload)
}

func appendBegin(b []byte, message uint64, what byte, call uint64, total int, chunk []byte) []byte {
	b = binary.AppendUvarint(append(b, frameBegin), message)
	b = binary.AppendUvarint(append(b, what), call)
	b = binary.AppendUvarint(b, uint64(total))
	return varint.AppendBytes(b, chunk)
}

func appendMore(b []byte, message uint64, chunk []byte) []byte {
	return varint.AppendBytes(binary.AppendUvarint(append(b, frameMore), message), chunk)
}

func appendControl(b []byte, kind byte, message uint64) []byte {
	return binary.AppendUvarint(append(b, kind), message)
}

// Package framingtest has a stream in memory for the tests of framing and of the packages above it.
package framingtest

import (
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
)

// Pipe returns the two ends of a stream in memory, whose packets are encoded by codec. SendMsg of one end
// waits until the other one receives the packet, or is closed.
func Pipe(codec encoding.CodecV2) (a, b *End) {
	ab, ba := make(chan []byte), make(chan []byte)
	a, b = &End{codec: codec, out: ab, in: ba, closed: make(chan struct{})}, &End{codec: codec, out: ba, in: ab, closed: make(chan struct{})}
	a.other, b.other = b, a
	return a, b
}

// End is one end of a [Pipe]. It implements framing.Packets.
type End struct {
	codec  encoding.CodecV2
	out    chan<- []byte
	in     <-chan []byte
	other  *End
	once   sync.Once
	closed chan struct{}
}

// SendMsg sends a packet, and releases its memory.
func (e *End) SendMsg(m any) error {
	data, err := e.codec.Marshal(m)
	if err != nil {
		return err
	}
	b := data.Materialize()
	data.Free()
	select {
	case e.out <- b:
		return nil
	case <-e.closed:
	case <-e.other.closed:
	}
	return io.EOF
}

// RecvMsg gets the next packet into a *[]byte.
func (e *End) RecvMsg(m any) error {
	select {
	case b := <-e.in:
		if to, ok := m.(*[]byte); ok {
			*to = b
		}
		return nil
	case <-e.closed:
	case <-e.other.closed:
	}
	return io.EOF
}

// Close ends the stream for both ends.
func (e *End) Close() { e.once.Do(func() { close(e.closed) }) }

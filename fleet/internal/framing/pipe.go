package framing

import (
	"io"
	"sync"
)

// Pipe returns the two ends of a stream in memory, for tests. SendMsg of one end waits until the other one
// receives the packet, or is closed.
func Pipe() (a, b *PipeEnd) {
	ab, ba := make(chan []byte), make(chan []byte)
	a, b = &PipeEnd{out: ab, in: ba, closed: make(chan struct{})}, &PipeEnd{out: ba, in: ab, closed: make(chan struct{})}
	a.other, b.other = b, a
	return a, b
}

// PipeEnd is one end of a [Pipe].
type PipeEnd struct {
	out    chan<- []byte
	in     <-chan []byte
	other  *PipeEnd
	once   sync.Once
	closed chan struct{}
}

// SendMsg implements [Packets]. It also accepts a *[]byte.
func (e *PipeEnd) SendMsg(m any) error {
	var b []byte
	switch m := m.(type) {
	case *packet:
		b = append(b, m.bytes...)
		m.free()
	case *[]byte:
		b = append(b, *m...)
	}
	select {
	case e.out <- b:
		return nil
	case <-e.closed:
	case <-e.other.closed:
	}
	return io.EOF
}

// RecvMsg implements [Packets].
func (e *PipeEnd) RecvMsg(m any) error {
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
func (e *PipeEnd) Close() { e.once.Do(func() { close(e.closed) }) }

// Package pipe reads from pipes without holding a buffer while there is nothing to read, and
// writes to pipes without waiting for room. A process has hundreds of idle servers, with
// three pipes each, and a server may stop reading. Start with reader.go.
package pipe

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Space is the memory that a [Reader] reads into.
type Space interface {
	// Acquire returns memory that is not empty.
	Acquire() []byte
	// Release takes the memory back: there is nothing to read yet.
	Release()
}

// Reader reads from a stream. On a pipe of Unix it asks for memory only when there is
// something to read. Elsewhere a waiting Reader holds its memory.
//
// The goroutine that reads owns it.
type Reader struct {
	// OnEmpty, if set, is called by Read when there is nothing to read. If it reports true,
	// Read returns ErrEmpty instead of waiting. It must not block.
	OnEmpty func() bool

	stream io.Reader
	raw    syscall.RawConn // nil: the stream cannot say whether there is something to read
	name   string          // of the pipe, for errors

	// Of the current call of Read. try is constant; a method value for each call would
	// allocate.
	space Space
	n     int
	err   error
	try   func(fd uintptr) (done bool)
}

// ErrEmpty: there is nothing to read, and the reader does not wait.
var ErrEmpty = errors.New("there is nothing to read")

// NewReader returns a reader of a stream.
func NewReader(stream io.Reader) *Reader {
	r := &Reader{stream: stream}
	if f, ok := stream.(*os.File); ok && canTryRead {
		if raw, err := f.SyscallConn(); err == nil {
			r.raw, r.name, r.try = raw, f.Name(), r.tryRead
		}
	}
	return r
}

// Read waits until there is something to read, and reads once into the memory of space. It
// returns like io.Reader.
func (r *Reader) Read(space Space) (int, error) {
	if r.raw == nil {
		return r.stream.Read(space.Acquire())
	}
	r.space, r.n, r.err = space, 0, nil
	err := r.raw.Read(r.try)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = ErrEmpty
	case err == nil && r.err == nil && r.n == 0:
		return 0, io.EOF
	case err == nil:
		err = r.err
	}
	if err != nil && err != ErrEmpty {
		err = &os.PathError{Op: "read", Path: r.name, Err: err}
	}
	return r.n, err
}

// MinBuffer is the size of the smallest [Buffer] in bytes.
const MinBuffer = 8 << 10

// pools hold the buffers that are not in use, by their size: 8, 16, 32 and 64 KiB. Larger
// memory is not worth keeping for another message.
var pools [4]sync.Pool

// Buffer is memory that is reused. Its length does not change.
type Buffer struct{ Bytes []byte }

// GetBuffer returns a buffer of that size; nil if there is no pool for this size. Its
// contents are undefined.
func GetBuffer(size int) *Buffer {
	pool := poolOf(size)
	if pool == nil {
		return nil
	}
	if b, ok := pool.Get().(*Buffer); ok {
		return b
	}
	return &Buffer{make([]byte, size)}
}

// Put gives the buffer back. The caller must no longer use it.
func (b *Buffer) Put() { poolOf(len(b.Bytes)).Put(b) }

// poolOf returns the pool of the buffers of that size; nil if buffers do not have this size.
func poolOf(size int) *sync.Pool {
	for i := range pools {
		if size == MinBuffer<<i {
			return &pools[i]
		}
	}
	return nil
}

package pipe

import (
	"errors"
	"io"
	"os"
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

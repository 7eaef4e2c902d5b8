//go:build unix

package pipe

import (
	"io"
	"os"
	"syscall"
)

// canTryRead says whether a read from a pipe can return at once without data.
const canTryRead = true

// tryRead reads once. It reports false, and holds no memory, if there is nothing to read.
func (r *Reader) tryRead(fd uintptr) (done bool) {
	memory := r.space.Acquire()
	for {
		r.n, r.err = syscall.Read(int(fd), memory)
		if r.err != syscall.EINTR {
			break
		}
	}
	r.n = max(r.n, 0)
	if r.err == syscall.EAGAIN {
		r.err = nil
		r.space.Release()
		if r.OnEmpty != nil && r.OnEmpty() {
			r.err = ErrEmpty
			return true
		}
		return false
	}
	return true
}

// TryWriter returns a function that writes as much as a pipe takes without blocking; nil
// if out is not a pipe. One goroutine at a time may call it.
func TryWriter(out io.Writer) func([]byte) (int, error) {
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	var (
		buf  []byte
		n    int
		werr error
	)
	once := func(fd uintptr) bool {
		for {
			n, werr = syscall.Write(int(fd), buf)
			if werr != syscall.EINTR {
				return true
			}
		}
	}
	return func(b []byte) (int, error) {
		buf = b
		err := raw.Write(once)
		buf = nil
		switch {
		case err != nil:
			return 0, err
		case werr == syscall.EAGAIN:
			return 0, nil
		case werr != nil:
			return 0, os.NewSyscallError("write", werr)
		}
		return n, nil
	}
}

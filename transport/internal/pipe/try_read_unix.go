//go:build unix

package pipe

import "syscall"

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

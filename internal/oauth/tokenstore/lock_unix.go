//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tokenstore

import (
	"errors"
	"os"
	"syscall"
)

// tryLockFile tries to lock a file with flock(2). busy means that the lock
// is taken. The file is never removed: otherwise two processes could hold
// locks on two files of the same name.
func tryLockFile(path string) (unlock func(), busy bool, err error) {
	f, err := openNoFollow(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		_ = f.Close()
		// EINTR: a signal came first; the next attempt may succeed.
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return nil, true, nil
		}
		return nil, false, err
	}
	return func() { _ = f.Close() }, false, nil // closing the file releases the lock
}

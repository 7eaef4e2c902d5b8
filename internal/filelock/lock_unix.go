//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"os"
	"syscall"

	"github.com/mcpvisor/mcpvisor/internal/ownfile"
)

// TryLock locks a file with flock(2). It does not follow a symbolic link, which another user
// may have placed there, and does not block on a named pipe. See the package.
func TryLock(path string) (unlock func(), busy bool, err error) {
	return TryLockOpened(path, func(flag int) (*os.File, error) { return ownfile.OpenNoFollow(path, flag) })
}

// TryLockOpened is TryLock of a file that open opens. See the package.
func TryLockOpened(_ string, open func(flag int) (*os.File, error)) (unlock func(), busy bool, err error) {
	f, err := open(os.O_CREATE | os.O_RDWR)
	if err != nil {
		return nil, false, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) { // a signal came first
			break
		}
	}
	if err == nil {
		return func() { _ = f.Close() }, false, nil // closing the file releases the lock
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, true, nil
	}
	return nil, false, err
}

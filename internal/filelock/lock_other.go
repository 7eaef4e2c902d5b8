//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filelock

import (
	"errors"
	"os"
)

// TryLockOpened fails, as TryLock does.
func TryLockOpened(path string, _ func(flag int) (*os.File, error)) (unlock func(), busy bool, err error) {
	return TryLock(path)
}

// TryLock fails: this system has no lock that is released when its process ends.
func TryLock(string) (unlock func(), busy bool, err error) {
	return nil, false, errors.ErrUnsupported
}

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filelock

import "errors"

// TryLock fails: this system has no lock that is released when its process ends.
func TryLock(string) (unlock func(), busy bool, err error) {
	return nil, false, errors.ErrUnsupported
}

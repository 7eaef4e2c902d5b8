//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package socket

import "errors"

// tryLockFile fails: this system has no lock that is released when its process ends.
func tryLockFile(string) (unlock func(), busy bool, err error) {
	return nil, false, errors.New("not available on this system")
}

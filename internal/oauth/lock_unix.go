//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package oauth

import (
	"errors"
	"os"
	"syscall"
)

// lockFile tries to lock a file. held means that somebody else has it. The
// file stays: to remove it would let two hold the lock of one name.
func lockFile(path string) (free func(), held bool, err error) {
	f, err := openOwn(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return nil, true, nil
		}
		return nil, false, err
	}
	return func() { _ = f.Close() }, false, nil
}

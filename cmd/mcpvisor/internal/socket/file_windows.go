package socket

import (
	"errors"
	"syscall"
)

// These are errors of Windows Sockets.
const (
	errConnectionRefused = syscall.Errno(10061) // WSAECONNREFUSED
	errInvalidArgument   = syscall.Errno(10022) // WSAEINVAL: the file is not a socket any more
	errSharingViolation  = syscall.Errno(32)    // ERROR_SHARING_VIOLATION
)

// checkDirectory accepts every directory: those of the user's profile are closed to other
// users.
func checkDirectory(string) error { return nil }

// isRefused reports whether no process listens on a socket that exists.
func isRefused(err error) bool {
	return errors.Is(err, errConnectionRefused) || errors.Is(err, errInvalidArgument)
}

// tryLockFile tries to open a file without sharing. busy means that another process has it
// open. unlock releases it, as the end of the process does.
func tryLockFile(path string) (unlock func(), busy bool, err error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, false, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errSharingViolation) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	return func() { _ = syscall.CloseHandle(h) }, false, nil
}

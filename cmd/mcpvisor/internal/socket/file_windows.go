package socket

import (
	"errors"
	"syscall"
)

// These are errors of Windows Sockets.
const (
	errConnectionRefused = syscall.Errno(10061) // WSAECONNREFUSED
	errInvalidArgument   = syscall.Errno(10022) // WSAEINVAL: the file is no longer a socket
)

// checkDirectory accepts every directory: those of the user's profile are closed to other
// users.
func checkDirectory(string) error { return nil }

// isRefused reports whether no process listens on a socket that exists.
func isRefused(err error) bool {
	return errors.Is(err, errConnectionRefused) || errors.Is(err, errInvalidArgument)
}

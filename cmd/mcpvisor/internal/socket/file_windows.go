package socket

import (
	"errors"
	"os"
	"syscall"
)

// These are errors of Windows Sockets.
const (
	errConnectionRefused = syscall.Errno(10061) // WSAECONNREFUSED
	errInvalidArgument   = syscall.Errno(10022) // WSAEINVAL: the file is no longer a socket
)

// serviceDirectory: Windows has no such directory.
const serviceDirectory = ""

// userRuntimeDirectory returns nothing: Windows has no such directory.
func userRuntimeDirectory() string { return "" }

func checkServiceDirectory(string) error { return nil }

// openTo fails: Windows has no groups of files.
func openTo(string, *os.Root, string) error {
	return errors.New("--socket-group needs a system with groups of files")
}

func groupOf(string) string { return "" }

// isRefused reports whether no process listens on a socket that exists.
func isRefused(err error) bool {
	return errors.Is(err, errConnectionRefused) || errors.Is(err, errInvalidArgument)
}

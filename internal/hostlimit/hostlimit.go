// Package hostlimit tells failures because this process, or its machine, is at a limit from those of a server.
package hostlimit

import (
	"errors"
	"syscall"
)

// Reached reports whether the system had no descriptor, process or memory left.
func Reached(err error) bool {
	for _, limit := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return false
}

// Hint says what helps.
const Hint = "this process or its machine is at a limit; raise it (ulimit -n, ulimit -u, memory), or free some"

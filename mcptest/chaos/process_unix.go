//go:build unix

package chaos

import (
	"os"
	"syscall"
)

// signal is a signal to a process; nil where the system has none of that kind.
type signal = os.Signal

var sigKill, sigStop, sigContinue signal = syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCONT

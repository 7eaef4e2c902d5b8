package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restoreDefault gives a signal its default action (rt_sigaction(2)). Package os/signal
// cannot: it keeps a SIGHUP ignored that was ignored when the process was started.
func restoreDefault(number syscall.Signal) error {
	if number == unix.SIGKILL || number == unix.SIGSTOP {
		return nil // their action cannot be changed
	}
	var action [64]byte // a struct sigaction of zeros: SIG_DFL, no flags, an empty mask
	const maskBytes = 8
	_, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&action)), 0, maskBytes, 0, 0) //nolint:gosec // the kernel only reads it
	if failed != 0 {
		return failed
	}
	return nil
}

package main

import (
	"os"
	"syscall"
)

// widen makes a pipe hold 1 MiB, as the client does once a large line comes.
func widen(pipe *os.File) {
	const setPipeSize = 1031 // F_SETPIPE_SZ
	if c, err := pipe.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, 1<<20) })
	}
}

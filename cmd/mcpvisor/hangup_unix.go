//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// hangupEvery is how often awaitHangup looks.
const hangupEvery = 100 * time.Millisecond

// awaitHangup returns true when the one who writes to in has closed its end, even if what it wrote
// before was not read. It returns false when ctx ends, or if in is neither a pipe nor a socket.
func awaitHangup(ctx context.Context, in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn() // Fd would make reads of the file block a thread
	if err != nil {
		return false
	}
	tick := time.NewTicker(hangupEvery)
	defer tick.Stop()
	for {
		fds := []unix.PollFd{{Events: hangupEvents}}
		if err := raw.Control(func(fd uintptr) {
			fds[0].Fd = int32(fd)
			_, _ = unix.Poll(fds, 0) // interrupted: the next tick looks again
		}); err != nil || fds[0].Revents&unix.POLLNVAL != 0 {
			return false
		}
		if fds[0].Revents&(unix.POLLHUP|hangupEvents) != 0 {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

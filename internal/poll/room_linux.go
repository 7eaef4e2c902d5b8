package poll

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MinRoom is how many bytes a pipe that is writable takes at least without blocking (pipe(7), PIPE_BUF).
const MinRoom = 4096

// Room says whether a write to a file blocks. One goroutine at a time uses it.
type Room struct {
	raw      syscall.RawConn
	look     func(fd uintptr) // constant; a function value for each look would allocate
	writable bool
	polled   [1]unix.PollFd
}

// RoomOf returns the room of a file; nil if it is not known.
func RoomOf(file *os.File) *Room {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	r := &Room{raw: raw}
	r.look = r.lookAt
	return r
}

// Writable reports whether MinRoom bytes can be written without blocking.
func (r *Room) Writable() bool {
	r.writable = false
	return r.raw.Control(r.look) == nil && r.writable
}

func (r *Room) lookAt(fd uintptr) {
	r.polled[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}
	n, err := unix.Poll(r.polled[:], 0)
	r.writable = err == nil && n == 1 && r.polled[0].Revents&unix.POLLOUT != 0
}

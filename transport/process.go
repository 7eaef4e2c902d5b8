package transport

import (
	"io"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// process is one running server behind a pair of streams: an operating system
// process, or a goroutine that plays one.
type process interface {
	// Stdin is written by one goroutine and may be closed by another.
	Stdin() io.WriteCloser
	// Stdout is read by one goroutine and may be closed by another.
	Stdout() io.ReadCloser
	// Widen makes room for large messages on stdout, where that can be had.
	Widen()
	// PID is the process id, 0 for a goroutine.
	PID() int
	// Exited is closed when the process has ended. Its group is dead by then.
	Exited() <-chan struct{}
	// Exiting reports whether the process is ending, as far as the system tells: then
	// Exited follows, on a busy machine after a while.
	Exiting() bool
	// Exit explains the end; valid after Exited. The stderr tail is in it.
	Exit() *supervisor.Cause
	// Terminate sees to the end, politely first: stdin is closed, after half the
	// grace the group is asked, after all of it killed. It returns when the
	// process has ended, or when killing it had no effect either.
	Terminate(grace time.Duration)
	// Release closes what is still open on our side of the streams and waits for
	// the goroutines behind it. Called once, after Exited or a vain Terminate. The
	// error names what could not be ended, of the process and its descendants.
	Release() error
}

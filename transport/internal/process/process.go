package process

import (
	"io"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Process is a running server behind a pair of streams: a [Child], or a goroutine
// that stands for a process.
type Process interface { //nolint:interfacebloat // the one contract between sessions and what they run
	// Stdin is written by one goroutine. Another one may close it.
	Stdin() io.WriteCloser
	// Stdout is read by one goroutine at a time. Another one may close it.
	Stdout() io.ReadCloser
	// GrowStdout enlarges the pipe behind Stdout for large messages, if the system
	// allows that. It cannot fail.
	GrowStdout()
	// PID returns the process id; 0 for a goroutine.
	PID() int
	// Exited is closed when the process has ended. Its group is dead by then.
	Exited() <-chan struct{}
	// OnExited has f called once when Exited has been closed; soon if it is closed already.
	// The goroutine that saw the exit may call f, so f must neither block nor panic.
	OnExited(f func())
	// Exiting reports whether the process has begun to exit, as far as the system
	// shows that. Exited follows, on a busy machine after a while.
	Exiting() bool
	// ExitCause describes the end, with the lines of stderr. Before Exited is
	// closed it only says that the server is running.
	ExitCause() *supervisor.Cause
	// StderrTail returns the lines of stderr that have ended; after the exit, all of them.
	// Of the result, Total, First and Lines are set.
	StderrTail() monitor.ServerStderr
	// Terminate ends the process: it closes stdin, asks the group to end after
	// half of grace, and kills it after all of it. It returns when the process has
	// ended, or when killing it had no effect.
	Terminate(grace time.Duration)
	// Kill ends the process without a grace: it kills the group at once. It does not wait. It
	// may be called while Terminate runs, which it shortens.
	Kill()
	// Release closes our ends of the streams and waits for the goroutines that use
	// them. It is called after Exited, or after a Terminate without effect. The
	// error names each process that could not be ended.
	Release() error
}

// Keeper keeps what all servers of this process share from the end of one server to the
// start of the next. On Linux that is the watchdog, the parent thread, the spare
// descriptors and the goroutines that watch pipes. Without a Keeper they end with the last
// server, and the next one has to wait for new ones. A nil Keeper does nothing. Safe for
// concurrent use.
type Keeper struct {
	mu    sync.Mutex
	keeps bool // guarded by mu
}

// Keep begins to keep, unless it does already. It is called while a server runs.
func (k *Keeper) Keep() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.keeps {
		k.keeps = true
		keepShared()
	}
}

// Release ends the keeping. It returns what is left to do, which may take a moment; nil if
// nothing was kept.
func (k *Keeper) Release() (finish func()) {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.keeps {
		return nil
	}
	k.keeps = false
	return releaseShared
}

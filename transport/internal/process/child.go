package process

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

const (
	// killGrace is how long a killed process may take to disappear. A process that is
	// still there afterwards hangs in the kernel, and counts as unkillable.
	killGrace = 5 * time.Second
	// drainTime is how long stderr may take to arrive after the exit. Usually all of it
	// is in the pipe already.
	drainTime = 50 * time.Millisecond
)

// Child is an operating system process in a process group of its own. Its pipes are
// made here, as *os.File. So os/exec starts no goroutine that copies, and waits for no
// grandchild that holds a pipe open.
//
// Only the goroutine of reap collects the exit status. Where the system reports an exit to
// the poller, reap begins with the exit, and a running process has no goroutine. All methods
// are safe for concurrent use.
type Child struct {
	// Set by Start, constant afterwards.
	process    *os.Process
	pid        int    // not process.Pid, which Release changes
	path       string // of the program
	group      *processGroup
	stdin      *os.File
	stdout     *os.File
	stderrPipe *os.File
	stderr     *StderrTail

	stderrIn *stderrReader // has a mutex of its own

	// Closed by reap, in this order.
	exited   chan struct{} // the exit is known, and the group is killed
	reapDone chan struct{} // nothing is left in the process table, except for survivors

	// Written by reap.
	exitCause *supervisor.Cause // valid after exited
	survivors error             // descendants that could not be killed; valid after reapDone

	// Closed by Terminate and Release, read by reap.
	shutdown     chan struct{} // Terminate was called, so the exit is not a crash
	graceOver    chan struct{} // the grace of the group is over
	shutdownOnce sync.Once
	graceOnce    sync.Once

	releaseOnce sync.Once
	releaseErr  error // what Release returns

	mu       sync.Mutex // guards the fields below
	released bool       // the group may no longer be signalled
	onExited []func()   // called by reap
}

// reap waits for the exit, kills the rest of the group, and waits a moment for stderr.
// After it has published the exit, it searches for descendants that have left the
// group. It collects the exit status last: from then on another process may get the id.
//
// After a crash the group is killed at once, so that the crash is reported at once.
// After Terminate the group keeps its whole grace: the server may stand behind a
// wrapper that exits first.
func (c *Child) reap() {
	status := c.group.waitExit()
	select {
	case <-c.shutdown:
		c.group.awaitEmpty(c.graceOver)
	default:
	}
	c.group.kill()
	c.awaitStderr()
	c.exitCause = exitCause(status)
	c.mu.Lock()
	c.released = true
	onExited := c.onExited
	close(c.exited) // within mu, so that OnExited misses nothing
	c.mu.Unlock()
	for _, f := range onExited {
		f()
	}
	runtime.Gosched() // the goroutines that wait for the exit run first, not the search below
	c.survivors = c.group.killDescendants()
	c.group.reap(func() {
		if _, err := c.process.Wait(); err != nil { // the host has reaped it
			_ = c.process.Release()
		}
	})
	close(c.reapDone)
}

// awaitStderr waits a moment until stderr is read to its end, which a descendant may delay.
func (c *Child) awaitStderr() {
	c.stderrIn.readRest()
	select {
	case <-c.stderrIn.done:
		return
	default:
	}
	select {
	case <-c.stderrIn.done:
	case <-time.After(drainTime):
	}
}

// Stdin implements [Process].
func (c *Child) Stdin() io.WriteCloser { return c.stdin }

// Stdout implements [Process].
func (c *Child) Stdout() io.ReadCloser { return c.stdout }

// GrowStdout implements [Process].
func (c *Child) GrowStdout() { growPipe(c.stdout) }

// PID implements [Process].
func (c *Child) PID() int { return c.pid }

// Exited implements [Process].
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Exiting implements [Process].
func (c *Child) Exiting() bool { return c.group.exiting() }

// OnExited implements [Process].
func (c *Child) OnExited(f func()) {
	c.mu.Lock()
	select {
	case <-c.exited:
		c.mu.Unlock()
		f()
	default:
		c.onExited = append(c.onExited, f)
		c.mu.Unlock()
	}
}

// ExitCause implements [Process].
func (c *Child) ExitCause() *supervisor.Cause {
	select {
	case <-c.exited:
		cause := *c.exitCause
		cause.Stderr = c.stderr.Lines()
		return &cause
	default:
		return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server is running", Stderr: c.stderr.Lines()}
	}
}

// StderrTail implements [Process].
func (c *Child) StderrTail() monitor.ServerStderr {
	select {
	case <-c.exited:
		return c.stderr.Snapshot(true)
	default:
		return c.stderr.Snapshot(false)
	}
}

// Terminate implements [Process]. "For the stdio transport, the client SHOULD
// initiate shutdown by: 1. First, closing the input stream to the child process
// (the server) 2. Waiting for the server to exit, or sending SIGTERM if the server
// does not exit within a reasonable time 3. Sending SIGKILL if the server does not
// exit within a reasonable time after SIGTERM" (MCP, lifecycle, shutdown). Both
// signals go to the group, which has ended when each of its processes has ended.
func (c *Child) Terminate(grace time.Duration) {
	c.shutdownOnce.Do(func() { close(c.shutdown) })
	c.group.tagAgain()
	_ = c.stdin.Close()
	for _, step := range []struct {
		act  func()
		wait time.Duration
	}{{func() {}, grace / 2}, {c.group.terminate, grace - grace/2}, {c.killGroup, killGrace}} {
		c.whileHeld(step.act)
		select {
		case <-c.exited:
			return
		case <-time.After(step.wait):
		}
	}
}

// Kill implements [Process].
func (c *Child) Kill() {
	c.shutdownOnce.Do(func() { close(c.shutdown) })
	c.group.tagAgain()
	c.whileHeld(c.killGroup)
}

func (c *Child) killGroup() {
	c.endGrace()
	c.group.kill()
}

func (c *Child) endGrace() { c.graceOnce.Do(func() { close(c.graceOver) }) }

// whileHeld calls f while the process has not been reaped. Afterwards its id may
// belong to another process, and f is not called.
func (c *Child) whileHeld(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released {
		f()
	}
}

// Release implements [Process].
func (c *Child) Release() error {
	c.releaseOnce.Do(func() {
		c.stderrIn.stop()
		closeAll([]*os.File{c.stdin, c.stdout, c.stderrPipe})
		<-c.stderrIn.done
		select {
		case <-c.exited:
		default:
			if c.group.dead() { // reap waits for the rest of the group only
				c.endGrace()
				<-c.exited
			}
		}
		select {
		case <-c.exited:
			<-c.reapDone
			c.releaseErr = c.survivors
		default:
			c.releaseErr = fmt.Errorf("process %d (%s) is still running after SIGKILL", c.PID(), c.path)
		}
	})
	return c.releaseErr
}

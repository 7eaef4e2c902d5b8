// Package memory runs the server of an InMemory specification in a goroutine that implements
// process.Process: it has three streams, an exit and a shutdown like [process.Child]. The
// difference is that a goroutine cannot be killed.
package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// Process is the goroutine of a server in memory. Safe for concurrent use.
type Process struct {
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	stderr *process.StderrTail
	cancel context.CancelFunc // ends the context of Serve
	ending atomic.Bool        // set before the streams end
	exited context.Context    // ends when Serve has returned
	err    error              // what Serve returned, without secrets; set before exited ends
}

// Start runs the server in a goroutine. It keeps that many lines of its stderr. These, and
// the error or the panic of the server, are shown without secrets.
func Start(m *mcpvisor.InMemory, lines int, redactor redact.Redactor) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	exited, exit := context.WithCancel(context.Background())
	r := &Process{stdin: inW, stdout: outR, stderr: process.NewStderrTail(lines, redactor), cancel: cancel, exited: exited}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.err = redactor.Error(fmt.Errorf("panic: %v", p))
			}
			r.ending.Store(true)
			cancel()
			_ = outW.Close()
			_ = inR.Close()
			exit()
		}()
		r.err = redactor.Error(hostcall.SafeError("Serve", m.Serve(ctx, inR, outW, r.stderr)))
	}()
	return r
}

// Stdin implements process.Process.
func (r *Process) Stdin() io.WriteCloser { return r.stdin }

// Stdout implements process.Process.
func (r *Process) Stdout() io.ReadCloser { return r.stdout }

// GrowStdout implements process.Process. It does nothing: a pipe in memory has no buffer.
func (r *Process) GrowStdout() {}

// PID implements process.Process. It is 0.
func (r *Process) PID() int { return 0 }

// Exited implements process.Process.
func (r *Process) Exited() <-chan struct{} { return r.exited.Done() }

// OnExited implements process.Process. A goroutine of its own calls f.
func (r *Process) OnExited(f func()) { context.AfterFunc(r.exited, f) }

// Exiting implements process.Process.
func (r *Process) Exiting() bool { return r.ending.Load() }

// ExitCause implements process.Process.
func (r *Process) ExitCause() *supervisor.Cause {
	c := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server is running", Stderr: r.stderr.Lines()}
	select {
	case <-r.exited.Done():
	default:
		return c
	}
	c.Message = "server ended"
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		c.Err, c.Message = r.err, "server ended: "+r.err.Error()
	}
	return c
}

// StderrTail implements process.Process.
func (r *Process) StderrTail() monitor.ServerStderr {
	select {
	case <-r.exited.Done():
		return r.stderr.Snapshot(true)
	default:
		return r.stderr.Snapshot(false)
	}
}

// Terminate implements process.Process. It closes stdin, and ends the context after half of
// the grace. A goroutine cannot be killed, so after the grace Terminate returns while it
// still runs.
func (r *Process) Terminate(grace time.Duration) {
	_ = r.stdin.Close()
	for _, step := range []func(){r.cancel, func() {}} {
		select {
		case <-r.exited.Done():
			return
		case <-time.After(grace / 2):
		}
		step()
	}
}

// Kill implements process.Process. A goroutine cannot be killed: Kill closes stdin and ends the
// context at once.
func (r *Process) Kill() {
	r.cancel()
	_ = r.stdin.Close()
}

// Release implements process.Process. The error says that the goroutine still runs.
func (r *Process) Release() error {
	_ = r.stdin.Close()
	_ = r.stdout.Close()
	select {
	case <-r.exited.Done():
		return nil
	default:
		return errors.New("the goroutine of the server is still running; Serve must return when its stdin ends, or its context")
	}
}

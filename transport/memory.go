package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

func newMemoryDialer(spec mcpvisor.ServerSpec, opts Options) Dialer {
	var secrets secret.List
	secrets.Add(spec.Secrets...)
	redactor := redact.New(&secrets)
	d := newPipedDialer(spec, opts, func() (process.Process, *supervisor.Cause) {
		return startRoutine(spec.InMemory, spec.Limits.MaxStderrLines, redactor), nil
	})
	d.redactor = redactor
	return d
}

// routine is a goroutine that plays a process.
type routine struct {
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	stderr *process.StderrTail
	cancel context.CancelFunc
	ending atomic.Bool // set before the streams end
	exited chan struct{}
	err    error
}

func startRoutine(m *mcpvisor.InMemory, lines int, redactor redact.Redactor) *routine {
	ctx, cancel := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &routine{stdin: inW, stdout: outR, stderr: process.NewStderrTail(lines, redactor), cancel: cancel, exited: make(chan struct{})}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("panic: %v", p)
			}
			r.ending.Store(true)
			cancel()
			_ = outW.Close()
			_ = inR.Close()
			close(r.exited)
		}()
		r.err = guard.SafeError("Serve", m.Serve(ctx, inR, outW, r.stderr))
	}()
	return r
}

func (r *routine) Stdin() io.WriteCloser   { return r.stdin }
func (r *routine) Stdout() io.ReadCloser   { return r.stdout }
func (r *routine) GrowStdout()             {}
func (r *routine) PID() int                { return 0 }
func (r *routine) Exited() <-chan struct{} { return r.exited }
func (r *routine) Exiting() bool           { return r.ending.Load() }

func (r *routine) ExitCause() *supervisor.Cause {
	c := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server is running", Stderr: r.stderr.Lines()}
	select {
	case <-r.exited:
	default:
		return c
	}
	c.Message = "server ended"
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		c.Err, c.Message = r.err, "server ended: "+r.err.Error()
	}
	return c
}

// Terminate cannot kill a goroutine. One that ignores both the end of stdin
// and its context is left behind after the grace.
func (r *routine) Terminate(grace time.Duration) {
	_ = r.stdin.Close()
	for _, step := range []func(){r.cancel, func() {}} {
		t := time.NewTimer(grace / 2)
		select {
		case <-r.exited:
			t.Stop()
			return
		case <-t.C:
		}
		step()
	}
}

func (r *routine) Release() error {
	_ = r.stdin.Close()
	_ = r.stdout.Close()
	select {
	case <-r.exited:
		return nil
	default:
		return errors.New("the goroutine of the server is still running; Serve must return when its stdin ends, or its context")
	}
}

package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"

	"github.com/mcpvisor/mcpvisor/test/fixture/statedir"
)

// host is what an incarnation does outside the protocol, as a process or as a
// goroutine.
type host interface {
	// exit and die end the incarnation. In a process they do not return.
	exit(s *server, code int)
	die(s *server, signal string)
	// fork starts a grandchild and returns its pid.
	fork(detached bool) (int, error)
	// ignoreShutdown makes polite signals have no effect.
	ignoreShutdown()
}

// server is one incarnation on a pair of streams.
type server struct {
	script   Script
	host     host
	counter  *statedir.Counter
	start    int
	instance string

	in   io.ReadCloser
	out  *output
	errs io.Writer // stderr

	ctx    context.Context
	cancel context.CancelCauseFunc
	// stopped is closed when the server stops reading stdin.
	stopped  chan struct{}
	stopOnce sync.Once
	// ignoresEOF: the server does not exit when stdin ends.
	ignoresEOF atomic.Bool

	taskMu         sync.Mutex // held while a task is changed
	tasks          sync.Map   // of this incarnation only: JSON of a taskRecord, by id
	plan           plan
	catalog        *catalog
	session        session
	calls          inFlight
	clientRequests serverRequests
	running        sync.WaitGroup
}

// errEnded is the cause of an incarnation whose stdin has ended.
var errEnded = errors.New("mcptest: stdin ended")

func newServer(ctx context.Context, script Script, h host, counter *statedir.Counter, start int, in io.ReadCloser, out io.WriteCloser, errs io.Writer) *server {
	if errs == nil {
		errs = io.Discard
	}
	s := &server{
		script: script, host: h, counter: counter, start: start, instance: rand.Text(),
		in: in, out: &output{out: out}, errs: errs,
		stopped: make(chan struct{}), plan: newPlan(script.Faults, start),
		catalog: newCatalog(script.forStart(start)),
		session: session{subscribed: map[string]bool{}, listening: map[string]listenFilter{}},
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// run serves until stdin ends, the context ends or a fault ends the server. When it
// returns, every goroutine of the incarnation has returned.
func (s *server) run() error {
	unwatch := make(chan struct{})
	stop := context.AfterFunc(s.ctx, func() {
		defer close(unwatch)
		// Closing unblocks a read and a write.
		_ = s.in.Close()
		s.out.close()
	})
	s.serve()
	s.cancel(errEnded)
	if stop() {
		close(unwatch)
	}
	<-unwatch
	s.out.close()
	s.running.Wait()
	if cause := context.Cause(s.ctx); !errors.Is(cause, errEnded) {
		return cause
	}
	return nil
}

func (s *server) serve() {
	if !s.pause(s.ctx, s.script.StartDelay) || !s.injectStage(StageStart) {
		return
	}
	if s.read() {
		<-s.ctx.Done()
		return
	}
	if s.ctx.Err() != nil || !s.injectStage(StageStdinClosed) {
		return
	}
	if s.ignoresEOF.Load() || s.stoppedReading() {
		<-s.ctx.Done()
	}
}

// read handles lines until stdin ends. It returns true if a fault has stopped the
// reading.
func (s *server) read() (stopped bool) {
	lines := bufio.NewReaderSize(s.in, 64<<10)
	for s.ctx.Err() == nil {
		if s.stoppedReading() {
			return true
		}
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.handleLine(line)
		}
		if err != nil {
			return s.stoppedReading()
		}
	}
	return false
}

func (s *server) stopReading() { s.stopOnce.Do(func() { close(s.stopped) }) }

func (s *server) stoppedReading() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// pause waits; false means that ctx ended first.
func (s *server) pause(ctx context.Context, d time.Duration) bool {
	return backoff.Sleep(ctx, d) == nil
}

// logf writes a line to stderr.
func (s *server) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.errs, format+"\n", args...)
}

// output is stdout. Each write is complete before the next one begins.
type output struct {
	mu   sync.Mutex
	out  io.WriteCloser
	once sync.Once
}

// writeLine writes text and a line feed in one write.
func (w *output) writeLine(text []byte) { w.writeRaw(append(text, '\n')) }

// writeRaw writes bytes unchanged. It ignores a failed write, because the end of stdin
// shows that the client is gone.
func (w *output) writeRaw(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.out.Write(b)
}

// writeInterrupted writes first, calls between while other writes wait, and then writes
// what between returns.
func (w *output) writeInterrupted(first []byte, between func() []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.out.Write(first)
	if rest := between(); len(rest) > 0 {
		_, _ = w.out.Write(rest)
	}
}

// close closes stdout without waiting for a write that is blocked on it.
func (w *output) close() { w.once.Do(func() { _ = w.out.Close() }) }

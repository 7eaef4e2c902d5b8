package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/decisive"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio/reader"
)

// evidenceTimeout is how long to wait, after a stream or the process has ended, for
// the evidence that explains the end: the exit status after an end of file, or the
// responses and the stderr that are still in the pipes. Usually both arrive at once.
const evidenceTimeout = 50 * time.Millisecond

// processConn is one process and the connection to it, from the start of the process
// until it has been reaped. Package reader says when a goroutine reads. Another one writes
// while the pipe is full, and another one ends the process.
type processConn struct {
	// Set by newProcessConn, constant afterwards.
	lifetime        *jsonrpc.Lifetime // shared with conn; guards itself
	conn            *conn
	proc            process.Process
	handler         *inbound.Handler // serves the requests of the server
	handshake       handshake        // guards itself
	speaksLegacy    bool             // the server has said that it speaks the legacy era, too; set by connect
	shutdownTimeout time.Duration
	killed          *atomic.Bool // of the session: the process gets no grace

	loops    sync.WaitGroup // the reading, writing and request-serving goroutines
	readDone chan struct{}  // closed when stdout has ended
}

// newProcessConn begins to read from and write to a process that was just started for a
// session.
func newProcessConn(proc process.Process, s *session) *processConn {
	life := jsonrpc.NewLifetime()
	p := &processConn{
		lifetime:        life,
		proc:            proc,
		handler:         s.dialer.handlers.NewHandler(life),
		shutdownTimeout: s.dialer.spec.Timeouts.Shutdown,
		killed:          &s.killed,
		readDone:        make(chan struct{}),
	}
	p.handler.Redactor, p.handler.Observe = s.dialer.redactor, s.observe
	c := newConn(life, proc.Stdout(), proc.Stdin(), reader.Options{MaxLine: s.dialer.spec.Limits.MaxMessageBytes, Buffer: s.dialer.buffer,
		OnLarge: proc.GrowStdout, Go: p.loops.Go}) // no Go after Stop
	p.conn, p.handshake.conn = c, c
	c.notifications, c.redactor = &s.notifications, s.dialer.redactor
	c.serverRequests.Handler = p.handler
	// The goroutine that reads calls Go. It is itself one of loops, so loops.Wait has
	// not returned then.
	c.serverRequests.Go = func(f func()) bool { p.loops.Go(f); return true }
	c.goWrite, c.onWriteError = p.loops.Go, func(err error) { p.streamEnded("stdin", err) }
	c.onReadEnd = func(err error) {
		close(p.readDone)
		p.streamEnded("stdout", err)
	}
	c.reader.Start()
	life.OnDead(func() { go p.shutdown() })
	proc.OnExited(p.onExited)
	return p
}

// streamEnded is called when a stream broke. If the process exits, its exit status is
// the better cause, and onExited reports it. A process that continues without its
// streams is of no use, and is ended.
func (p *processConn) streamEnded(name string, err error) {
	for wait := true; wait; wait = p.proc.Exiting() {
		select {
		case <-p.lifetime.Dead():
			return
		case <-p.proc.Exited():
			return
		case <-time.After(evidenceTimeout):
		}
	}
	what := "closed its " + name
	if err != nil && !errors.Is(err, io.EOF) {
		what = fmt.Sprintf("broke its %s (%v)", name, err)
	}
	p.conn.end(decisive.Lead(&supervisor.Cause{Kind: supervisor.CauseClosed, Err: err,
		Message: "server " + what + " but did not exit", Stderr: p.proc.ExitCause().Stderr}, false))
}

// exitCause is why the process has ended. It begins with the line of its stderr that says so,
// if one does.
func (p *processConn) exitCause() *supervisor.Cause { return decisive.Lead(p.proc.ExitCause(), false) }

// onExited ends the connection after the exit of the process. Responses may still be in the
// pipe, so it waits a moment for the end of stdout. It does not block.
func (p *processConn) onExited() {
	p.conn.reader.Wake() // the end of stdout may not have been seen
	select {
	case <-p.readDone:
		p.conn.end(p.exitCause())
		return
	default:
	}
	go func() {
		select {
		case <-p.readDone:
		case <-p.lifetime.Dead():
		case <-time.After(evidenceTimeout):
		}
		p.conn.end(p.exitCause())
	}()
}

// shutdown terminates the process after the end of the connection, waits for all
// goroutines of the session, and releases the lifetime. A caller that leads is not waited for:
// failAll gave its call up, which interrupts its read.
func (p *processConn) shutdown() {
	p.conn.failAll() // conn.end may not have reached failAll yet; no goroutine that writes starts after it
	if p.killed.Load() {
		p.proc.Kill()
	}
	p.proc.Terminate(p.shutdownTimeout)
	p.conn.reader.Stop() // before stdout is closed, and before loops.Wait
	p.lifetime.RecordLeft(p.proc.Release())
	p.loops.Wait()
	p.lifetime.Release()
}

// connect performs the handshake. version is the protocol version that is proposed; empty means the newest.
func (p *processConn) connect(ctx context.Context, info *mcp.Implementation, version string, discoverTimeout time.Duration) (*mcp.InitializeResult, error) {
	p.handshake.discoverTimeout = discoverTimeout
	defer p.conn.reader.AllowIdle()
	conn := jsonrpc.NewSDKConn(p.handshake.call, p.handshake.notify)
	result, err := p.handler.Negotiate(ctx, info, conn, version)
	p.speaksLegacy = err == nil && conn.SpeaksLegacy()
	return result, err
}

// followRootChanges notifies a legacy server whenever the roots change. The modern era
// has no such notification.
func (p *processConn) followRootChanges(modern bool) (unfollow func()) {
	if modern {
		return func() {}
	}
	return p.handler.FollowRoots(func() {
		p.conn.postLineIfRoom(&outgoing{text: []byte(jsonrpc.RootsChanged + "\n")}, maxServerRequests)
	})
}

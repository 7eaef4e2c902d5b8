package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// lastWords is how long after the end of one stream, or of the process, the
// other evidence is waited for: the exit status behind an EOF, the answers
// and the stderr that are still in the pipes. Normally both are there at once.
const lastWords = 50 * time.Millisecond

// link is one process with a wire to it, from spawn to reaping.
type link struct {
	*wire
	proc     process.Process
	grace    time.Duration
	loops    sync.WaitGroup
	readDone chan struct{}

	mu     sync.Mutex
	client *mcp.ClientSession

	answers *inbound.Handler
}

// newLink begins to serve a process that was just started.
func newLink(p process.Process, limit int, grace time.Duration, told *jsonrpc.Notifications, redactor redact.Redactor, asked *inbound.HandlerPool, buffer *budget.Budget) *link {
	l := &link{proc: p, grace: grace, readDone: make(chan struct{})}
	l.wire = newWire(jsonrpc.NewLifetime(), p.Stdout(), p.Stdin(), limit)
	l.notices, l.redactor, l.buffer = told, redactor, buffer
	l.answers = asked.NewHandler(l.Lifetime)
	l.answers.Redactor = redactor
	l.asked.Handler = l.answers
	l.asked.Go = func(f func()) bool { l.loops.Go(f); return true } // called by a loop
	l.in.onLarge = p.GrowStdout
	l.loops.Go(func() {
		err := l.readLoop()
		close(l.readDone)
		l.streamEnded("stdout", err)
	})
	l.loops.Go(func() {
		if err := l.writeLoop(); err != nil {
			l.streamEnded("stdin", err)
		}
	})
	go l.watch()
	return l
}

// streamEnded is called when a stream broke. If the process ends with it, the
// exit status is the better cause; a process that lives on without its streams
// is of no use.
func (l *link) streamEnded(name string, err error) {
	for wait := true; wait; wait = l.proc.Exiting() {
		t := time.NewTimer(lastWords)
		select {
		case <-l.Dead():
			t.Stop()
			return
		case <-l.proc.Exited(): // watch tells the cause
			t.Stop()
			return
		case <-t.C:
		}
	}
	what := "closed its " + name
	if err != nil && !errors.Is(err, io.EOF) {
		what = fmt.Sprintf("broke its %s (%v)", name, err)
	}
	l.die(&supervisor.Cause{Kind: supervisor.CauseClosed, Err: err,
		Message: "server " + what + " but did not exit", Stderr: l.proc.ExitCause().Stderr})
}

// watch follows the process to its end, and then takes everything down.
func (l *link) watch() {
	select {
	case <-l.proc.Exited():
		t := time.NewTimer(lastWords)
		select {
		case <-l.readDone:
		case <-l.Dead():
		case <-t.C:
		}
		t.Stop()
		l.die(l.proc.ExitCause())
	case <-l.Dead():
	}
	l.proc.Terminate(l.grace)
	l.RecordLeft(l.proc.Release())
	l.loops.Wait()
	_ = l.control.Close()
	l.mu.Lock()
	client := l.client
	l.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
	l.Release()
}

// connect negotiates a session on the link. version is what the go-sdk opens
// with; empty means the newest, which begins with server/discover.
func (l *link) connect(ctx context.Context, info *mcp.Implementation, version string, patience time.Duration) (*mcp.InitializeResult, error) {
	l.control.patience = patience
	client := l.answers.NewClient(info)
	client.AddSendingMiddleware(l.meetServer)
	session, err := client.Connect(ctx, l.control, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.client = session
	l.mu.Unlock()
	return session.InitializeResult(), nil
}

// meetServer makes the go-sdk's session known with the first message that it
// sends: some servers ask before they answer initialize.
func (l *link) meetServer(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if session, ok := req.GetSession().(*mcp.ClientSession); ok {
			l.answers.SetSession(session)
		}
		return next(ctx, method, req)
	}
}

// followRoots tells a legacy server whenever the roots change.
func (l *link) followRoots(modern bool) (unfollow func()) {
	if modern {
		return func() {}
	}
	return l.answers.FollowRoots(func() {
		l.postIfRoom(&outgoing{line: []byte(jsonrpc.RootsChanged + "\n")}, controlQueue)
	})
}

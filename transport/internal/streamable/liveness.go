package streamable

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// liveness knows whether the session lives, why it ended, and which of its tasks must return
// before its release. Safe for concurrent use.
//
// Fields without a remark are set by NewSession and not changed afterwards.
type liveness struct {
	// lifetime records the end and the release. It has its own mutex.
	lifetime *jsonrpc.Lifetime
	// ctx ends with the session. The session's own exchanges derive from it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// onEnd is called once, at the end of the session. It must not block.
	onEnd    func(cause *supervisor.Cause)
	shownURL string // of the server, without its secrets
	// received records when the server last answered a request of this session, or reported
	// progress of one. Nothing else counts: a proxy sends error pages and comments, and what
	// comes on an open stream does not show that a request would be answered.
	received jsonrpc.LastReceived
	// answered: a request had a result since a check of calls.verify was the first to be refused.
	answered atomic.Bool
	// serverGone: the server or its session is gone, so that no DELETE can end the session.
	// lose sets it.
	serverGone atomic.Bool

	mu      sync.Mutex    // guards the start of tasks, closing and checked
	closing bool          // no further task starts; set by refuseTasks
	checked chan struct{} // closed when the running check of confirm ends; nil if none runs
	// tasks counts the goroutines and calls that must return before the release.
	tasks sync.WaitGroup
}

func newLiveness() *liveness {
	l := &liveness{lifetime: jsonrpc.NewLifetime(), received: jsonrpc.NewLastReceived()}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// cause returns why the session ended; nil if it lives.
func (l *liveness) cause() *supervisor.Cause { return l.lifetime.Cause() }

// end ends the session, unless it has ended. It returns at once.
func (l *liveness) end(cause *supervisor.Cause) {
	if l.lifetime.End(cause) {
		l.cancel(cause)
		l.onEnd(cause)
	}
}

// lose ends the session because of an error that is SessionLost or ServerGone.
func (l *liveness) lose(httpErr *endpoint.HTTPError) {
	l.serverGone.Store(true)
	l.end(httpErr.EndCause(l.shownURL))
}

// startTask registers a task that the release of the session waits for; tasks.Done ends it.
// It reports false if the session is shutting down.
func (l *liveness) startTask() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.startTaskLocked()
}

func (l *liveness) startTaskLocked() bool {
	if l.closing {
		return false
	}
	l.tasks.Add(1)
	return true
}

// goTask runs a task in a goroutine. It reports false, and does not run the task, if the
// session is shutting down.
func (l *liveness) goTask(task func()) bool {
	if !l.startTask() {
		return false
	}
	go func() {
		defer l.tasks.Done()
		task()
	}()
	return true
}

// refuseTasks makes startTask fail from now on.
func (l *liveness) refuseTasks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

// confirm checks by a ping whether a server whose connection broke is still alive. ping ends
// the session if it is not, within a bounded time. So a crash is not reported as an invalid
// reply. Calls that broke together share one check. confirm returns when the check ends,
// when ctx ends, or when the session ends.
func (l *liveness) confirm(ctx context.Context, ping func()) {
	l.mu.Lock()
	checked := l.checked
	if checked == nil {
		if !l.startTaskLocked() {
			l.mu.Unlock()
			return
		}
		checked = make(chan struct{})
		l.checked = checked
		go func() {
			defer l.tasks.Done()
			ping()
			l.mu.Lock()
			l.checked = nil
			l.mu.Unlock()
			close(checked)
		}()
	}
	l.mu.Unlock()
	select {
	case <-checked:
	case <-l.lifetime.Dead():
	case <-ctx.Done():
	}
}

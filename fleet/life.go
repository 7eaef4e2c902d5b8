package fleet

import (
	"sync"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// life is the end of a session that holds nothing of the system: what [transport.Session] says of
// Dead, Cause and Released. Safe for concurrent use.
type life struct {
	dead, released chan struct{}

	mu         sync.Mutex
	cause      *supervisor.Cause // guarded by mu, as the fields below
	gone       bool
	onDead     []func()
	onReleased []func()
}

func newLife() *life { return &life{dead: make(chan struct{}), released: make(chan struct{})} }

// end ends the session with its first cause, and reports whether this is it.
func (l *life) end(cause *supervisor.Cause) bool {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return false
	}
	l.cause = cause
	calls := l.onDead
	l.onDead = nil
	close(l.dead)
	l.mu.Unlock()
	for _, f := range calls {
		f()
	}
	return true
}

// release says that nothing is left. The session has ended before.
func (l *life) release() {
	l.mu.Lock()
	calls, first := l.onReleased, !l.gone
	l.onReleased, l.gone = nil, true
	if first {
		close(l.released)
	}
	l.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// Dead, Cause, Released, OnDead, OnReleased and Left are those of [transport.Session].
func (l *life) Dead() <-chan struct{}     { return l.dead }
func (l *life) Released() <-chan struct{} { return l.released }
func (l *life) Left() error               { return nil }

func (l *life) Cause() *supervisor.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *life) OnDead(f func()) {
	l.mu.Lock()
	if l.cause == nil {
		l.onDead = append(l.onDead, f)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

func (l *life) OnReleased(f func()) {
	l.mu.Lock()
	if !l.gone {
		l.onReleased = append(l.onReleased, f)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

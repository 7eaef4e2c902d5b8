package fleet

import (
	"sync"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ending is the end of a session that holds nothing of the system: what [transport.Session] says of
// Dead, Cause and Released. Safe for concurrent use.
type ending struct {
	dead, released chan struct{}

	mu         sync.Mutex
	cause      *supervisor.Cause // guarded by mu, as the fields below
	gone       bool
	onDead     []func()
	onReleased []func()
}

func newEnding() *ending { return &ending{dead: make(chan struct{}), released: make(chan struct{})} }

// end ends the session with its first cause, and reports whether this is it.
func (e *ending) end(cause *supervisor.Cause) bool {
	e.mu.Lock()
	if e.cause != nil {
		e.mu.Unlock()
		return false
	}
	e.cause = cause
	calls := e.onDead
	e.onDead = nil
	close(e.dead)
	e.mu.Unlock()
	for _, f := range calls {
		f()
	}
	return true
}

// release says that nothing is left. The session has ended before.
func (e *ending) release() {
	e.mu.Lock()
	calls, first := e.onReleased, !e.gone
	e.onReleased, e.gone = nil, true
	if first {
		close(e.released)
	}
	e.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// Dead, Cause, Released, OnDead, OnReleased and Left are those of [transport.Session].
func (e *ending) Dead() <-chan struct{}     { return e.dead }
func (e *ending) Released() <-chan struct{} { return e.released }
func (e *ending) Left() error               { return nil }

func (e *ending) Cause() *supervisor.Cause {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

func (e *ending) OnDead(f func()) {
	e.mu.Lock()
	if e.cause == nil {
		e.onDead = append(e.onDead, f)
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	f()
}

func (e *ending) OnReleased(f func()) {
	e.mu.Lock()
	if !e.gone {
		e.onReleased = append(e.onReleased, f)
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	f()
}

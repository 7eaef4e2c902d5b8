package fleet

import (
	"sync"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ending is the end of a session that holds nothing of the system: what [transport.Session] says of
// Dead, Cause and Released. Safe for concurrent use.
type ending struct {
	cause          atomic.Pointer[supervisor.Cause]
	dead, released event
}

func newEnding() *ending {
	return &ending{dead: event{done: make(chan struct{})}, released: event{done: make(chan struct{})}}
}

// end ends the session with its first cause, and reports whether this is it.
func (e *ending) end(cause *supervisor.Cause) bool {
	if !e.cause.CompareAndSwap(nil, cause) {
		return false
	}
	e.dead.happen()
	return true
}

// release says that nothing is left. The session has ended before.
func (e *ending) release() { e.released.happen() }

// Dead, Cause, Released, OnDead, OnReleased and Left are those of [transport.Session].
func (e *ending) Dead() <-chan struct{}     { return e.dead.done }
func (e *ending) Released() <-chan struct{} { return e.released.done }
func (e *ending) Left() error               { return nil }
func (e *ending) OnDead(f func())           { e.dead.on(f) }
func (e *ending) OnReleased(f func())       { e.released.on(f) }

// Cause is nil before Dead is closed, as [transport.Session] wants it.
func (e *ending) Cause() *supervisor.Cause {
	select {
	case <-e.dead.done:
		return e.cause.Load()
	default:
		return nil
	}
}

// event is something that happens once. Safe for concurrent use.
type event struct {
	done chan struct{} // closed when it has happened

	mu    sync.Mutex
	over  bool     // guarded by mu, as calls
	calls []func() // when it happens
}

func (e *event) happen() {
	e.mu.Lock()
	calls := e.calls
	e.calls = nil
	if !e.over {
		e.over = true
		close(e.done)
	}
	e.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// on calls f when it happens, or at once if it has.
func (e *event) on(f func()) {
	e.mu.Lock()
	over := e.over
	if !over {
		e.calls = append(e.calls, f)
	}
	e.mu.Unlock()
	if over {
		f()
	}
}

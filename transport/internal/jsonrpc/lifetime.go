package jsonrpc

import (
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Lifetime records the end of a session or of its process. It ends once, with the first
// cause, and is released once after that: then no process, connection or goroutine of it
// is left. Safe for concurrent use.
type Lifetime struct {
	mu     sync.Mutex        // guards cause, left and parent
	cause  *supervisor.Cause // why it ended; nil: it has not
	left   error             // what could not be ended
	parent *Lifetime         // ends together with this one; nil: no parent

	ended    chan struct{} // closed by End, after cause is set
	released chan struct{} // closed by Release
	once     sync.Once     // of Release
}

// NewLifetime returns a lifetime that has not ended.
func NewLifetime() *Lifetime {
	return &Lifetime{ended: make(chan struct{}), released: make(chan struct{})}
}

// End records the end and reports whether this was the first cause. The parent ends
// before the Dead channel of this lifetime is closed, so a goroutine that sees this
// lifetime ended sees the parent ended, too.
func (l *Lifetime) End(cause *supervisor.Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	if l.parent != nil {
		l.parent.End(cause)
	}
	close(l.ended)
	return true
}

// PropagateTo makes parent end when l ends; at once if l has ended already.
func (l *Lifetime) PropagateTo(parent *Lifetime) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parent = parent
	if l.cause != nil {
		parent.End(l.cause)
	}
}

// RecordLeft records a process or goroutine that could not be ended. It is called before
// Release.
func (l *Lifetime) RecordLeft(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(l.left, err) {
		l.left = errors.Join(l.left, err)
	}
}

// Left returns what could not be ended; nil if nothing is left.
func (l *Lifetime) Left() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// Release records that nothing is left except what RecordLeft got. Further calls do
// nothing.
func (l *Lifetime) Release() { l.once.Do(func() { close(l.released) }) }

// Cause returns why the lifetime ended; nil if it has not.
func (l *Lifetime) Cause() *supervisor.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Dead returns a channel that End closes.
func (l *Lifetime) Dead() <-chan struct{} { return l.ended }

// Released returns a channel that Release closes.
func (l *Lifetime) Released() <-chan struct{} { return l.released }

package jsonrpc

import (
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Lifetime is the one place where an end is recorded: dead once, of the first
// cause; released once, afterwards.
type Lifetime struct {
	mu       sync.Mutex
	cause    *supervisor.Cause
	left     error
	parent   *Lifetime
	ended    chan struct{}
	released chan struct{}
	once     sync.Once
}

// NewLifetime makes the record of a session that lives.
func NewLifetime() *Lifetime {
	return &Lifetime{ended: make(chan struct{}), released: make(chan struct{})}
}

// End records the end. It reports whether this was the first cause. A heir is
// dead before Dead of this one is closed.
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

// PropagateTo makes heir die when l does, at once if l is dead already.
func (l *Lifetime) PropagateTo(parent *Lifetime) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parent = parent
	if l.cause != nil {
		parent.End(l.cause)
	}
}

// RecordLeft records what could not be ended. It comes before release.
func (l *Lifetime) RecordLeft(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(l.left, err) {
		l.left = errors.Join(l.left, err)
	}
}

// Left says what could not be ended; nil if nothing is left.
func (l *Lifetime) Left() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// Release records that nothing is left, or nothing that could be ended.
func (l *Lifetime) Release() { l.once.Do(func() { close(l.released) }) }

// Cause is why it died; nil while it lives.
func (l *Lifetime) Cause() *supervisor.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Dead is closed at the end.
func (l *Lifetime) Dead() <-chan struct{} { return l.ended }

// Released is closed when nothing is left.
func (l *Lifetime) Released() <-chan struct{} { return l.released }

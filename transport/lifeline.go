package transport

import (
	"sync"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// lifeline is the one place where an end is recorded: dead once, of the first
// cause; released once, afterwards.
type lifeline struct {
	mu       sync.Mutex
	cause    *supervisor.Cause
	dead     chan struct{}
	released chan struct{}
	once     sync.Once
}

func newLifeline() *lifeline {
	return &lifeline{dead: make(chan struct{}), released: make(chan struct{})}
}

// die records the end. It reports whether this was the first cause.
func (l *lifeline) die(cause *supervisor.Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	close(l.dead)
	return true
}

// release records that nothing is left.
func (l *lifeline) release() { l.once.Do(func() { close(l.released) }) }

// Cause is why it died; nil while it lives.
func (l *lifeline) Cause() *supervisor.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Dead is closed at the end.
func (l *lifeline) Dead() <-chan struct{} { return l.dead }

// Released is closed when nothing is left.
func (l *lifeline) Released() <-chan struct{} { return l.released }

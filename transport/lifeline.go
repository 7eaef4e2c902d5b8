package transport

import (
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// lifeline is the one place where an end is recorded: dead once, of the first
// cause; released once, afterwards.
type lifeline struct {
	mu       sync.Mutex
	cause    *supervisor.Cause
	left     error
	heir     *lifeline
	dead     chan struct{}
	released chan struct{}
	once     sync.Once
}

func newLifeline() *lifeline {
	return &lifeline{dead: make(chan struct{}), released: make(chan struct{})}
}

// die records the end. It reports whether this was the first cause. A heir is
// dead before anybody can see this one dead.
func (l *lifeline) die(cause *supervisor.Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	if l.heir != nil {
		l.heir.die(cause)
	}
	close(l.dead)
	return true
}

// bequeath makes heir die when l does, at once if l is dead already.
func (l *lifeline) bequeath(heir *lifeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heir = heir
	if l.cause != nil {
		heir.die(l.cause)
	}
}

// leaveBehind records what could not be ended. It comes before release.
func (l *lifeline) leaveBehind(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(l.left, err) {
		l.left = errors.Join(l.left, err)
	}
}

// Left says what could not be ended; nil if nothing is left.
func (l *lifeline) Left() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// release records that nothing is left, or nothing that could be ended.
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

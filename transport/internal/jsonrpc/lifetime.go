package jsonrpc

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Lifetime records the end of a session or of its process. It ends once, with the first
// cause, and is released once after that: then no process, connection or goroutine of it
// is left. Safe for concurrent use.
//
// The functions of OnDead and OnReleased are called one at a time, in the order in which
// they became due, and never under a mutex: all of OnDead before those of OnReleased. While
// one goroutine calls them, it also calls those that other goroutines add. They must not
// block. They save a goroutine that only waits for the end.
type Lifetime struct {
	mu     sync.Mutex        // guards all fields down to calling
	cause  *supervisor.Cause // why it ended; nil: it has not
	left   error             // what could not be ended
	parent *Lifetime         // ends together with this one; nil: no parent
	gone   bool              // Release was called

	onDead, onReleased []func() // to be called at the end, and at the release
	due                []func() // to be called now
	calling            bool     // a goroutine calls the functions of due

	ended    chan struct{} // closed by End, after cause is set
	released chan struct{} // closed by Release
}

// NewLifetime returns a lifetime that has not ended.
func NewLifetime() *Lifetime {
	return &Lifetime{ended: make(chan struct{}), released: make(chan struct{})}
}

// End records the end, calls the functions of OnDead, and reports whether this was the
// first cause. The parent ends before the Dead channel of this lifetime is closed, so a
// goroutine that sees this lifetime ended sees the parent ended, too.
func (l *Lifetime) End(cause *supervisor.Cause) bool {
	first := l.RecordEnd(cause)
	l.Notify()
	return first
}

// RecordEnd is End without the calls: for a caller that holds a mutex, or that has more
// urgent work. It calls Notify afterwards. The cause outlives the session in statuses and
// events, so it is cut to the bounds of transport.KeptCause.
func (l *Lifetime) RecordEnd(cause *supervisor.Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	cause = transport.KeptCause(cause)
	l.cause = cause
	if l.parent != nil {
		l.parent.RecordEnd(cause)
	}
	close(l.ended)
	l.due, l.onDead = append(l.due, l.onDead...), nil
	return true
}

// PropagateTo makes parent end when l ends; at once if l has ended already.
func (l *Lifetime) PropagateTo(parent *Lifetime) {
	l.mu.Lock()
	l.parent = parent
	if l.cause != nil {
		parent.RecordEnd(l.cause)
	}
	l.mu.Unlock()
	parent.Notify()
}

// OnDead has f called once when the lifetime ends, after Dead is closed; at once if it
// has ended already. If f panics, the other functions are still called.
func (l *Lifetime) OnDead(f func()) {
	l.mu.Lock()
	if l.cause == nil {
		l.onDead = append(l.onDead, f)
	} else {
		l.due = append(l.due, f)
	}
	l.mu.Unlock()
	l.Notify()
}

// OnReleased has f called once at the release, after Released is closed; at once if that
// has happened already. If f panics, the other functions are still called.
func (l *Lifetime) OnReleased(f func()) {
	l.mu.Lock()
	if l.gone {
		l.due = append(l.due, f)
	} else {
		l.onReleased = append(l.onReleased, f)
	}
	l.mu.Unlock()
	l.Notify()
}

// Notify calls the functions that are due, those of the parent first. The caller holds no
// mutex.
func (l *Lifetime) Notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if parent := l.parent; parent != nil {
		l.mu.Unlock()
		parent.Notify()
		l.mu.Lock()
	}
	for !l.calling && len(l.due) > 0 {
		f := l.due[0]
		l.due, l.calling = l.due[1:], true
		l.mu.Unlock()
		callSafely(f)
		l.mu.Lock()
		l.calling = false
	}
}

// callSafely calls f and drops a panic: the goroutine that ends a session has more to end,
// and the owner of f reports its panics.
func callSafely(f func()) {
	defer func() { _ = recover() }()
	f()
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

// Release records that nothing is left except what RecordLeft got, and calls the functions
// of OnReleased. Further calls do nothing.
func (l *Lifetime) Release() {
	l.mu.Lock()
	if !l.gone {
		l.gone = true
		close(l.released)
		l.due, l.onReleased = append(l.due, l.onReleased...), nil
	}
	l.mu.Unlock()
	l.Notify()
}

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

// LastReceived records when a server last sent anything. It uses the monotonic clock, so a
// change of the wall clock makes no server look silent or alive. The monotonic clock stops
// while the machine is suspended, and the server could not answer in that time either.
// Safe for concurrent use.
type LastReceived struct {
	start time.Time    // with a monotonic reading
	after atomic.Int64 // nanoseconds from start, plus 1; 0: never
}

// NewLastReceived returns the record of a session that begins now and has received nothing.
func NewLastReceived() LastReceived { return LastReceived{start: time.Now()} }

// Note records that the server sends something now.
func (l *LastReceived) Note() { l.after.Store(int64(time.Since(l.start)) + 1) }

// Time returns when the server last sent anything, with a monotonic reading; zero if never.
func (l *LastReceived) Time() time.Time {
	n := l.after.Load()
	if n == 0 {
		return time.Time{}
	}
	return l.start.Add(time.Duration(n - 1))
}

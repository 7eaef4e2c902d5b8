package jsonrpc

import (
	"sync/atomic"
	"time"
)

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

package jsonrpc

import (
	"sync/atomic"
	"time"
)

// LastReceived is when a server last sent anything. It is kept by the monotonic
// clock, so that setting the wall clock makes no server look silent, or alive.
// That clock stands still while the machine is suspended: time in which a server
// could not answer does not count as silence. Safe for concurrent use.
type LastReceived struct {
	start time.Time    // with a monotonic reading
	after atomic.Int64 // nanoseconds from start, plus 1; 0: never
}

// NewLastReceived makes one for a session that begins now.
func NewLastReceived() LastReceived { return LastReceived{start: time.Now()} }

// Note records that the server is sending.
func (l *LastReceived) Note() { l.after.Store(int64(time.Since(l.start)) + 1) }

// Time is when the server last sent anything, with a monotonic reading; zero if
// never.
func (l *LastReceived) Time() time.Time {
	n := l.after.Load()
	if n == 0 {
		return time.Time{}
	}
	return l.start.Add(time.Duration(n - 1))
}

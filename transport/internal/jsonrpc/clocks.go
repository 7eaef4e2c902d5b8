package jsonrpc

import (
	"time"

	"github.com/mcpvisor/mcpvisor/transport"
)

// Clocks are the two bounds of a request: the time without progress, and the
// time at all.
//
// The first stands still while a handler answers a request of the server's that
// belongs to the call.
type Clocks struct {
	idle      time.Duration // 0: no such bound
	latestEnd time.Time     // zero: no such bound

	handlers  int           // that are busy on behalf of the call
	remaining time.Duration // of the idle time, when the first of them began
	requests  int           // requests of the server's that were counted
	renewals  int           // how often an answer of ours has restarted the idle time
}

// Start returns the first deadline of a request; zero if it has none.
func (c *Clocks) Start(r transport.Request) (deadline time.Time) {
	if r.Timeout <= 0 && r.TotalTimeout <= 0 {
		return time.Time{}
	}
	now := time.Now()
	if r.TotalTimeout > 0 {
		c.latestEnd = now.Add(r.TotalTimeout)
	}
	c.idle = r.Timeout
	return c.Progressed(now)
}

// Progressed is the deadline after a sign of progress.
func (c *Clocks) Progressed(now time.Time) time.Time {
	if c.handlers > 0 {
		c.remaining = c.idle
		return c.latestEnd
	}
	return c.deadlineWithin(now, c.idle)
}

// Paused reports whether a handler is busy on behalf of the call.
func (c *Clocks) Paused() bool { return c.handlers > 0 }

// Pause stops the idle clock, and returns the deadline meanwhile.
func (c *Clocks) Pause(deadline, now time.Time) time.Time {
	if c.handlers++; c.handlers == 1 && !deadline.IsZero() {
		c.remaining = deadline.Sub(now)
	}
	return c.latestEnd
}

// Resume undoes one stop, and returns the deadline from now on. A result is a
// sign of progress, as it is since 2026-07-28, where it leads to another round;
// and as often. After any other end the rest of the idle time is left.
func (c *Clocks) Resume(answered bool, now time.Time) time.Time {
	if answered && c.renewals < MaxRounds {
		c.renewals++
		c.remaining = c.idle
	}
	if c.handlers--; c.handlers > 0 {
		return c.latestEnd
	}
	return c.deadlineWithin(now, c.remaining)
}

// CountRequest counts a request of the server's. It reports false if there were enough.
func (c *Clocks) CountRequest() bool {
	c.requests++
	return c.requests <= MaxRequestsPerCall
}

// deadlineWithin is the deadline if left is what is left of the idle time.
func (c *Clocks) deadlineWithin(now time.Time, left time.Duration) time.Time {
	if c.idle <= 0 {
		return c.latestEnd
	}
	deadline := now.Add(left)
	if !c.latestEnd.IsZero() && c.latestEnd.Before(deadline) {
		return c.latestEnd
	}
	return deadline
}

const (
	// MaxRounds is how often a request is sent, the first time included.
	MaxRounds = 8
)

const (
	// MaxInputRequests is how much may be wanted in one round.
	MaxInputRequests = 32
)

const (
	// MaxRequestsPerCall is how many requests of a server are served on behalf of one
	// call. It is what the rounds of a call may hold altogether since 2026-07-28.
	MaxRequestsPerCall = MaxRounds * MaxInputRequests
)

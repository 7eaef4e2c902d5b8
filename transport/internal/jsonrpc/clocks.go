package jsonrpc

import (
	"time"

	"github.com/mcpvisor/mcpvisor/transport"
)

// Clocks are the two time limits of one request: the idle limit (time without progress,
// Request.Timeout) and the total limit (Request.TotalTimeout).
//
// The idle clock is paused while a handler of the host answers a server request that
// belongs to the call. The total clock never stops. The mutex of the Table guards all
// fields.
type Clocks struct {
	idle      time.Duration // the idle limit; 0: no limit
	latestEnd time.Time     // when the total limit ends; zero: no limit

	handlers  int           // handlers of the host that work for the call now
	remaining time.Duration // idle time that was left when the first of them began
	requests  int           // server requests counted against the call
	renewals  int           // how often an answer to the server restarted the idle clock
}

// Start starts both clocks at the time now, and returns the first deadline; zero if the
// request has no limits.
func (c *Clocks) Start(r *transport.Request, now time.Time) (deadline time.Time) {
	if r.Timeout <= 0 && r.TotalTimeout <= 0 {
		return time.Time{}
	}
	if r.TotalTimeout > 0 {
		c.latestEnd = now.Add(r.TotalTimeout)
	}
	c.idle = r.Timeout
	return c.Progressed(now)
}

// Progressed restarts the idle clock after a progress notification and returns the new
// deadline. While a handler runs, only the total limit applies.
func (c *Clocks) Progressed(now time.Time) time.Time {
	if c.handlers > 0 {
		c.remaining = c.idle
		return c.latestEnd
	}
	return c.deadlineWithin(now, c.idle)
}

// Paused reports whether a handler of the host works for the call.
func (c *Clocks) Paused() bool { return c.handlers > 0 }

// Pause stops the idle clock when a handler begins, and returns the deadline until Resume:
// that of the total limit. Several handlers may run; the clock stops with the first.
func (c *Clocks) Pause(deadline, now time.Time) time.Time {
	if c.handlers++; c.handlers == 1 && !deadline.IsZero() {
		c.remaining = deadline.Sub(now)
	}
	return c.latestEnd
}

// Resume undoes one Pause and returns the new deadline. A handler that answered restarts
// the idle clock, at most MaxRounds times: in 2026-07-28 such an answer would lead to
// another round, with an idle limit of its own. After any other end of the handler the
// remaining idle time continues.
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

// CountRequest counts one server request against the call. It reports false beyond
// MaxRequestsPerCall.
func (c *Clocks) CountRequest() bool {
	c.requests++
	return c.requests <= MaxRequestsPerCall
}

// deadlineWithin returns the earlier end of two: of the remaining idle time, and of the
// total limit.
func (c *Clocks) deadlineWithin(now time.Time, remaining time.Duration) time.Time {
	if c.idle <= 0 {
		return c.latestEnd
	}
	deadline := now.Add(remaining)
	if !c.latestEnd.IsZero() && c.latestEnd.Before(deadline) {
		return c.latestEnd
	}
	return deadline
}

const (
	// MaxRounds is how often one request may be sent (2026-07-28, multi round-trip
	// requests), the first time included.
	MaxRounds = 8
	// MaxInputRequests is how many inputs a server may request in one round.
	MaxInputRequests = 32
	// MaxRequestsPerCall is how many requests of a legacy server are served for one call. A
	// modern server may request as many inputs in all rounds of a call.
	MaxRequestsPerCall = MaxRounds * MaxInputRequests
)

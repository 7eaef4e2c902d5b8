package jsonrpc

import "time"

// SweepGrain is how much later than its deadline a request may be given up.
// One timer serves all requests of a session, so a deadline costs a call
// nothing.
const SweepGrain = 5 * time.Millisecond

// DeadlineTimer is the one timer of a table of deadlines. It belongs to the lock of the
// table, which its ring takes.
type DeadlineTimer struct {
	OnFire   func() // set once: a method value for each call would cost memory
	timer    *time.Timer
	armedFor time.Time // zero: not set
}

// Set sees to it that ring is called at the deadline, or before.
func (a *DeadlineTimer) Set(deadline time.Time) {
	if !a.armedFor.IsZero() && !deadline.Before(a.armedFor) {
		return
	}
	a.armedFor = deadline
	after := max(time.Until(deadline), 0)
	if a.timer == nil {
		a.timer = time.AfterFunc(after, a.OnFire)
	} else {
		a.timer.Reset(after)
	}
}

// Fired begins a sweep. It is called first in the function that the timer calls.
func (a *DeadlineTimer) Fired() { a.armedFor = time.Time{} }

// Rearm ends a sweep. deadline is the earliest one that is left; zero: none. Two
// sweeps are at least SweepGrain apart, so that many deadlines which are close
// together cost few sweeps.
func (a *DeadlineTimer) Rearm(now, deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	if soonest := now.Add(SweepGrain); deadline.Before(soonest) {
		deadline = soonest
	}
	a.Set(deadline)
}

// Stop stops the timer. It reports whether it was set. A call of OnFire that has begun
// goes on.
func (a *DeadlineTimer) Stop() bool { return a.timer != nil && a.timer.Stop() }

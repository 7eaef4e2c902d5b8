package jsonrpc

import "time"

// SweepGrain is the shortest time between two deadline sweeps, and so how late a request
// may time out. One timer serves all requests of a session, so that a call needs no
// timer of its own.
const SweepGrain = 5 * time.Millisecond

// DeadlineTimer is the one timer of a table of deadlines. All methods but Stop are called
// with the mutex of the table; OnFire is called without it and acquires it.
//
// One sweep is: OnFire, Fired, a pass over the table, Rearm.
type DeadlineTimer struct {
	OnFire   func()      // set once, because a method value for each call would allocate
	timer    *time.Timer // nil until the first Set
	armedFor time.Time   // when the timer fires; zero: it is not armed
}

// Set makes the timer fire at the deadline or earlier.
func (t *DeadlineTimer) Set(deadline time.Time) {
	if !t.armedFor.IsZero() && !deadline.Before(t.armedFor) {
		return
	}
	t.armedFor = deadline
	after := max(time.Until(deadline), 0)
	if t.timer == nil {
		t.timer = time.AfterFunc(after, t.OnFire)
	} else {
		t.timer.Reset(after)
	}
}

// Fired records that the timer fired. OnFire calls it first.
func (t *DeadlineTimer) Fired() { t.armedFor = time.Time{} }

// Rearm ends a sweep. deadline is the earliest deadline in the table; zero: there are no
// deadlines. Two sweeps are at least SweepGrain apart, so that one sweep serves all
// deadlines within that time.
func (t *DeadlineTimer) Rearm(now, deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	if soonest := now.Add(SweepGrain); deadline.Before(soonest) {
		deadline = soonest
	}
	t.Set(deadline)
}

// Stop stops the timer and reports whether it was armed. It does not wait for a call of
// OnFire that has begun.
func (t *DeadlineTimer) Stop() bool { return t.timer != nil && t.timer.Stop() }

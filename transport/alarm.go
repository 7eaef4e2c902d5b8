package transport

import "time"

// sweepGrain is how much later than its deadline a request may be given up.
// One timer serves all requests of a session, so a deadline costs a call
// nothing.
const sweepGrain = 5 * time.Millisecond

// alarm is the one timer of a table of deadlines. It belongs to the lock of the
// table, which its ring takes.
type alarm struct {
	ring  func() // set once: a method value for each call would cost memory
	timer *time.Timer
	at    time.Time // zero: not set
}

// set sees to it that ring is called at the deadline, or before.
func (a *alarm) set(deadline time.Time) {
	if !a.at.IsZero() && !deadline.Before(a.at) {
		return
	}
	a.at = deadline
	after := max(time.Until(deadline), 0)
	if a.timer == nil {
		a.timer = time.AfterFunc(after, a.ring)
	} else {
		a.timer.Reset(after)
	}
}

// rung begins a sweep; next ends it, with the earliest deadline that is left
// (zero: none). Sweeps keep their distance, so that many deadlines which are
// close together cost few of them.
func (a *alarm) rung() { a.at = time.Time{} }

func (a *alarm) next(now, deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	if soonest := now.Add(sweepGrain); deadline.Before(soonest) {
		deadline = soonest
	}
	a.set(deadline)
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

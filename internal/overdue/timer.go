// Package overdue bounds the time of a peer with timers that wait once more if they fire late.
//
// A process that was stopped (SIGSTOP, docker pause, a debugger), or that gets no processor, finds its
// timers due when it runs again, together with the answers that have come meanwhile. Which of the two is
// handled first is chance, and a server that was stopped with it has not had its time. A timer that fires
// late therefore waits for [Grace], in which what has come is read.
package overdue

import (
	"sync"
	"time"
)

const (
	// tolerance is how late a timer may fire on a machine that is not busy.
	tolerance = 5 * time.Millisecond
	// maxGrace bounds one grace, and maxGraces the graces of one timer.
	maxGrace  = 2 * time.Second
	maxGraces = 2
)

// Grace returns how long to wait for what has come already, because a deadline is noticed late; 0: it is
// not late.
func Grace(late time.Duration) time.Duration {
	if late <= tolerance {
		return 0
	}
	return min(4*late, maxGrace)
}

// Timer calls a function, as the timer of [time.AfterFunc] does. Safe for concurrent use.
type Timer struct {
	f func() // constant

	mu     sync.Mutex // guards the fields below
	timer  *time.Timer
	set    bool      // f is still to be called
	due    time.Time // when
	graces int       // since it was set
}

// AfterFunc calls f in a goroutine of its own after d, and up to twice [Grace] later if this process
// does not run at that time.
func AfterFunc(d time.Duration, f func()) *Timer { return at(time.Now().Add(d), f) }

func at(due time.Time, f func()) *Timer {
	t := &Timer{f: f, set: true, due: due}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(time.Until(due), t.fire)
	return t
}

// Reset makes the timer fire after d. It reports whether the timer was set.
func (t *Timer) Reset(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.set
	t.set, t.due, t.graces = true, time.Now().Add(d), 0
	t.timer.Reset(d)
	return set
}

// Stop reports whether the timer was set; then f is not called.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.set
	t.set = false
	t.timer.Stop()
	return set
}

func (t *Timer) fire() {
	if t.expire(time.Now()) {
		t.f()
	}
}

// expire reports whether f is to be called now. A timer that was stopped or set again since it fired
// is not due.
func (t *Timer) expire(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.set || now.Before(t.due) {
		return false
	}
	if grace := Grace(now.Sub(t.due)); grace > 0 && t.graces < maxGraces {
		t.graces++
		t.due = now.Add(grace)
		t.timer.Reset(grace)
		return false
	}
	t.set = false
	return true
}

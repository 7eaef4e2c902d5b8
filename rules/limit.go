package rules

import (
	"sync"
	"time"
)

// limit counts the calls that one rule lets pass, for each principal by itself. Safe for concurrent use.
type limit struct {
	perMinute int

	mu    sync.Mutex
	of    map[string]*count // by principal; guarded by mu, and so is what follows
	sweep int               // how many counts there may be before those are dropped that say nothing
}

// count is what a principal may still do: room calls at the time at, and more since then.
type count struct {
	room float64
	at   time.Time
}

// minSweep is how many counts are kept without a look at them.
const minSweep = 1024

// take counts one call of a principal. It returns 0 if the call may pass, and otherwise how long it takes until one may.
func (l *limit) take(principal string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of[principal]
	if c == nil {
		if len(l.of) >= max(l.sweep, minSweep) {
			for name, c := range l.of {
				if now.Sub(c.at) >= time.Minute { // it is full
					delete(l.of, name)
				}
			}
			l.sweep = 2 * len(l.of)
		}
		if l.of == nil {
			l.of = map[string]*count{}
		}
		c = &count{room: float64(l.perMinute), at: now}
		l.of[principal] = c
	}
	rate := float64(l.perMinute) / float64(time.Minute)
	c.room, c.at = min(float64(l.perMinute), c.room+max(0, float64(now.Sub(c.at)))*rate), now
	if c.room < 1 {
		return time.Duration((1-c.room)/rate) + 1
	}
	c.room--
	return 0
}

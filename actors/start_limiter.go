package actors

import (
	"runtime"
	"sync"
	"time"
)

// DefaultMaxStarts is how many starts run at one time by default. A start mostly waits, so it is
// a multiple of the cores; with a thousand starts at once none would finish in time.
func DefaultMaxStarts() int { return 16 * runtime.GOMAXPROCS(0) }

// startHold is how long a start counts at most. A server that hangs in its start delays others
// by no more than this.
const startHold = 10 * time.Second

// startLimiter bounds how many subprocesses start at one time: first starts, retries, restarts
// and standbys of all servers. Safe for concurrent use.
type startLimiter struct {
	slots chan struct{} // holds one value for each start; senders wait in the order of arrival
}

func newStartLimiter(most int) *startLimiter {
	if most <= 0 {
		most = DefaultMaxStarts()
	}
	return &startLimiter{slots: make(chan struct{}, most)}
}

// acquire waits until another start may begin, or until giveUp is closed. The start calls done
// when it is over; after startHold it does not count any longer.
func (l *startLimiter) acquire(giveUp <-chan struct{}) (done func()) {
	select {
	case l.slots <- struct{}{}:
	case <-giveUp:
		return func() {}
	}
	var once sync.Once
	release := func() { once.Do(func() { <-l.slots }) }
	timer := time.AfterFunc(startHold, release)
	return func() {
		timer.Stop()
		release()
	}
}

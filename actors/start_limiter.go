package actors

import (
	"runtime"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// DefaultMaxStarts is how many starts run at one time by default. A start mostly waits, so it is
// a multiple of the cores; with a thousand starts at once none would finish in time.
func DefaultMaxStarts() int { return 16 * runtime.GOMAXPROCS(0) }

// startHold is how long a start counts at most. A server that hangs in its start delays others
// by no more than this.
const startHold = 10 * time.Second

// startLimiter bounds how many subprocesses start at one time: first starts, retries, restarts
// and standbys of all servers; and of these, how many by package runners. Safe for concurrent use.
type startLimiter struct {
	slots, runners startSlots
}

// startSlots holds one value for each start; senders wait in the order of arrival.
type startSlots chan struct{}

func newStartLimiter(most int) *startLimiter {
	if most <= 0 {
		most = DefaultMaxStarts()
	}
	return &startLimiter{slots: make(startSlots, most), runners: make(startSlots, max(defaults.RunnerStarts, runtime.GOMAXPROCS(0)))}
}

// acquire waits until another start of a command may begin, or until giveUp is closed. The start calls
// done when it is over.
func (l *startLimiter) acquire(command string, args []string, giveUp <-chan struct{}) (done func()) {
	installed := func() {}
	if display.PackageRunner(command, args) != "" {
		installed = l.runners.take(defaults.RunnerHold, giveUp)
	}
	started := l.slots.take(startHold, giveUp)
	return func() {
		started()
		installed()
	}
}

// take waits for a slot, or until giveUp is closed. The slot is free again after done, or after hold.
func (s startSlots) take(hold time.Duration, giveUp <-chan struct{}) (done func()) {
	select {
	case s <- struct{}{}:
	case <-giveUp:
		return func() {}
	}
	var once sync.Once
	release := func() { once.Do(func() { <-s }) }
	timer := time.AfterFunc(hold, release)
	return func() {
		timer.Stop()
		release()
	}
}

package guard

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// maxAbandoned is how many abandoned requests a RoundTripper may have. Beyond it
	// the RoundTripper gets no request until some of them return.
	maxAbandoned = 256
	// maxCapacityWait bounds how long a request waits for that.
	maxCapacityWait = time.Second
)

// ErrTooManyAbandoned is the error of a request that was not passed to the
// RoundTripper, because the RoundTripper holds too many abandoned ones.
var ErrTooManyAbandoned = fmt.Errorf("the host's RoundTripper holds %d requests whose contexts have ended; it must return when the context of a request ends", maxAbandoned)

// Abandoned counts the requests that RoundTrippers still hold although their
// contexts have ended. It is safe for concurrent use.
type Abandoned struct {
	mu      sync.Mutex
	n       int
	changed chan struct{} // closed when n decreases; nil if no request waits
}

// Count returns the current number.
func (a *Abandoned) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

// add changes the number by n, and wakes the requests that wait if it decreases.
func (a *Abandoned) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n += n
	if n < 0 && a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// awaitCapacity waits until there are fewer than maxAbandoned, at most
// maxCapacityWait. Then it returns ErrTooManyAbandoned.
func (a *Abandoned) awaitCapacity(ctx context.Context) error {
	var late *time.Timer
	for {
		a.mu.Lock()
		if a.n < maxAbandoned {
			a.mu.Unlock()
			return nil
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		if late == nil {
			late = time.NewTimer(maxCapacityWait)
			defer late.Stop()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ErrTooManyAbandoned
		case <-late.C:
			return ErrTooManyAbandoned
		}
	}
}

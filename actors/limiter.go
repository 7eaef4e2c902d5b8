package actors

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
	"github.com/mcpvisor/mcpvisor/transport"
)

// overloadedRetryAfter is the RetryAfter of a call that finds the queue full: when there
// is room is unknown. Without it, a caller that obeys RetryAfter would try in a tight
// loop.
const overloadedRetryAfter = 100 * time.Millisecond

// limiter bounds the calls in flight on one incarnation. Further calls wait in a
// bounded queue, first come, first served; beyond that they fail. While no call waits,
// a call costs two changes of one word and no lock.
type limiter struct {
	maxInFlight, maxQueued int64 // set before use, and never changed

	// counts holds the calls in flight in its low half and the calls that failed with
	// the session in its high half: in one word, so that their sum is always consistent.
	counts  atomic.Int64
	waiting atomic.Int64 // len(queue), for goroutines that do not hold mu

	mu    sync.Mutex
	queue waitqueue.Queue[transport.InFlight] // guarded by mu
}

// oneLostCall is one call in the high half of counts.
const oneLostCall = int64(1) << 32

// tryAcquire admits a call if there is room and no call waits.
func (l *limiter) tryAcquire() bool {
	return l.waiting.Load() == 0 && l.increment()
}

// increment admits a call if there is room. It never exceeds the limit, not even for
// a moment: a call that ends in that moment would find no room for the waiting ones, and
// no other call would admit them.
func (l *limiter) increment() bool {
	for {
		n := l.counts.Load()
		if n&(oneLostCall-1) >= l.maxInFlight {
			return false
		}
		if l.counts.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends a call and admits the next one. lost: the call failed with the session.
func (l *limiter) release(lost bool) {
	if lost {
		l.counts.Add(oneLostCall - 1)
	} else {
		l.counts.Add(-1)
	}
	if l.waiting.Load() > 0 {
		l.admitWaiting()
	}
}

// lostCalls is how many calls failed with the session, or are about to.
func (l *limiter) lostCalls() int {
	n := l.counts.Load()
	return int(n>>32 + n&(oneLostCall-1))
}

// admitWaiting admits calls from the head of the queue while there is room. A call that
// ends makes room before it looks at the queue; a call that queues looks for room after
// that. So one of the two sees the other.
func (l *limiter) admitWaiting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Admit(func(transport.InFlight) bool {
		if !l.increment() {
			return false
		}
		l.waiting.Add(-1)
		return true
	})
}

// waitingCalls returns the calls in the queue, the oldest first.
func (l *limiter) waitingCalls() []transport.InFlight {
	if l.waiting.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(l.queue.All())
}

// acquire waits until the call is admitted. It fails with KindOverloaded if the queue is
// full, KindTimeout after timeout (0: unbounded), KindCanceled with ctx, and
// KindUnavailable if the session dies. Nothing was sent in any of these cases.
func (l *limiter) acquire(ctx context.Context, dead <-chan struct{}, call transport.InFlight, timeout time.Duration) *mcpvisor.Error {
	l.mu.Lock()
	if int64(l.queue.Len()) >= l.maxQueued {
		l.mu.Unlock()
		return &mcpvisor.Error{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: overloadedRetryAfter,
			Hint: "wait for some of them to end, or raise Limits.MaxInFlight or Limits.MaxQueued"}
	}
	waiter := l.queue.Add(call)
	l.waiting.Add(1)
	l.mu.Unlock()
	l.admitWaiting()

	var late <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	e := &mcpvisor.Error{Outcome: mcpvisor.OutcomeNotSent}
	select {
	case <-waiter.Admitted():
		return nil
	case <-ctx.Done():
		e.Kind, e.Cause = mcpvisor.KindCanceled, context.Cause(ctx)
	case <-dead:
		e.Kind, e.RetryAfter = mcpvisor.KindUnavailable, startingRetryAfter
	case <-late:
		e.Kind, e.Hint = mcpvisor.KindTimeout, "it waited behind other calls; raise Limits.MaxInFlight if the server can take more at once"
	}
	l.mu.Lock()
	left := l.queue.Remove(waiter)
	if left {
		l.waiting.Add(-1)
	}
	l.mu.Unlock()
	if !left { // the call was admitted at the same moment
		l.release(false)
	}
	return e
}

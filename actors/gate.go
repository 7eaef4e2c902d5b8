package actors

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// limiter lets a bounded number of calls through to one incarnation. Further ones
// wait in a bounded queue, first come first served; beyond that they are turned
// away. While nobody waits it costs a call two changes of one word.
type limiter struct {
	maxInFlight, maxQueued int64

	// counts holds the calls inside in its low half and those that failed with
	// the session in its high half, in one word so that their sum never tears.
	counts  atomic.Int64
	waiting atomic.Int64 // len(queue), for those who do not hold mu

	mu    sync.Mutex
	queue list.List // of chan struct{}, each closed when its call is let in
}

const oneLostCall = int64(1) << 32

// tryAcquire lets a call in, if there is room and nobody was there before it.
func (g *limiter) tryAcquire() bool {
	return g.waiting.Load() == 0 && g.increment()
}

// increment never counts more inside than may be, not even for a moment in which it
// would have to take itself back: who leaves in that moment would see no room
// for those who wait, and nobody else looks after them.
func (g *limiter) increment() bool {
	for {
		n := g.counts.Load()
		if n&(oneLostCall-1) >= g.maxInFlight {
			return false
		}
		if g.counts.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release makes room for the next. lost: the call failed with the session.
func (g *limiter) release(lost bool) {
	if lost {
		g.counts.Add(oneLostCall - 1)
	} else {
		g.counts.Add(-1)
	}
	if g.waiting.Load() > 0 {
		g.admitWaiting()
	}
}

// lostCalls is how many calls failed, or are about to, with the session.
func (g *limiter) lostCalls() int {
	n := g.counts.Load()
	return int(n>>32 + n&(oneLostCall-1))
}

// admitWaiting lets in those at the head of the queue that there is room for. Whoever
// leaves looks at the queue after making room, and whoever queues looks for room
// after that: one of the two sees the other.
func (g *limiter) admitWaiting() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for first := g.queue.Front(); first != nil && g.increment(); first = g.queue.Front() {
		g.queue.Remove(first)
		g.waiting.Add(-1)
		close(first.Value.(chan struct{}))
	}
}

// acquire waits until the call is let in: KindOverloaded if the queue is full,
// KindTimeout after patience (0: no bound), KindCanceled with ctx, and
// KindUnavailable if the server dies meanwhile. Nothing was sent in any case.
func (g *limiter) acquire(ctx context.Context, dead <-chan struct{}, patience time.Duration) *mcpvisor.Error {
	turn := make(chan struct{})
	g.mu.Lock()
	if int64(g.queue.Len()) >= g.maxQueued {
		g.mu.Unlock()
		return &mcpvisor.Error{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeNotSent,
			Hint: "wait for some of them to end, or raise Limits.InFlight or Limits.Queue"}
	}
	place := g.queue.PushBack(turn)
	g.waiting.Add(1)
	g.mu.Unlock()
	g.admitWaiting()

	var late <-chan time.Time
	if patience > 0 {
		clock := time.NewTimer(patience)
		defer clock.Stop()
		late = clock.C
	}
	e := &mcpvisor.Error{Outcome: mcpvisor.OutcomeNotSent}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		e.Kind, e.Cause = mcpvisor.KindCanceled, context.Cause(ctx)
	case <-dead:
		e.Kind, e.RetryAfter = mcpvisor.KindUnavailable, startingHint
	case <-late:
		e.Kind, e.Hint = mcpvisor.KindTimeout, "it waited behind other calls; raise Limits.InFlight if the server can take more at once"
	}
	g.mu.Lock()
	select {
	case <-turn: // let in at the same moment
		g.mu.Unlock()
		g.release(false)
	default:
		g.queue.Remove(place)
		g.waiting.Add(-1)
		g.mu.Unlock()
	}
	return e
}

package actors

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// gate lets a bounded number of calls through to one incarnation. Further ones
// wait in a bounded queue, first come first served; beyond that they are turned
// away. While nobody waits it costs a call two changes of one word.
type gate struct {
	limit, room int64

	// account holds the calls inside in its low half and those that failed with
	// the session in its high half, in one word so that their sum never tears.
	account atomic.Int64
	waiting atomic.Int64 // len(queue), for those who do not hold mu

	mu    sync.Mutex
	queue list.List // of chan struct{}, each closed when its call is let in
}

const oneLost = int64(1) << 32

// tryEnter lets a call in, if there is room and nobody was there before it.
func (g *gate) tryEnter() bool {
	return g.waiting.Load() == 0 && g.take()
}

// take never counts more inside than may be, not even for a moment in which it
// would have to take itself back: who leaves in that moment would see no room
// for those who wait, and nobody else looks after them.
func (g *gate) take() bool {
	for {
		n := g.account.Load()
		if n&(oneLost-1) >= g.limit {
			return false
		}
		if g.account.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave makes room for the next. lost: the call failed with the session.
func (g *gate) leave(lost bool) {
	if lost {
		g.account.Add(oneLost - 1)
	} else {
		g.account.Add(-1)
	}
	if g.waiting.Load() > 0 {
		g.admit()
	}
}

// casualties is how many calls failed, or are about to, with the session.
func (g *gate) casualties() int {
	n := g.account.Load()
	return int(n>>32 + n&(oneLost-1))
}

// admit lets in those at the head of the queue that there is room for. Whoever
// leaves looks at the queue after making room, and whoever queues looks for room
// after that: one of the two sees the other.
func (g *gate) admit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for first := g.queue.Front(); first != nil && g.take(); first = g.queue.Front() {
		g.queue.Remove(first)
		g.waiting.Add(-1)
		close(first.Value.(chan struct{}))
	}
}

// enter waits until the call is let in: KindOverloaded if the queue is full,
// KindTimeout after patience (0: no bound), KindCanceled with ctx, and
// KindUnavailable if the server dies meanwhile. Nothing was sent in any case.
func (g *gate) enter(ctx context.Context, dead <-chan struct{}, patience time.Duration) *mcpvisor.Error {
	turn := make(chan struct{})
	g.mu.Lock()
	if int64(g.queue.Len()) >= g.room {
		g.mu.Unlock()
		return &mcpvisor.Error{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeNotSent,
			Hint: "wait for some of them to end, or raise Limits.InFlight or Limits.Queue"}
	}
	place := g.queue.PushBack(turn)
	g.waiting.Add(1)
	g.mu.Unlock()
	g.admit()

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
		g.leave(false)
	default:
		g.queue.Remove(place)
		g.waiting.Add(-1)
		g.mu.Unlock()
	}
	return e
}

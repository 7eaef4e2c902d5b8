package actors

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// The limit is not exceeded, not even for a moment: a call that ends in that moment
// would find no room for the waiting ones.
func TestLimiterNeverExceedsItsLimit(t *testing.T) {
	g := &limiter{maxInFlight: 2}
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100_000 {
					if g.tryAcquire() {
						g.release(false)
					}
				}
			})
		}
		wg.Wait()
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			most.Store(max(most.Load(), g.counts.Load()))
		}
	}
	require.LessOrEqual(t, most.Load(), g.maxInFlight)
	require.Zero(t, g.counts.Load())
}

// A waiting call is admitted when there is room, however many calls are rejected
// meanwhile.
func TestLimiterAdmitsEveryWaitingCall(t *testing.T) {
	for range 2000 {
		g := &limiter{maxInFlight: 1, maxQueued: 1}
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			wg.Go(func() {
				<-start
				for range 50 {
					if !g.tryAcquire() && g.acquire(context.Background(), nil, transport.InFlight{}, 0) != nil {
						continue
					}
					runtime.Gosched()
					g.release(false)
				}
			})
		}
		close(start)
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			require.FailNowf(t, "a call waits although there is room", "counts %d, waiting %d", g.counts.Load(), g.waiting.Load())
		}
		require.Zero(t, g.counts.Load())
	}
}

// A call that leaves the queue, or is admitted while it leaves, keeps no place.
func TestLimiterFreesThePlaceOfACanceledCall(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	g := &limiter{maxInFlight: 1, maxQueued: 1}
	require.True(t, g.tryAcquire())
	for range 3 {
		require.Equal(t, mcpvisor.KindCanceled, g.acquire(left, nil, transport.InFlight{}, 0).Kind)
		require.Zero(t, g.queue.Len())
		require.Zero(t, g.waiting.Load())
	}
	g.release(false)
	for range 100 { // there is room, and its context has ended: both at once
		if g.acquire(left, nil, transport.InFlight{}, 0) == nil {
			g.release(false)
		}
		require.Zero(t, g.counts.Load())
	}
}

func TestLimiterBoundsItsQueue(t *testing.T) {
	g := &limiter{maxInFlight: 1, maxQueued: 2}
	require.True(t, g.tryAcquire())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if g.acquire(context.Background(), nil, transport.InFlight{}, 0) == nil {
				g.release(false)
			}
		})
	}
	require.Eventually(t, func() bool { return g.waiting.Load() == 2 }, 20*time.Second, time.Millisecond)
	e := g.acquire(context.Background(), nil, transport.InFlight{}, time.Millisecond)
	require.Equal(t, mcpvisor.KindOverloaded, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	g.release(false)
	wg.Wait()
}

// There may be room for a moment before the first waiting call is admitted. A new call
// must not take it.
func TestLimiterKeepsTheOrderOfTheQueue(t *testing.T) {
	g := &limiter{maxInFlight: 1, maxQueued: 1}
	g.waiting.Add(1)
	require.False(t, g.tryAcquire())
	g.waiting.Add(-1)
	require.True(t, g.tryAcquire())
}

// Every call that failed with the session counts, whether or not it has returned.
func TestLimiterCountsLostCalls(t *testing.T) {
	g := &limiter{maxInFlight: 9}
	for range 3 {
		require.True(t, g.tryAcquire())
	}
	g.release(true)
	g.release(false)
	require.Equal(t, 2, g.lostCalls(), "one call that failed, and one that is about to")
	require.EqualValues(t, 1, g.counts.Load()&(oneLostCall-1), "its place is free")
}

func BenchmarkLimiter(b *testing.B) {
	g := &limiter{maxInFlight: 1024, maxQueued: 1024}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if g.tryAcquire() {
				g.release(false)
			}
		}
	})
}

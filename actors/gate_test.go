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
)

// Nobody is ever inside beyond the limit, not even for a moment: whoever leaves
// would take that moment for a full house, and let nobody in.
func TestGateIsNeverOverfull(t *testing.T) {
	g := &gate{limit: 2}
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100_000 {
					if g.tryEnter() {
						g.leave(false)
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
			most.Store(max(most.Load(), g.account.Load()))
		}
	}
	require.LessOrEqual(t, most.Load(), g.limit)
	require.Zero(t, g.account.Load())
}

// Whoever waits is let in when nobody is inside, however many are turned away
// meanwhile.
func TestGateForgetsNobody(t *testing.T) {
	for range 2000 {
		g := &gate{limit: 1, room: 1}
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			wg.Go(func() {
				<-start
				for range 50 {
					if !g.tryEnter() && g.enter(context.Background(), nil, 0) != nil {
						continue
					}
					runtime.Gosched()
					g.leave(false)
				}
			})
		}
		close(start)
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			require.FailNowf(t, "a call waits, and nobody is inside", "account %d, waiting %d", g.account.Load(), g.waiting.Load())
		}
		require.Zero(t, g.account.Load())
	}
}

// Whoever leaves the queue, or is let in while he leaves, holds no place.
func TestGateKeepsNoPlaceForWhoHasLeft(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	g := &gate{limit: 1, room: 1}
	require.True(t, g.tryEnter())
	for range 3 {
		require.Equal(t, mcpvisor.KindCanceled, g.enter(left, nil, 0).Kind)
		require.Zero(t, g.queue.Len())
		require.Zero(t, g.waiting.Load())
	}
	g.leave(false)
	for range 100 { // there is room, and he is leaving: both at once
		if g.enter(left, nil, 0) == nil {
			g.leave(false)
		}
		require.Zero(t, g.account.Load())
	}
}

func TestGateBoundsItsQueue(t *testing.T) {
	g := &gate{limit: 1, room: 2}
	require.True(t, g.tryEnter())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if g.enter(context.Background(), nil, 0) == nil {
				g.leave(false)
			}
		})
	}
	require.Eventually(t, func() bool { return g.waiting.Load() == 2 }, 20*time.Second, time.Millisecond)
	e := g.enter(context.Background(), nil, time.Millisecond)
	require.Equal(t, mcpvisor.KindOverloaded, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	g.leave(false)
	wg.Wait()
}

// There may be room for a moment before the first in the queue is let in; it is
// not for somebody who comes just then.
func TestGateLetsNobodyPassTheQueue(t *testing.T) {
	g := &gate{limit: 1, room: 1}
	g.waiting.Add(1)
	require.False(t, g.tryEnter())
	g.waiting.Add(-1)
	require.True(t, g.tryEnter())
}

// Whoever failed with the session is counted, whether or not he has left.
func TestGateCountsCasualties(t *testing.T) {
	g := &gate{limit: 9}
	for range 3 {
		require.True(t, g.tryEnter())
	}
	g.leave(true)
	g.leave(false)
	require.Equal(t, 2, g.casualties(), "one that has failed, and one that is about to")
	require.EqualValues(t, 1, g.account.Load()&(oneLost-1), "its place is free")
}

func BenchmarkGate(b *testing.B) {
	g := &gate{limit: 1024, room: 1024}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if g.tryEnter() {
				g.leave(false)
			}
		}
	})
}

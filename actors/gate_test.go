package actors

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

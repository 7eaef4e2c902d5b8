package actors

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
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
		require.Equal(t, mcpvisor.ErrCanceled, g.acquire(left, nil, transport.InFlight{}, 0).Kind)
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

// A call that is refused while its context ends frees no place: it had none.
func TestLimiterRefusesACanceledCall(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	g := &limiter{maxInFlight: 1}
	require.True(t, g.tryAcquire())
	for range 100 { // the queue has no room, and its context has ended: both at once
		require.NotNil(t, g.acquire(left, nil, transport.InFlight{}, 0))
		require.EqualValues(t, 1, g.counts.Load())
		require.Zero(t, g.waiting.Load())
	}
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

// opening counts the sessions of all servers that are opened and not open yet.
func (h *harness) opening(names []string) (n int) {
	for _, name := range names {
		for _, s := range h.sessions(name) {
			s.mu.Lock()
			if s.opening {
				n++
			}
			s.mu.Unlock()
		}
	}
	return n
}

// startAll registers n subprocesses that are supervised from the start.
func (h *harness) startAll(n int, s script) (names []string) { return h.startCommand("scripted", n, s) }

func (h *harness) startCommand(command string, n int, s script) (names []string) {
	for i := range n {
		name := fmt.Sprintf("%c%03d", command[0], i)
		names = append(names, name)
		h.script(name, s)
		spec := mcpvisor.ServerSpec{Name: name, Stdio: &mcpvisor.Stdio{Command: command}, StartSupervised: true}
		require.NoError(h.t, h.rt.Register(context.Background(), spec.WithDefaults()))
	}
	synctest.Wait()
	return names
}

func (h *harness) countReady(names []string) (n int) {
	for _, name := range names {
		if h.rt.Snapshot().Server(name).State == supervisor.StateReady {
			n++
		}
	}
	return n
}

func TestStartLimiter(t *testing.T) {
	runWithHarness(t, "bounds the starts of many servers", func(t *testing.T, h *harness) {
		h.rt.starts = newStartLimiter(4)
		names := h.startAll(20, script{openAfter: time.Second})
		for done := 0; done < 20; done += 4 {
			require.Equal(t, done, h.countReady(names))
			require.Equal(t, 4, h.opening(names))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		require.Equal(t, 20, h.countReady(names))
	})
	runWithHarness(t, "starts few package runners at a time", func(t *testing.T, h *harness) {
		h.rt.starts.runners = make(startSlots, 3)
		names := h.startCommand("npx", 12, script{openAfter: 25 * time.Second}) // Timeouts.Start is a minute
		others := h.startAll(2, script{openAfter: time.Second})
		for done := 0; done < 12; done += 3 {
			require.Equal(t, done, h.countReady(names))
			require.Equal(t, 3, h.opening(names))
			time.Sleep(25 * time.Second)
			synctest.Wait()
			require.Equal(t, 2, h.countReady(others), "others do not wait for them")
		}
		require.Equal(t, 12, h.countReady(names))
	})
	runWithHarness(t, "does not let servers that hang keep others from starting", func(t *testing.T, h *harness) {
		h.rt.starts = newStartLimiter(2)
		hung := h.startAll(2, script{openHangs: true})
		h.script("healthy", script{})
		healthy := mcpvisor.ServerSpec{Name: "healthy", Stdio: &mcpvisor.Stdio{Command: "scripted"}}
		registered := time.Now()
		require.NoError(t, h.rt.Register(context.Background(), healthy.WithDefaults()))
		require.Equal(t, startHold, time.Since(registered))
		require.Equal(t, 2, h.opening(hung))
	})
	runWithHarness(t, "counts no time of the wait as time of the start", func(t *testing.T, h *harness) {
		h.rt.starts = newStartLimiter(1)
		names := h.startAll(30, script{openAfter: 9 * time.Second}) // Timeouts.Start is a minute
		time.Sleep(30 * 9 * time.Second)
		synctest.Wait()
		require.Equal(t, 30, h.countReady(names))
	})
	runWithHarness(t, "lets a server that waits be removed", func(t *testing.T, h *harness) {
		h.rt.starts = newStartLimiter(1)
		h.startAll(3, script{openHangs: true})
		began := time.Now()
		require.NoError(t, h.rt.Unregister(context.Background(), "s002"))
		require.Less(t, time.Since(began), startHold)
	})
	testutil.RunInBubble(t, "frees each place once", func(t *testing.T) {
		l := newStartLimiter(2)
		slow, other := l.acquire("scripted", nil, nil), l.acquire("scripted", nil, nil)
		time.Sleep(startHold)
		synctest.Wait()
		third := l.acquire("scripted", nil, nil)
		var all sync.WaitGroup
		for _, done := range []func(){slow, slow, other, third, third} {
			all.Go(done)
		}
		all.Wait()
		require.Empty(t, l.slots)
	})
}

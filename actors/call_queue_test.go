package actors

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// narrow registers a server that takes 10 s for each call. One call is in flight at a
// time, and three may wait.
func narrow(h *harness) {
	h.script("fs", script{tools: []string{"ls"}, callAfter: 10 * time.Second})
	h.register(mcpvisor.ServerSpec{Name: "fs", Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: 3}, Probe: mcpvisor.Probe{Interval: -1},
		Policy: supervisor.Retry(3, time.Second)})
}

func counts(h *harness) mcpvisor.CallCounts { return h.rt.Snapshot().Server("fs").Status().Calls }

func TestQueuedCallsRunInOrder(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		narrow(h)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				_, err := h.call(context.Background(), "fs", 0)
				mu.Lock()
				defer mu.Unlock()
				if order = append(order, i); err != nil {
					order = append(order, -1)
				}
			})
			synctest.Wait()
		}
		require.Equal(t, mcpvisor.CallCounts{InFlight: 1, Queued: 3, Total: 1}, counts(h))
		require.Zero(t, spends(func() {
			_, err := h.call(context.Background(), "fs", 0)
			e := asError(t, err)
			require.Equal(t, mcpvisor.KindOverloaded, e.Kind)
			require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
			require.NotZero(t, e.Epoch)
		}))
		require.Equal(t, 40*time.Second, spends(wg.Wait), "one after the other")
		require.Equal(t, []int{0, 1, 2, 3}, order, "first come, first served")
		require.Equal(t, mcpvisor.CallCounts{Total: 4}, counts(h))
	})
}

func TestQueuedCallEnds(t *testing.T) {
	for name, c := range map[string]struct {
		kind  mcpvisor.ErrorKind
		after time.Duration
		wait  func(h *harness) error
	}{
		"when its own time is up": {mcpvisor.KindTimeout, 3 * time.Second, func(h *harness) error {
			_, err := h.call(context.Background(), "fs", 3*time.Second)
			return err
		}},
		"when its context ends": {mcpvisor.KindCanceled, 2 * time.Second, func(h *harness) error {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := h.call(ctx, "fs", 0)
			return err
		}},
		"when the server dies": {mcpvisor.KindUnavailable, time.Second, func(h *harness) error {
			s := h.session("fs")
			time.AfterFunc(time.Second, func() { s.Abort(&supervisor.Cause{Kind: supervisor.CauseExit, Message: "scripted"}) })
			_, err := h.call(context.Background(), "fs", 0)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				narrow(h)
				var first sync.WaitGroup
				first.Go(func() { _, _ = h.call(context.Background(), "fs", 0) })
				synctest.Wait()
				var err error
				require.Equal(t, c.after, spends(func() { err = c.wait(h) }))
				e := asError(t, err)
				require.Equal(t, c.kind, e.Kind)
				require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
				require.Equal(t, e.Kind != mcpvisor.KindCanceled, e.Retryable())
				require.Equal(t, e.Kind == mcpvisor.KindUnavailable, e.RetryAfter > 0, "when to come back, if that is known")
				require.Equal(t, "fs", e.Server)
				require.Zero(t, counts(h).Queued)
				first.Wait()
				require.NoError(t, func() error {
					_, waited := h.rt.AwaitReady(context.Background(), "fs")
					return waited
				}())
				_, err = h.call(context.Background(), "fs", 0)
				require.NoError(t, err, "it has left its place")
			})
		})
	}
}

// The time in the queue counts towards Timeouts.CallTotal.
func TestQueueTimeCountsTowardsCallTotal(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, callAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs", Limits: mcpvisor.Limits{MaxInFlight: 1}, Timeouts: mcpvisor.Timeouts{CallTotal: 15 * time.Second}})
		go func() { _, _ = h.call(context.Background(), "fs", 0) }()
		synctest.Wait()
		var err error
		require.Equal(t, 15*time.Second, spends(func() { _, err = h.call(context.Background(), "fs", 0) }))
		require.Equal(t, mcpvisor.KindTimeout, asError(t, err).Kind)
	})
}

// What a call has spent in the queue is known apart: its timeout begins after that.
func TestQueueTimeIsReported(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, callAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs", Limits: mcpvisor.Limits{MaxInFlight: 1}})
		go func() { _, _ = h.call(context.Background(), "fs", 0) }()
		synctest.Wait()
		_, spent, err := h.rt.Request(context.Background(), h.rt.Snapshot().Server("fs"), callRequest, 0)
		require.NoError(t, err)
		require.Equal(t, Spent{Took: 20 * time.Second, Queued: 10 * time.Second}, spent)
	})
}

// A call that is still in the queue when Timeouts.CallTotal is over was not sent.
func TestCallTotalEndsInTheQueue(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Limits: mcpvisor.Limits{MaxInFlight: 1}, Timeouts: mcpvisor.Timeouts{CallTotal: 5 * time.Second}})
		inc := h.rt.Snapshot().Server("fs").current
		require.True(t, inc.limiter.tryAcquire(), "the only place is taken")
		var err error
		require.Equal(t, 5*time.Second, spends(func() { _, err = h.call(context.Background(), "fs", time.Minute) }))
		e := asError(t, err)
		require.Equal(t, mcpvisor.KindTimeout, e.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		inc.limiter.release(false)
	})
}

// The limit is never exceeded, and every waiting call is admitted.
func TestLimiterUnderLoad(t *testing.T) {
	g := &limiter{maxInFlight: 3, maxQueued: 1000}
	var inside, most int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 200 {
				if !g.tryAcquire() {
					if g.acquire(context.Background(), nil, transport.InFlight{}, 0) != nil {
						panic("turned away")
					}
				}
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				g.release(false)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most, 3)
	require.Zero(t, g.counts.Load())
	require.Zero(t, g.waiting.Load())
}

// The hint of a timeout does not mistake the wait in the queue for time of the call.
func TestTimeoutHint(t *testing.T) {
	const idle, total = 60 * time.Second, 100 * time.Second
	for name, row := range map[string]struct {
		queued, took time.Duration
		want         string
	}{
		"no progress":               {0, idle, "no result or progress for 1m0s"},
		"no progress after a queue": {30 * time.Second, 30*time.Second + idle, "no result or progress for 1m0s"},
		"as a whole":                {0, total, "exceeded Timeouts.CallTotal (1m40s)"},
		"as a whole after a queue":  {30 * time.Second, total, "exceeded Timeouts.CallTotal (1m40s)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := transport.Request{Timeout: idle, TotalTimeout: total - row.queued}
			require.Contains(t, timeoutHint(r, Spent{Took: row.took, Queued: row.queued}), row.want)
		})
	}
}

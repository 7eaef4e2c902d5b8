package actors

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

var callRequest = transport.Request{Method: "tools/call", Target: "ls"}

// The release of the dead session takes 10 s. The calls on it do not wait for that, and
// another server is not affected.
func TestCallInFlightFailsWhenServerDies(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}, callHangs: true, releaseAfter: 10 * time.Second}, script{tools: []string{"ls"}})
		h.script("next", script{tools: []string{"ls"}, callAfter: time.Minute})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(1, time.Second)})
		h.register(mcpvisor.ServerSpec{Name: "next", Timeouts: mcpvisor.Timeouts{Call: time.Hour}})
		events := h.events()
		var calls, other sync.WaitGroup
		errs := make([]error, 100)
		for i := range errs {
			calls.Go(func() { _, errs[i] = h.call(context.Background(), "fs", 0) })
		}
		var neighbour error
		other.Go(func() { _, neighbour = h.call(context.Background(), "next", 0) })
		synctest.Wait()
		require.Equal(t, int64(100), h.rt.Snapshot().Server("fs").Status().Calls.InFlight)
		require.Zero(t, spends(func() {
			h.session("fs").Abort(errScripted)
			calls.Wait()
		}))
		for _, err := range errs {
			e := requireError(t, err, mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown)
			require.Equal(t, "fs", e.Server)
			require.Equal(t, uint64(1), e.Epoch)
			require.ErrorIs(t, err, errScripted)
		}
		require.Equal(t, mcpvisor.EventDown, events()[0].Kind)
		require.Equal(t, 100, events()[0].FailedCalls)
		counts := h.rt.Snapshot().Server("fs").Status().Calls
		require.Equal(t, mcpvisor.CallCounts{Total: 100, Failed: 100}, counts)
		other.Wait()
		require.NoError(t, neighbour)
		epoch, err := h.call(context.Background(), "fs", 0)
		require.NoError(t, err)
		require.Equal(t, 2, epoch)
	})
}

func TestCallTimeouts(t *testing.T) {
	cases := map[string]struct {
		timeouts mcpvisor.Timeouts
		asked    time.Duration
		takes    time.Duration
	}{
		"the default":                   {mcpvisor.Timeouts{}, 0, defaults.CallTimeout},
		"the server's":                  {mcpvisor.Timeouts{Call: 5 * time.Second}, 0, 5 * time.Second},
		"the call's own":                {mcpvisor.Timeouts{Call: 5 * time.Second}, 7 * time.Second, 7 * time.Second},
		"no more than the hard maximum": {mcpvisor.Timeouts{CallTotal: 6 * time.Second}, time.Hour, 6 * time.Second},
		"the hard maximum alone":        {mcpvisor.Timeouts{Call: -1, CallTotal: 8 * time.Second}, 0, 8 * time.Second},
		"without a hard maximum":        {mcpvisor.Timeouts{CallTotal: -1}, 9 * time.Hour, 9 * time.Hour},
	}
	for name, c := range cases {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			h.script("fs", script{tools: []string{"ls"}, callHangs: true})
			h.register(mcpvisor.ServerSpec{Name: "fs", Timeouts: c.timeouts, Probe: mcpvisor.Probe{Interval: -1}})
			var err error
			require.Equal(t, c.takes, spends(func() { _, err = h.call(context.Background(), "fs", c.asked) }))
			requireError(t, err, mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown)
			require.Equal(t, supervisor.StateReady, h.state("fs"), "a slow call is no reason to end a server")
		})
	}
	idle, hardMax := CallTimeouts(mcpvisor.Timeouts{Call: -1, CallTotal: -1}, 0)
	require.Zero(t, idle)
	require.Zero(t, hardMax)
}

func TestCallBeyondLimitsIsRejected(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, callAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs", Limits: mcpvisor.Limits{MaxInFlight: 2, MaxQueued: -1}})
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			wg.Go(func() { _, errs[i] = h.call(context.Background(), "fs", 0) })
		}
		synctest.Wait()
		require.Zero(t, spends(func() {
			for range 100 {
				_, err := h.call(context.Background(), "fs", 0)
				e := requireError(t, err, mcpvisor.ErrOverloaded, mcpvisor.OutcomeNotSent)
				require.True(t, e.Retryable())
				require.Equal(t, 100*time.Millisecond, e.RetryAfter, "a caller that obeys it does not spin")
			}
		}))
		wg.Wait()
		require.Equal(t, []error{nil, nil}, errs)
		_, err := h.call(context.Background(), "fs", 0)
		require.NoError(t, err, "a rejected call holds no place")
		require.Equal(t, mcpvisor.CallCounts{Total: 3}, h.rt.Snapshot().Server("fs").Status().Calls)
	})
}

func TestCallWhileServerIsDown(t *testing.T) {
	kinds := map[supervisor.State]mcpvisor.ErrorKind{supervisor.StateEvicted: mcpvisor.ErrEvicted, supervisor.StateUnauthorized: mcpvisor.ErrAuthRequired}
	for _, c := range states() {
		if c.state == supervisor.StateReady {
			continue
		}
		runWithHarness(t, string(c.state), func(t *testing.T, h *harness) {
			c.reach(h)
			_, err := h.call(context.Background(), "fs", 0)
			e := asError(t, err)
			require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
			if kind, ok := kinds[c.state]; ok {
				require.Equal(t, kind, e.Kind)
				return
			}
			require.Equal(t, mcpvisor.ErrUnavailable, e.Kind)
			require.Positive(t, e.RetryAfter)
		})
	}
}

// A view may be older than the death of its session. A call with it was not sent.
func TestCallOnOutdatedViewIsNotSent(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(1, time.Second)})
		v := h.rt.Snapshot().Server("fs")
		h.session("fs").Abort(errScripted)
		_, _, err := h.rt.Request(context.Background(), v, callRequest, 0)
		e := requireError(t, err, mcpvisor.ErrUnavailable, mcpvisor.OutcomeNotSent)
		require.Positive(t, e.RetryAfter)
		require.True(t, e.Retryable())
		got, err := h.rt.AwaitReady(context.Background(), "fs")
		require.NoError(t, err)
		require.Equal(t, uint64(2), got.Epoch, "the dead session is not handed out")
	})
}

func TestAwaitReadyEnds(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{openHangs: true})
		require.NoError(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", StartSupervised: true}))
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(5*time.Second, func() { cancel(why) })
		var err error
		require.Equal(t, 5*time.Second, spends(func() { _, err = h.rt.AwaitReady(ctx, "fs") }))
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.ErrorIs(t, err, why)
		time.AfterFunc(5*time.Second, func() { _ = h.rt.Unregister(context.Background(), "fs") })
		require.Equal(t, 5*time.Second, spends(func() { _, err = h.rt.AwaitReady(context.Background(), "fs") }))
		require.Contains(t, []mcpvisor.ErrorKind{mcpvisor.ErrClosed, mcpvisor.ErrUnknownServer}, asError(t, err).Kind)
	})
}

// A failure that does not say what became of the request may have had an effect: the
// call must not be repeated.
func TestCallUntypedErrorHasUnknownOutcome(t *testing.T) {
	a := &notifyingServer{handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "tools/call" {
			return "", errors.New("no typed error")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		_, _, err := rt.Request(context.Background(), view(rt), callRequest, 0)
		e := asError(t, err)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		require.False(t, e.Retryable())
		require.EqualValues(t, 1, view(rt).Status().Calls.Failed)
	})
}

// Only a call that failed with the session counts as lost.
func TestLostCallsCountsOnlySessionFailures(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, callHangs: true})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		for range 3 {
			_, err := h.call(context.Background(), "fs", time.Second)
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		}
		events := h.events()
		h.session("fs").Abort(errScripted)
		list := events()
		require.Equal(t, mcpvisor.EventDown, list[0].Kind)
		require.Zero(t, list[0].FailedCalls)
	})
}

// failingSession returns the same error value from every call.
type failingSession struct {
	bareSession
	err error
}

func (s *failingSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if r.Method == "tools/call" {
		return nil, s.err
	}
	return s.bareSession.Request(ctx, r)
}

type dialerOf struct{ make func() transport.Session }

func (d dialerOf) NewSession() transport.Session { return d.make() }

func TestRequestDoesNotMutateASharedError(t *testing.T) {
	shared := &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: mcpvisor.OutcomeUnknown}
	rt := New(Options{NewDialer: func(mcpvisor.ServerSpec) (transport.Dialer, error) {
		return dialerOf{func() transport.Session {
			return &failingSession{bareSession: bareSession{dead: make(chan struct{})}, err: shared}
		}}, nil
	}})
	defer func() { require.NoError(t, rt.Close(t.Context())) }()
	require.NoError(t, rt.Register(t.Context(), mcpvisor.ServerSpec{Name: "fs"}))
	v := rt.Snapshot().Server("fs")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			_, _, err := rt.Request(t.Context(), v, transport.Request{Method: "tools/call"}, 0)
			e := asError(t, err)
			require.Equal(t, "fs", e.Server)
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		})
	}
	wg.Wait()
	require.Equal(t, &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: mcpvisor.OutcomeUnknown}, shared)
}

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
			e := requireError(t, err, mcpvisor.ErrOverloaded, mcpvisor.OutcomeNotSent)
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
		"when its own time is up": {mcpvisor.ErrTimeout, 3 * time.Second, func(h *harness) error {
			_, err := h.call(context.Background(), "fs", 3*time.Second)
			return err
		}},
		"when its context ends": {mcpvisor.ErrCanceled, 2 * time.Second, func(h *harness) error {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := h.call(ctx, "fs", 0)
			return err
		}},
		"when the server dies": {mcpvisor.ErrUnavailable, time.Second, func(h *harness) error {
			s := h.session("fs")
			time.AfterFunc(time.Second, func() { s.Abort(&supervisor.Cause{Kind: supervisor.CauseExit, Message: "scripted"}) })
			_, err := h.call(context.Background(), "fs", 0)
			return err
		}},
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			narrow(h)
			var first sync.WaitGroup
			first.Go(func() { _, _ = h.call(context.Background(), "fs", 0) })
			synctest.Wait()
			var err error
			require.Equal(t, c.after, spends(func() { err = c.wait(h) }))
			e := requireError(t, err, c.kind, mcpvisor.OutcomeNotSent)
			require.Equal(t, e.Kind != mcpvisor.ErrCanceled, e.Retryable())
			require.Equal(t, e.Kind == mcpvisor.ErrUnavailable, e.RetryAfter > 0, "when to come back, if that is known")
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
		require.Equal(t, mcpvisor.ErrTimeout, asError(t, err).Kind)
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
		requireError(t, err, mcpvisor.ErrTimeout, mcpvisor.OutcomeNotSent)
		inc.limiter.release(false)
	})
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

// TestCallStats_fit_each_other: every call that a status counts in Total is also in
// flight or has ended. The reader reads until it has seen many calls, because it may
// start before the callers do.
func TestCallStats_fit_each_other(t *testing.T) {
	const (
		minReads = 200_000
		minCalls = 2_000_000 // enough to see each wrong order of the counters
	)
	var s callStats
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.begin()
					s.end(true)
				}
			}
		})
	}
	for reads, total := 0, int64(0); reads < minReads || total < minCalls; reads++ {
		c := s.counts()
		if c.InFlight+c.Failed < c.Total {
			close(stop)
			callers.Wait()
			require.FailNow(t, "a call is missing", "%+v", c)
		}
		total = c.Total
	}
	close(stop)
	callers.Wait()
	c := s.counts()
	require.Zero(t, c.InFlight)
	require.Equal(t, c.Total, c.Failed)
}

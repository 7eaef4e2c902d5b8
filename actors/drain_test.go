package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
)

// begin makes a call at the server as it is now, and returns its end.
func (h *harness) begin(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := h.call(ctx, "fs", 0)
		ended <- err
	}()
	h.settle()
	return ended
}

// replace begins to replace the server, and returns the end of that.
func (h *harness) replace(spec mcpvisor.ServerSpec) <-chan error {
	done := make(chan error, 1)
	go func() { done <- replace(h.rt, context.Background(), spec) }()
	h.settle()
	return done
}

// registerBusy registers fs with sessions whose calls take that long, and begins one.
func registerBusy(h *harness, spec mcpvisor.ServerSpec, callAfter time.Duration) <-chan error {
	h.scripts.Store("fs", func(registration, _ int) script {
		if registration == 1 {
			return script{tools: []string{"ls"}, callAfter: callAfter, callHangs: callAfter == 0}
		}
		return script{tools: []string{"ls", "new"}}
	})
	h.register(spec)
	return h.begin(context.Background())
}

var fsSpec = mcpvisor.ServerSpec{Name: "fs", Timeouts: mcpvisor.Timeouts{Call: -1}}

// A server that is replaced ends when its calls in flight have ended, and the next one starts then.
// A call that comes meanwhile is not sent to the old server.
func TestReplace_lets_calls_in_flight_end(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		call := registerBusy(h, fsSpec, 10*time.Second)
		old := h.rt.Snapshot().Server("fs")
		began := time.Now()
		replaced := h.replace(fsSpec)

		for _, v := range []*View{old, h.rt.Snapshot().Server("fs")} { // of a caller that has looked before, and after
			_, _, err := h.rt.Request(t.Context(), v, &transport.Request{Method: "tools/call", Target: "late"}, 0)
			e := requireError(t, err, mcpvisor.ErrUnavailable, mcpvisor.OutcomeNotSent)
			require.ErrorContains(t, e, "being replaced")
		}
		v, err := h.rt.AwaitReady(t.Context(), "fs")
		require.NoError(t, err)
		require.EqualValues(t, 2, v.Gen)
		require.Equal(t, 10*time.Second, time.Since(began))
		require.NoError(t, <-call)
		require.NoError(t, <-replaced)
		require.Empty(t, h.sessions("fs")[0].ran)
	})
}

// After Timeouts.Drain the calls end, with a cause that says why and is no crash.
func TestReplace_drains_for_a_bounded_time(t *testing.T) {
	for _, bound := range []time.Duration{0, 3 * time.Second} {
		withHarness(t, func(t *testing.T, h *harness) {
			spec := fsSpec
			spec.Timeouts.Drain = bound
			call := registerBusy(h, spec, 0)
			events := h.events()
			began := time.Now()
			require.NoError(t, replace(h.rt, context.Background(), fsSpec))
			if bound == 0 {
				bound = 30 * time.Second
			}
			require.Equal(t, bound, time.Since(began))
			e := requireError(t, <-call, mcpvisor.ErrClosed, mcpvisor.OutcomeUnknown)
			require.ErrorContains(t, e, "the server was replaced, and its calls in flight did not end within Timeouts.Drain ("+bound.String()+")")
			for _, ev := range events() {
				require.True(t, ev.Cause == nil || ev.Cause.Asked(), "%v", ev.Cause)
			}
		})
	}
}

func TestUnregister_drains_if_asked_to(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		call := registerBusy(h, fsSpec, 10*time.Second)
		began, done := time.Now(), make(chan error, 1)
		go func() { done <- h.rt.UnregisterDrained(context.Background(), "fs", true) }()
		h.settle()
		_, err := h.call(t.Context(), "fs", 0)
		require.ErrorIs(t, err, mcpvisor.ErrClosed)
		_, err = h.rt.AwaitReady(t.Context(), "fs")
		require.ErrorIs(t, err, mcpvisor.ErrClosed)
		known, _ := h.rt.Snapshot().Server("fs").Known()
		require.Nil(t, known, "what is removed is not listed while it drains")
		require.NoError(t, <-call)
		require.NoError(t, <-done)
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}

func TestRestart_drains_if_asked_to(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}, callAfter: 10 * time.Second}, script{tools: []string{"ls"}})
		h.register(fsSpec)
		call := h.begin(context.Background())
		began, done := time.Now(), make(chan error, 2)
		for range cap(done) {
			go func() { done <- h.rt.RestartFor(context.Background(), "fs", nil, true) }()
		}
		h.settle()
		_, err := h.call(t.Context(), "fs", 0)
		require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
		v, err := h.rt.AwaitReady(t.Context(), "fs")
		require.NoError(t, err)
		require.EqualValues(t, 2, v.Epoch)
		require.Equal(t, 10*time.Second, time.Since(began))
		require.NoError(t, <-call)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Equal(t, supervisor.CauseRestart, v.Cause.Kind)
		require.Len(t, h.sessions("fs"), 2)
	})
}

// What ends the drain before its bound: nothing waits for the rest of it.
func TestDrain_ends_early(t *testing.T) {
	for name, row := range map[string]struct {
		cut  func(h *harness)
		kind mcpvisor.ErrorKind
		next bool // the replacement starts
	}{
		"crash":      {func(h *harness) { h.session("fs").Abort(errScripted) }, mcpvisor.ErrCrashed, true},
		"close":      {func(h *harness) { _ = h.rt.Close(context.Background()) }, mcpvisor.ErrClosed, false},
		"unregister": {func(h *harness) { _ = h.rt.Unregister(context.Background(), "fs") }, mcpvisor.ErrClosed, false},
		"fence":      {func(h *harness) { _ = h.rt.Fence(context.Background(), "fs", "") }, mcpvisor.ErrEnded, true},
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			spec := fsSpec
			spec.Policy = mcpvisor.Retry(5, time.Second)
			call := registerBusy(h, spec, 0)
			began := time.Now()
			replaced := h.replace(fsSpec)
			row.cut(h)
			requireError(t, <-call, row.kind, mcpvisor.OutcomeUnknown)
			if err := <-replaced; row.next {
				require.NoError(t, err)
				require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Gen)
			} else {
				require.ErrorIs(t, err, mcpvisor.ErrClosed)
			}
			require.Zero(t, time.Since(began))
			require.LessOrEqual(t, len(h.sessions("fs")), 2, "the old server is not started again")
		})
	}
}

// A call in the queue was not sent: it fails at once, so that it can wait for the next server.
func TestDrain_refuses_queued_calls(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		spec := fsSpec
		spec.Limits.MaxInFlight = 1
		call := registerBusy(h, spec, 10*time.Second)
		queued := h.begin(context.Background())
		replaced := h.replace(fsSpec)
		requireError(t, <-queued, mcpvisor.ErrUnavailable, mcpvisor.OutcomeNotSent)
		require.NoError(t, <-call)
		require.NoError(t, <-replaced)
	})
}

// A second specification that comes during the drain is the one that starts.
func TestReplace_twice_during_the_drain(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		call := registerBusy(h, fsSpec, 10*time.Second)
		second, third := fsSpec, fsSpec
		second.Origin, third.Origin = "second", "third"
		first := h.replace(second)
		began := time.Now()
		require.NoError(t, <-h.replace(third))
		require.ErrorIs(t, <-first, mcpvisor.ErrExists)
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Equal(t, "third", h.rt.Snapshot().Server("fs").Spec.Origin)
		require.NoError(t, <-call)
		require.Len(t, h.sessions("fs"), 2)
	})
}

// A task that a call follows counts as a call in flight, and may be asked for.
func TestDrain_waits_for_tasks_that_are_followed(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(fsSpec)
		v := h.rt.Snapshot().Server("fs")
		watch := h.rt.WatchTask(v, "t")
		began := time.Now()
		replaced := h.replace(fsSpec)
		for range 3 {
			time.Sleep(time.Second)
			_, _, err := h.rt.Request(t.Context(), v, &transport.Request{Method: "tasks/get"}, 0)
			require.NoError(t, err)
			_, _, err = h.rt.Request(t.Context(), h.rt.Snapshot().Server("fs"), &transport.Request{Method: "tasks/get"}, 0)
			require.NoError(t, err, "of a client that asks for a task itself")
			_, _, err = h.rt.Request(t.Context(), v, &transport.Request{Method: "tools/call"}, 0)
			require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
		}
		watch.Stop()
		require.NoError(t, <-replaced)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

// A call whose server has answered with a task counts as one in flight until its caller has taken the task.
func TestDrain_waits_for_a_task_that_is_not_followed_yet(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, callIsTask: true})
		h.register(fsSpec)
		v := h.rt.Snapshot().Server("fs")
		_, _, err := h.rt.Request(t.Context(), v, &transport.Request{Method: "tools/call"}, 0)
		require.Equal(t, transport.ErrTask, err)
		began := time.Now()
		replaced := h.replace(fsSpec) // crosses the answer
		require.Empty(t, replaced)
		h.rt.WatchTask(v, "t").Stop()
		h.settle()
		require.Empty(t, replaced)
		v.TaskTaken()
		require.NoError(t, <-replaced)
		require.Zero(t, time.Since(began))
	})
}

// A session dies during a drain, and what waits for the drain hears of it late. Nothing is dialed again meanwhile,
// and the end that was asked for takes place.
func TestDrain_crossed_by_the_death_of_the_session(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, h *harness) error{
		"replace":    func(ctx context.Context, h *harness) error { return replace(h.rt, ctx, fsSpec) },
		"unregister": func(ctx context.Context, h *harness) error { return h.rt.UnregisterDrained(ctx, "fs", true) },
		"restart":    func(ctx context.Context, h *harness) error { return h.rt.RestartFor(ctx, "fs", nil, true) },
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			spec := fsSpec
			spec.Policy = mcpvisor.Retry(5, time.Second)
			call, late, dead := registerBusy(h, spec, 0), make(chan struct{}), h.session("fs")
			defer h.rt.WatchTask(h.rt.Snapshot().Server("fs"), "t").Stop() // its follower looks later, too
			dead.mu.Lock()
			dead.heardDead = late
			dead.mu.Unlock()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- end(ctx, h) }()
			h.settle()
			dead.Abort(errScripted)
			require.Error(t, <-call)
			time.Sleep(2 * time.Second)
			close(late)
			require.NoError(t, <-done)
			h.settle()
			require.Len(t, h.sessions("fs"), map[bool]int{true: 1, false: 2}[name == "unregister"])
			require.False(t, name != "unregister" && h.state("fs") != supervisor.StateReady)
		})
	}
}

// overlapping are specifications that are replaced beside the old server.
var overlapping = mcpvisor.ServerSpec{Name: "fs", Overlap: true, Timeouts: mcpvisor.Timeouts{Call: -1}}

// With overlap the new server starts beside the old one. The old one gets calls until the new one is
// ready, and then ends when its calls in flight have ended.
func TestReplace_with_overlap(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scripts.Store("fs", func(registration, _ int) script {
			if registration == 1 {
				return script{tools: []string{"ls"}, callAfter: 10 * time.Second}
			}
			return script{tools: []string{"ls", "new"}, openAfter: 4 * time.Second}
		})
		h.register(fsSpec)
		h.rt.desiredOf(1).SetResource("x:a", true)
		call := h.begin(context.Background())
		events := h.events()
		began := time.Now()
		replaced := h.replace(overlapping)

		time.Sleep(3 * time.Second)
		require.Len(t, h.rt.Snapshot().Tools(), 1)
		require.EqualValues(t, 1, h.rt.Snapshot().Server("fs").Gen)
		meanwhile := h.begin(context.Background())
		h.rt.desiredOf(1).SetResource("x:b", true)
		require.Empty(t, events())

		require.NoError(t, <-replaced)
		require.Equal(t, 4*time.Second, time.Since(began))
		require.Len(t, h.rt.Snapshot().Tools(), 2)
		require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventUnregistered, mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady}, kinds(events()))
		_, uris, _ := h.rt.desiredOf(2).Snapshot()
		require.ElementsMatch(t, []string{"x:a", "x:b"}, uris)
		epoch, err := h.call(t.Context(), "fs", 0)
		require.NoError(t, err)
		require.Equal(t, 1, epoch)
		require.Equal(t, 4*time.Second, time.Since(began), "the new server has answered")
		require.NotNil(t, h.rt.Snapshot().Server("fs").ending, "readers see its calls")

		require.NoError(t, <-call)
		require.NoError(t, <-meanwhile)
		require.Equal(t, 13*time.Second, time.Since(began))
		h.settle()
		require.True(t, isClosed(h.sessions("fs")[0].released))
		require.Nil(t, h.rt.Snapshot().Server("fs").ending)
		require.Len(t, events(), 4)
	})
}

// A server over HTTP needs no overlap in its specification; an exclusive one never overlaps.
func TestReplace_that_may_overlap(t *testing.T) {
	http := mcpvisor.ServerSpec{Name: "fs", HTTP: &mcpvisor.HTTP{URL: "http://x"}}
	standby, exclusive := fsSpec, http
	standby.Standby, standby.Policy, exclusive.Exclusive = true, mcpvisor.Retry(3, time.Second), true
	for name, row := range map[string]struct {
		old, next mcpvisor.ServerSpec
		beside    bool
	}{
		"plain": {fsSpec, fsSpec, false}, "HTTP": {http, http, true}, "overlap": {fsSpec, overlapping, true}, "no longer": {overlapping, fsSpec, false},
		"standby": {fsSpec, standby, true}, "exclusive": {http, exclusive, false}, "was exclusive": {exclusive, http, false},
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			call := registerBusy(h, row.old, 10*time.Second)
			began := time.Now()
			require.NoError(t, <-h.replace(row.next))
			require.Equal(t, row.beside, time.Since(began) == 0)
			require.NoError(t, <-call)
		})
	}
}

// If the new server does not become ready, the old one stays as it is.
func TestReplace_with_overlap_that_fails(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		call := registerBusy(h, fsSpec, 10*time.Second)
		h.script("fs", script{openErr: errScripted})
		events := h.events()
		spec := overlapping
		spec.StartSupervised, spec.Policy = true, mcpvisor.Retry(5, time.Second)
		err := <-h.replace(spec)
		e := testutil.AsError[*mcpvisor.Error](t, err)
		require.Equal(t, mcpvisor.ErrStart, e.Kind)
		require.ErrorContains(t, e, "the server that it was to replace continues")
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.EqualValues(t, 1, h.rt.Snapshot().Server("fs").Gen)
		require.Empty(t, events())
		require.NoError(t, <-call)
		_, known := h.rt.desired.Load(uint64(2))
		require.False(t, known)
	})
}

// What crosses a replacement whose new server has not become ready yet.
func TestReplace_with_overlap_crossed(t *testing.T) {
	start := func(h *harness) (call, replaced <-chan error) {
		h.scripts.Store("fs", func(registration, epoch int) script {
			switch {
			case registration == 1 && epoch == 1:
				return script{tools: []string{"ls"}, callHangs: true}
			case registration == 2:
				return script{tools: []string{"ls"}, openAfter: 4 * time.Second, releaseAfter: time.Second}
			}
			return script{tools: []string{"ls"}}
		})
		spec := fsSpec
		spec.Policy = mcpvisor.Retry(5, time.Second)
		h.register(spec)
		call = h.begin(context.Background())
		return call, h.replace(overlapping)
	}
	runWithHarness(t, "crash_of_the_old_one", func(t *testing.T, h *harness) {
		call, replaced := start(h)
		h.sessions("fs")[0].Abort(errScripted)
		require.ErrorIs(t, <-call, mcpvisor.ErrCrashed)
		require.NoError(t, <-replaced)
		require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Gen)
		h.settle()
		require.Len(t, h.sessions("fs"), 3, "the old one was started again meanwhile")
	})
	runWithHarness(t, "unregister", func(t *testing.T, h *harness) {
		call, replaced := start(h)
		began := time.Now()
		require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
		require.Equal(t, time.Second, time.Since(began), "the new one has released everything, too")
		require.ErrorIs(t, <-call, mcpvisor.ErrClosed)
		require.ErrorIs(t, <-replaced, mcpvisor.ErrClosed)
		require.Empty(t, h.rt.Snapshot().Names())
	})
	runWithHarness(t, "close", func(t *testing.T, h *harness) {
		call, replaced := start(h)
		require.NoError(t, h.rt.Close(context.Background()))
		require.ErrorIs(t, <-call, mcpvisor.ErrClosed)
		require.ErrorIs(t, <-replaced, mcpvisor.ErrClosed)
	})
	runWithHarness(t, "fence", func(t *testing.T, h *harness) {
		call, replaced := start(h)
		require.NoError(t, h.rt.Fence(context.Background(), "fs", "the lease is over"))
		for _, s := range h.sessions("fs") {
			require.True(t, isClosed(s.released))
		}
		require.ErrorIs(t, <-call, mcpvisor.ErrEnded)
		require.ErrorIs(t, <-replaced, mcpvisor.ErrStart)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
	})
	runWithHarness(t, "another_replacement", func(t *testing.T, h *harness) {
		call, replaced := start(h)
		later := overlapping
		later.Origin, later.Timeouts.Drain = "later", time.Second
		require.NoError(t, <-h.replace(later))
		require.ErrorIs(t, <-replaced, mcpvisor.ErrExists)
		require.Equal(t, "later", h.rt.Snapshot().Server("fs").Spec.Origin)
		require.ErrorIs(t, <-call, mcpvisor.ErrClosed)
		require.Len(t, h.sessions("fs"), 3)
	})
	runWithHarness(t, "crash_of_the_manager", func(t *testing.T, h *harness) {
		call, replaced := start(h)
		h.crashManager()
		require.NoError(t, <-replaced)
		h.crashManager() // while the old one drains
		require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Gen)
		require.ErrorIs(t, <-call, mcpvisor.ErrClosed)
		h.settle()
		require.Nil(t, h.rt.Snapshot().Server("fs").ending)
	})
}

// What crosses the end of a server that was replaced, while its calls in flight end.
func TestReplace_with_overlap_crossed_at_the_end(t *testing.T) {
	for name, row := range map[string]struct {
		cut  func(h *harness)
		took time.Duration
		kind mcpvisor.ErrorKind
	}{
		"unregister": {func(h *harness) { _ = h.rt.Unregister(context.Background(), "fs") }, 0, mcpvisor.ErrClosed},
		"close":      {func(h *harness) { _ = h.rt.Close(context.Background()) }, 0, mcpvisor.ErrClosed},
		"fence":      {func(h *harness) { _ = h.rt.Fence(context.Background(), "fs", "") }, 0, mcpvisor.ErrEnded},
		"crash":      {func(h *harness) { h.sessions("fs")[0].Abort(errScripted) }, 0, mcpvisor.ErrCrashed},
		// There are never more than two: the next one waits for the end of the first.
		"replace": {func(h *harness) { _ = replace(h.rt, context.Background(), overlapping) }, 30 * time.Second, mcpvisor.ErrClosed},
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			call := registerBusy(h, fsSpec, 0)
			require.NoError(t, <-h.replace(overlapping))
			began := time.Now()
			row.cut(h)
			require.Equal(t, row.took, time.Since(began))
			if name != "crash" {
				require.True(t, isClosed(h.sessions("fs")[0].released))
			}
			e := testutil.AsError[*mcpvisor.Error](t, <-call)
			require.Equal(t, row.kind, e.Kind)
			synctest.Wait()
			require.True(t, isClosed(h.sessions("fs")[0].released))
		})
	}
}

// replace registers a server in the place of another one.
func replace(rt *Runtime, ctx context.Context, spec mcpvisor.ServerSpec) error { //nolint:revive // it stands for a method
	return rt.ReplaceAll(ctx, []mcpvisor.ServerSpec{spec})[0]
}

// A call that is canceled in the queue may be admitted in that moment. When it gives its place back, a drain ends.
func TestDrain_ends_after_a_call_that_is_admitted_while_it_leaves_the_queue(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Limits: mcpvisor.Limits{MaxInFlight: 1}})
		inc := h.rt.Snapshot().Server("fs").current
		require.True(t, inc.limiter.tryAcquire(), "the only place is taken")
		call := h.begin(t.Context())
		l := &inc.limiter
		l.mu.Lock() // the call cannot leave before all of this
		for queued := range l.queue.All() {
			queued.cancel(transport.ErrByOperator)
		}
		l.counts.Add(-1)
		l.queue.Admit(func(queuedCall) bool { l.waiting.Add(-1); return l.increment() })
		inc.drain()
		l.mu.Unlock()
		requireError(t, <-call, mcpvisor.ErrCanceled, mcpvisor.OutcomeNotSent)
		h.settle()
		require.True(t, isClosed(inc.idle))
	})
}

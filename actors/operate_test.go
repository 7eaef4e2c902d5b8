package actors

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// specOf describes a scripted server that comes after others.
func specOf(name string, after ...string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, After: after, StartSupervised: true, Policy: supervisor.Retry(20, time.Second)}
}

// background calls f in a goroutine. The function that it returns waits an hour for the result.
func (h *harness) background(f func() error) (result func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return func() error {
		h.t.Helper()
		select {
		case err := <-done:
			return err
		case <-time.After(time.Hour):
			require.Fail(h.t, "it does not return")
			return nil
		}
	}
}

func (h *harness) replaceAll(specs ...mcpvisor.ServerSpec) []error {
	return h.rt.ReplaceAll(context.Background(), specs)
}

// A server that is started before its stop is complete: the stop returns when it has ended.
func TestStopThenStart(t *testing.T) {
	for _, drain := range []bool{false, true} {
		runWithHarness(t, fmt.Sprint("drain ", drain), func(t *testing.T, h *harness) {
			h.script("a", script{callAfter: 2 * time.Second, releaseAfter: time.Second})
			h.register(specOf("a"))
			call := h.background(func() error { _, err := h.call(t.Context(), "a", time.Minute); return err })
			stop := h.background(func() error { return h.rt.Stop(context.Background(), "a", drain) })
			require.NoError(t, h.rt.Start(t.Context(), "a"))
			if err := call(); drain {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
			require.NoError(t, stop())
			require.True(t, isClosed(h.sessions("a")[0].released))
			require.Equal(t, supervisor.StateReady, h.state("a"))
		})
	}
}

// While the calls in flight of a server that was stopped end, it is not listed, and only Start starts it.
func TestStopWithDrain(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("a", script{tools: []string{"ls"}, callAfter: 2 * time.Second})
		h.register(specOf("a"))
		call := h.background(func() error { _, err := h.call(t.Context(), "a", time.Minute); return err })
		stop := h.background(func() error { return h.rt.Stop(context.Background(), "a", true) })
		require.Equal(t, supervisor.StateClosing, h.state("a"))
		require.Empty(t, h.rt.Snapshot().Tools())
		_, err := h.call(t.Context(), "a", time.Minute)
		require.ErrorContains(t, err, "stopped by an operator")
		require.ErrorIs(t, h.rt.Restart(t.Context(), "a"), mcpvisor.ErrUnavailable)
		require.NoError(t, call())
		require.NoError(t, stop())
		require.Equal(t, supervisor.StateStopped, h.state("a"))
	})
}

// What is to replace a server does not start it when an operator has stopped it.
func TestStopDuringReplacement(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("a", script{openAfter: 5 * time.Second, releaseAfter: 10 * time.Second})
		spec := specOf("a")
		spec.Overlap = true
		h.register(spec)
		time.Sleep(time.Minute)
		first := h.background(func() error { return h.replaceAll(spec)[0] })
		second := h.background(func() error { return h.replaceAll(spec)[0] })
		require.ErrorIs(t, first(), mcpvisor.ErrExists)
		stop := h.background(func() error { return h.rt.Stop(context.Background(), "a", false) })
		require.ErrorIs(t, second(), mcpvisor.ErrUnavailable)
		require.NoError(t, stop())
		for _, s := range h.sessions("a") {
			require.True(t, isClosed(s.released))
		}
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateStopped, h.state("a"))
		sessions := len(h.sessions("a"))
		require.NoError(t, h.replaceAll(spec)[0])
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateStopped, h.state("a"), "another spec is no start")
		require.ErrorIs(t, h.rt.Restart(t.Context(), "a"), mcpvisor.ErrUnavailable)
		require.Len(t, h.sessions("a"), sessions)
		require.NoError(t, h.rt.Start(t.Context(), "a"))
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateReady, h.state("a"))
	})
}

// What keeps the lists of lazy servers holds up a registration of all of them for seconds only.
func TestKnown_hangs(t *testing.T) {
	runWithHarness(t, "hangs", func(t *testing.T, h *harness) {
		h.rt.opts.Known = func(ctx context.Context, _ *mcpvisor.ServerSpec) *catalog.Catalog { <-ctx.Done(); return nil }
		began := time.Now()
		h.rt.RegisterAll(t.Context(), []mcpvisor.ServerSpec{specOf("a"), specOf("b")})
		require.Equal(t, knownTimeout, time.Since(began))
	})
}

// The policy applies to the first start of a server whose Register has returned before.
func TestFirstStartAfterRest(t *testing.T) {
	runWithHarness(t, "asleep", func(t *testing.T, h *harness) {
		h.rt.opts.Known = func(context.Context, *mcpvisor.ServerSpec) *catalog.Catalog { return &catalog.Catalog{} }
		h.scriptSessions("a", script{openErr: errScripted}, script{})
		spec := specOf("a")
		spec.StartSupervised, spec.Start = false, mcpvisor.StartLazy
		h.register(spec)
		require.NoError(t, h.rt.Start(t.Context(), "a"))
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateReady, h.state("a"))
	})
	runWithHarness(t, "stopped", func(t *testing.T, h *harness) {
		h.scriptSessions("a", script{openHangs: true}, script{openErr: errScripted}, script{})
		spec := specOf("a")
		spec.StartSupervised = false
		register := h.background(func() error { return h.rt.Register(context.Background(), spec) })
		require.NoError(t, h.rt.Stop(t.Context(), "a", false))
		require.NoError(t, register())
		require.NoError(t, h.rt.Start(t.Context(), "a"))
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateReady, h.state("a"))
	})
}

// A lazy server that was started for its lists, and that another one waited for, sleeps when that one does.
func TestLazyDependencySleeps(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("db", script{})
		h.script("api", script{})
		db, api := specOf("db"), specOf("api", "db")
		db.Start, api.Start = mcpvisor.StartLazy, mcpvisor.StartLazy
		for _, err := range h.rt.RegisterAll(context.Background(), []mcpvisor.ServerSpec{db, api}) {
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateAsleep, h.state("api"))
		require.Equal(t, supervisor.StateAsleep, h.state("db"))
		require.ErrorContains(t, h.rt.Ping(t.Context(), h.rt.Snapshot().Server("db")), "asleep")
		require.NoError(t, h.rt.Start(t.Context(), "db"))
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateReady, h.state("db"), "it is wanted, and has no IdleStop")
	})
}

// A call that begins when its server is about to sleep keeps it awake, and so one that waits for the server continues.
func TestRestRefused(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("a", script{})
		spec := specOf("a")
		spec.IdleStop = time.Hour
		h.register(spec)
		time.Sleep(time.Minute) // nothing else changes the view then
		s := h.rt.Snapshot()
		inc := s.Server("a").current
		require.True(t, inc.limiter.tryAcquire(), "a call begins, and is not counted yet")
		inc.rested.Store(true) // what the one that waits has seen
		waiting := h.background(func() error { _, err := h.rt.AwaitReady(context.Background(), "a"); return err })
		h.send(h.supervisorOf("a"), &messages.Rest{Epoch: inc.epoch})
		require.NoError(t, waiting())
		inc.limiter.release(false)
	})
}

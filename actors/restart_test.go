package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// stateCase brings a server called fs into one state.
type stateCase struct {
	state   supervisor.State
	reach   func(h *harness)
	dialled int           // sessions so far
	release time.Duration // how long the release takes from here
}

func states() []stateCase {
	const second, hour = time.Second, time.Hour
	supervised := func(h *harness, p supervisor.Policy) {
		if err := h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", StartSupervised: true, Policy: p,
			Timeouts: mcpvisor.Timeouts{Start: 10 * hour, List: 10 * hour}}); err != nil {
			h.t.Errorf("register: %v", err)
		}
		synctest.Wait()
	}
	long := supervisor.Retry(3, hour, supervisor.WithMaxDelay(hour))
	ready := script{tools: []string{"ls"}, releaseAfter: second}
	return []stateCase{
		{supervisor.StateConnecting, func(h *harness) {
			h.scriptSessions("fs", script{openHangs: true, releaseAfter: second}, ready)
			supervised(h, long)
		}, 1, second},
		{supervisor.StateDiscovering, func(h *harness) {
			h.scriptSessions("fs", script{listAfter: 9 * hour, releaseAfter: second}, ready)
			supervised(h, long)
		}, 1, second},
		{supervisor.StateReady, func(h *harness) {
			h.script("fs", ready)
			supervised(h, long)
		}, 1, second},
		{supervisor.StateClosing, func(h *harness) {
			h.script("fs", ready)
			supervised(h, long)
			h.session("fs").Abort(errScripted)
		}, 1, second},
		{supervisor.StateBackoff, func(h *harness) {
			h.script("fs", ready)
			supervised(h, long)
			h.session("fs").Abort(errScripted)
			time.Sleep(2 * second)
		}, 1, 0},
		{supervisor.StateParked, func(h *harness) {
			h.script("fs", ready)
			supervised(h, supervisor.Policy{ParkEvery: hour})
			h.session("fs").Abort(errScripted)
			time.Sleep(2 * second)
		}, 1, 0},
		{supervisor.StateUnauthorized, func(h *harness) {
			h.script("fs", ready)
			supervised(h, long)
			h.session("fs").Abort(&supervisor.Cause{Kind: supervisor.CauseAuth, Permanent: true, Message: "token expired"})
			time.Sleep(2 * second)
		}, 1, 0},
		{supervisor.StateEvicted, func(h *harness) {
			h.script("fs", ready)
			supervised(h, supervisor.NoRetry())
			h.session("fs").Abort(errScripted)
			time.Sleep(2 * second)
		}, 1, 0},
	}
}

func TestRestartInEachState(t *testing.T) {
	for _, c := range states() {
		runWithHarness(t, string(c.state), func(t *testing.T, h *harness) {
			c.reach(h)
			require.Equal(t, c.state, h.state("fs"))
			require.Zero(t, spends(func() { require.NoError(t, h.rt.Restart(context.Background(), "fs")) }))
			require.Contains(t, []supervisor.State{supervisor.StateClosing, supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateReady}, h.rt.Snapshot().Server("fs").State)
			if c.release > 0 {
				require.Equal(t, supervisor.StateClosing, h.rt.Snapshot().Server("fs").State, "the effect shows at once")
			}
			started := time.Now()
			v, err := h.rt.AwaitReady(context.Background(), "fs")
			require.NoError(t, err)
			require.Equal(t, c.release, time.Since(started), "no backoff: the user asked")
			require.Equal(t, uint64(2), v.Epoch)
			require.Zero(t, v.Attempt)
			require.Len(t, h.sessions("fs"), 2)
		})
	}
}

func TestRestartOfUnknownServer(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		require.ErrorIs(t, h.rt.Restart(context.Background(), "fs"), mcpvisor.ErrUnknownServer)
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		go func() { _ = h.rt.Unregister(context.Background(), "fs") }()
		synctest.Wait()
		require.ErrorIs(t, h.rt.Restart(context.Background(), "fs"), mcpvisor.ErrClosed)
	})
}

// A server may be ready, and have crashed, before the manager handles supervisorStarted:
// the actor that sends it runs concurrently. The reports name the supervising actor,
// too.
func TestRestartBeforeTheSupervisorIsKnown(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		pid := h.supervisorOf("fs")
		entry := h.rt.managerState.registrations["fs"]
		entry.supervisor = nil // as if supervisorStarted were still in flight
		defer func() {
			if entry.supervisor == nil { // else Close would wait forever
				entry.supervisor = pid
			}
		}()
		h.send(pid, &messages.ReconcileRequest{})
		synctest.Wait()
		require.NoError(t, h.rt.Restart(context.Background(), "fs"))
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Epoch)
	})
}

func TestRetryDelaysAreExact(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{openErr: errScripted})
		events := h.events()
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, 500*time.Millisecond)})
		crashed := time.Now()
		h.session("fs").Abort(errScripted)
		time.Sleep(time.Hour)
		var after []time.Duration
		for _, s := range h.sessions("fs")[1:] {
			after = append(after, s.born.Sub(crashed))
			crashed = s.born
		}
		require.Equal(t, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, after)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		list := events()
		last := list[len(list)-1]
		require.Equal(t, mcpvisor.EventEvicted, last.Kind)
		require.Equal(t, crashed, last.Time, "evicted as soon as the last try has failed")
		require.Equal(t, []int{3, 3}, []int{last.Attempt, last.MaxAttempts})
		require.Contains(t, last.String(), "fs evicted after 3 of 3 restarts: ")
		_, err := h.call(t.Context(), "fs", 0)
		require.ErrorContains(t, err, "after 3 of 3 restarts; fix the server")
		require.Equal(t, []mcpvisor.EventKind{
			mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady, mcpvisor.EventDown,
			mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventStartFailed,
			mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventStartFailed,
			mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventStartFailed, mcpvisor.EventEvicted,
		}, kinds(list))
		v := h.rt.Snapshot().Server("fs")
		require.Len(t, v.History, 4)
		require.True(t, v.History[0].Served)
		require.False(t, v.History[3].Served)
		require.Equal(t, uint64(4), v.Epoch)
	})
}

func TestStableSessionResetsTheBudget(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, crashAfter: 11 * time.Second})
		events := h.events()
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		time.Sleep(10*12*time.Second + time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.sessions("fs"), 11, "one every 12 s: 11 s of life and 1 s of backoff")
		stable := 0
		for _, e := range events() {
			require.LessOrEqual(t, e.Attempt, 1)
			if e.Kind == mcpvisor.EventStable {
				stable++
			}
		}
		require.Equal(t, 10, stable, "and it is reported each time")
	})
}

func TestDialWaitsForRelease(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		crashed := time.Now()
		h.session("fs").Abort(errScripted)
		require.Equal(t, supervisor.StateClosing, h.state("fs"))
		require.Empty(t, h.rt.Snapshot().Tools(), "withdrawn at once, though the release takes long")
		time.Sleep(11*time.Second - 1)
		require.Len(t, h.sessions("fs"), 1)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
		time.Sleep(1)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Equal(t, 11*time.Second, h.session("fs").born.Sub(crashed))
	})
}

func TestParkedServerIsTriedSlowly(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{openErr: errScripted}, script{openErr: errScripted},
			script{openErr: errScripted}, script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(1, time.Second, supervisor.WithParking(time.Hour))})
		crashed := time.Now()
		h.session("fs").Abort(errScripted)
		time.Sleep(2 * time.Second)
		require.Equal(t, supervisor.StateParked, h.state("fs"))
		_, err := h.call(context.Background(), "fs", 0)
		require.Equal(t, time.Hour-time.Second, asError(t, err).RetryAfter)
		v, err := h.rt.AwaitReady(context.Background(), "fs")
		require.NoError(t, err)
		require.Equal(t, uint64(5), v.Epoch)
		require.Equal(t, 3*time.Hour+time.Second, time.Since(crashed))
		synctest.Wait()
	})
}

func TestNoRetryEvictsAtTheFirstEnd(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		why := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exited", Stderr: []string{"no such module"}}
		h.session("fs").Abort(why)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		require.Empty(t, h.rt.Snapshot().Tools())
		time.Sleep(time.Hour)
		require.Len(t, h.sessions("fs"), 1)
		_, err := h.call(context.Background(), "fs", 0)
		e := requireError(t, err, mcpvisor.ErrEvicted, mcpvisor.OutcomeNotSent)
		require.ErrorIs(t, e, why)
		require.Equal(t, why.Stderr, e.Stderr)
		require.Contains(t, e.Hint, "Restart")
		_, err = h.rt.AwaitReady(context.Background(), "fs")
		require.ErrorIs(t, err, mcpvisor.ErrEvicted)
	})
}

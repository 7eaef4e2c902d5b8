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
		t.Run(string(c.state), func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
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

// A caller that restarts and then waits must not receive the old session.
func TestRestartThenAwaitNeverSeesTheOldSession(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		for epoch := uint64(2); epoch < 20; epoch++ {
			require.NoError(t, h.rt.Restart(context.Background(), "fs"))
			v, err := h.rt.AwaitReady(context.Background(), "fs")
			require.NoError(t, err)
			require.Equal(t, epoch, v.Epoch)
		}
	})
}

func TestRestartGivesAFreshBudget(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{openErr: errScripted})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(2, time.Second)})
		h.session("fs").Abort(errScripted)
		time.Sleep(time.Hour)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		require.Len(t, h.sessions("fs"), 3)
		require.NoError(t, h.rt.Restart(context.Background(), "fs"))
		time.Sleep(time.Hour)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		require.Len(t, h.sessions("fs"), 6, "one asked for, and two tries")
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

//go:build unix

package facade_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// TestFence_kills: a process that ignores the end of its stdin and SIGTERM, and what it has
// started, are gone when Fence returns, though Timeouts.Shutdown is long.
func TestFence_kills(t *testing.T) {
	c := newClient(t)
	stubborn := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}}}
	spec := mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(stubborn), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond),
		Standby: true, Timeouts: mcpvisor.Timeouts{Shutdown: 10 * time.Minute}}
	standby := watch(t, c, mcpvisor.EventStandby)
	require.NoError(t, c.Register(t.Context(), spec))
	pids := []int{next(t, standby).PID}
	status, _ := c.ServerStatus("s")
	pids = append(pids, status.Session.PID)
	lost := startCall(t, c)
	require.NoError(t, c.Fence(t.Context(), "s", "the lease is over"))
	for _, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "process %d lives after Fence", pid)
	}
	require.ErrorIs(t, <-lost, mcpvisor.ErrEnded)
	requireFenced(t, c)
}

// TestFence_cuts_grace: a fence does not wait for an orderly end that has begun.
func TestFence_cuts_grace(t *testing.T) {
	c := newClient(t)
	stubborn := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}}}
	spec := mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(stubborn), Timeouts: mcpvisor.Timeouts{Shutdown: 10 * time.Minute}}
	t.Run("of Restart", func(t *testing.T) {
		require.NoError(t, c.Register(t.Context(), spec))
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.NoError(t, c.Fence(t.Context(), "s", "the lease is over"))
		requireFenced(t, c)
	})
	t.Run("of Unregister", func(t *testing.T) {
		require.NoError(t, c.Register(t.Context(), spec))
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.Unregister(canceled, "s"), mcpvisor.ErrCanceled)
		require.NoError(t, c.Fence(t.Context(), "s", "the lease is over"))
		_, known := c.ServerStatus("s")
		require.False(t, known)
	})
}

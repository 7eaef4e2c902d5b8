package fleet

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
)

func withGuard(c *Config) {
	c.AllowUnguarded = false
	c.GuardTicket = func(store.Lease) ([]byte, error) { return []byte("ticket"), nil }
}

// guardedNode makes a node with a guard, and n servers that are ready; the first is exclusive.
func guardedNode(t *testing.T, w *world, n int) (context.Context, *Node) {
	t.Helper()
	a := w.join("a", withGuard)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	_, err := a.Apply(ctx, someServers(n, 1))
	require.NoError(t, err)
	waitReady(t, a)
	return ctx, a
}

// guardsOf are the processes of guards that this process has started.
func guardsOf(t *testing.T) (pids []int) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err != nil || !strings.Contains(string(environ), "MCPVISOR_GUARD_PROCESS=1") {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ") // its state, and its parent
		if fields := strings.Fields(rest); err == nil && len(fields) > 1 && fields[0] != "Z" && fields[0] != "X" && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestNode_guard: an exclusive server has the entry of the guard in its environment, others have
// not; a guard that is killed is replaced, and the server continues.
func TestNode_guard(t *testing.T) {
	ctx, a := guardedNode(t, newWorld(t), 2)
	entry := func(server string) string {
		result, err := a.CallTool(ctx, server+"/env", map[string]any{"name": "MCPVISOR_GUARD"}, facade.WithWaitReady())
		require.NoError(t, err)
		return schema.Text(result)
	}
	require.NotContains(t, entry("s0"), `"set":false`)
	require.Contains(t, entry("s1"), `"set":false`)

	before := guardsOf(t)
	require.Len(t, before, 1)
	require.NoError(t, syscall.Kill(before[0], syscall.SIGKILL))
	require.Eventually(t, func() bool { now := guardsOf(t); return len(now) == 1 && now[0] != before[0] }, 20*time.Second, 5*time.Millisecond)
	require.NotContains(t, entry("s0"), `"set":false`)
}

// TestNode_lost_guard: a node whose guard cannot be replaced ends its exclusive servers, and begins
// another life with another guard.
func TestNode_lost_guard(t *testing.T) {
	t.Parallel()
	ctx, a := guardedNode(t, newWorld(t), 2)
	pid := func(server string) int {
		status, _ := a.ServerStatus(server)
		if status.Session == nil {
			return 0
		}
		return status.Session.PID
	}
	exclusive, shared, lease := pid("s0"), pid("s1"), a.lease.Load()
	a.guards.Lost(store.Lease(lease))
	require.Eventually(t, func() bool { return a.lease.Load() != lease && pid("s0") != 0 && pid("s0") != exclusive }, 30*time.Second, 5*time.Millisecond)
	require.ErrorIs(t, syscall.Kill(exclusive, 0), syscall.ESRCH)
	require.NoError(t, a.WaitReady(ctx))
	require.Equal(t, shared, pid("s1"), "a shared server continues")
}

// TestNode_guard_that_cannot_start: the servers that need it say why they do not run.
func TestNode_guard_that_cannot_start(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", func(c *Config) {
		c.AllowUnguarded = false
		c.GuardTicket = func(store.Lease) ([]byte, error) { return nil, errors.New("the key cannot be read") }
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, someServers(2, 1))
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s1"))
	require.Eventually(t, func() bool {
		status, _ := a.ServerStatus("s0")
		return status.LastCause != nil && strings.Contains(status.LastCause.Error(), "the key cannot be read")
	}, 30*time.Second, 5*time.Millisecond)
}

// TestNode_Close_that_ends_too_soon: the guard stays while a server lives, because the program may end
// now.
func TestNode_Close_that_ends_too_soon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.scripts["s0"] = mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStdinClosed, Do: mcptest.ActionIgnoreShutdown}}}
	ctx, a := guardedNode(t, w, 1)
	ended, end := context.WithCancel(ctx)
	end()
	require.Error(t, a.Close(ended))
	require.NotEmpty(t, guardsOf(t), "one, or two if the first one was late")
	require.NoError(t, a.Close(ctx))
	g, err := a.guards.Current()
	require.NoError(t, err)
	g.Close()
}

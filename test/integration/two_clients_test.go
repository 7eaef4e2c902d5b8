//go:build linux

package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Two clients in one process share nothing, even if their servers have the same names.
func TestTwoClients(t *testing.T) {
	w := newFixture(t)
	spec := func() mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: "twin", Stdio: w.stdio(mcptest.Script{}), Policy: supervisor.Retry(3, 10*time.Millisecond)}
	}
	first, firstEvents := w.client()
	second, secondEvents := w.client()
	require.NoError(t, first.Register(w.within(), spec()))
	require.NoError(t, second.Register(w.within(), spec()))
	require.NotEqual(t, w.pid(first, "twin"), w.pid(second, "twin"))
	kept := w.pid(second, "twin")
	other := newNeighbour(second, "twin")

	require.True(t, signalMarked(w.pid(first, "twin"), w.mark, syscall.SIGKILL))
	_, err := firstEvents.wait(w.within(), eventIs("twin", mcpvisor.EventReady, 2))
	require.NoError(t, err)
	require.Equal(t, kept, w.pid(second, "twin"))
	require.NoError(t, first.Unregister(w.within(), "twin"))
	require.Equal(t, []string{"twin"}, second.Servers())
	require.NoError(t, first.Register(w.within(), spec()))
	w.close(first)
	require.Equal(t, []int{kept}, processes(w.mark))
	other.requireUndisturbed(t)
	require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady}, kinds(secondEvents.all()))
}

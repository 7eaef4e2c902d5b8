//go:build linux

package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Two clients in one process share nothing, also where their servers have the
// same names.
func TestTwoClientsSideBySide(t *testing.T) {
	w := newWorld(t)
	spec := func() facade.ServerSpec {
		return facade.ServerSpec{Name: "twin", Stdio: w.stdio(mcptest.Script{}), Policy: facade.Retry(3, 10*time.Millisecond)}
	}
	first, firstEvents := w.client()
	second, secondEvents := w.client()
	require.NoError(t, first.Register(w.within(), spec()))
	require.NoError(t, second.Register(w.within(), spec()))
	require.NotEqual(t, w.pid(first, "twin"), w.pid(second, "twin"))
	kept := w.pid(second, "twin")
	other := disturbable(second, "twin")

	require.True(t, send(w.pid(first, "twin"), w.mark, syscall.SIGKILL))
	_, err := firstEvents.wait(w.within(), is("twin", facade.EventReady, 2))
	require.NoError(t, err)
	require.Equal(t, kept, w.pid(second, "twin"))
	require.NoError(t, first.Unregister(w.within(), "twin"))
	require.Equal(t, []string{"twin"}, second.Servers())
	require.NoError(t, first.Register(w.within(), spec()))
	w.close(first)
	require.Equal(t, []int{kept}, processes(w.mark))
	other.requireUndisturbed(t)
	require.Equal(t, []facade.EventKind{facade.EventRegistered, facade.EventConnecting, facade.EventReady}, kinds(secondEvents.all()))
}

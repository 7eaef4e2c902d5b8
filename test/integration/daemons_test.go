//go:build linux

package integration

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// forksDaemon starts a grandchild that leaves the process group of its server.
var forksDaemon = mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild, Text: "detached"}

func TestDaemon_ends_with_its_server(t *testing.T) {
	for name, end := range map[string]func(*fixture, *facade.Client){
		"unregistered": func(w *fixture, c *facade.Client) { require.NoError(w.t, c.Unregister(w.within(), "s")) },
		"closed":       func(w *fixture, c *facade.Client) { require.NoError(w.t, c.Close(w.within())) },
		"crashed": func(w *fixture, c *facade.Client) {
			st, _ := c.ServerStatus("s")
			require.True(w.t, signalMarked(st.Session.PID, w.mark, syscall.SIGKILL))
			require.NoError(w.t, c.Close(w.within()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			c, _ := w.client()
			dir := t.TempDir()
			require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "s",
				Stdio: w.stdio(mcptest.Script{StateDir: dir, Faults: []mcptest.Fault{forksDaemon}})}))
			require.Len(t, processes(w.mark), 2)
			end(w, c)
			require.Empty(t, processes(w.mark))
		})
	}
}

func TestDaemon_KeepDaemons(t *testing.T) {
	w := newFixture(t)
	c, _ := w.client()
	spec := w.stdio(mcptest.Script{Faults: []mcptest.Fault{forksDaemon}})
	spec.KeepDaemons = true
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "s", Stdio: spec}))
	require.NoError(t, c.Unregister(w.within(), "s"))
	left := processes(w.mark)
	require.Len(t, left, 1)
	require.True(t, signalMarked(left[0], w.mark, syscall.SIGKILL))
	waitUntil(w.within(), t, "the daemon has ended", func() bool { return len(processes(w.mark)) == 0 })
}

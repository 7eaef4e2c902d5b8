//go:build linux

package integration

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// shortShutdown is for servers that ignore a polite shutdown.
var shortShutdown = mcpvisor.Timeouts{Shutdown: 200 * time.Millisecond}

// stopReading triggers the fault that makes a server stop reading its stdin.
func stopReading(t *testing.T, w *fixture, c *facade.Client, server string) {
	t.Helper()
	_, err := c.CallTool(w.within(), server+"/echo", nil, facade.WithTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
}

func TestUnresponsiveServer_blocks_no_other(t *testing.T) {
	w := newFixture(t)
	c, _ := w.client()
	unreading := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageCall, Do: mcptest.ActionHangAll}}}
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "unreading", Stdio: w.stdio(unreading), Timeouts: shortShutdown}))
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "other", InMemory: mcptest.InMemory(mcptest.Script{})}))
	other := newNeighbour(c, "other")
	stopReading(t, w, c, "unreading")

	// Larger than the buffer of a pipe, so the write blocks.
	large := map[string]any{"text": strings.Repeat("x", 2<<20)}
	_, err := c.CallTool(w.within(), "unreading/echo", large, facade.WithTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, "a part of the request was written")

	// While that write blocks, no other call is sent.
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = c.CallTool(ctx, "unreading/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)

	inFlight := make(chan error, 1)
	go func() {
		_, err := c.CallTool(context.Background(), "unreading/echo", nil)
		inFlight <- err
	}()
	waitUntil(w.within(), t, "the call is in flight", func() bool {
		st, _ := c.ServerStatus("unreading")
		return st.Calls.InFlight == 1
	})
	require.NoError(t, c.Unregister(w.within(), "unreading"))
	require.ErrorIs(t, <-inFlight, mcpvisor.ErrClosed)
	w.requireNoProcess()
	other.requireUndisturbed(t)
}

func TestUnresponsiveServer_found_by_probes(t *testing.T) {
	w := newFixture(t)
	c, events := w.client()
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "frozen", Stdio: w.stdio(mcptest.Script{}), Timeouts: shortShutdown,
		Policy: supervisor.Retry(3, 10*time.Millisecond),
		Probe:  mcpvisor.Probe{Interval: 50 * time.Millisecond, Timeout: 500 * time.Millisecond, Failures: 2}}))
	pid := w.pid(c, "frozen")
	require.True(t, signalMarked(pid, w.mark, syscall.SIGSTOP))
	waitUntil(w.within(), t, "every thread of the server is stopped", func() bool { return stopped(pid) })
	_, err := c.CallTool(w.within(), "frozen/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	down, err := events.wait(w.within(), eventIs("frozen", mcpvisor.EventDown, 1))
	require.NoError(t, err)
	require.EqualValues(t, "probe", down.Cause.Kind)
	res, err := c.CallTool(w.within(), "frozen/echo", map[string]any{"text": "thawed"}, facade.WithWaitReady())
	require.NoError(t, err)
	require.Equal(t, "thawed", textOf(res))
	require.Equal(t, []int{w.pid(c, "frozen")}, processes(w.mark), "only the new process is left")
}

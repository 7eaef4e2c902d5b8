//go:build linux

package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A server that becomes ready each time and crashes at each call must be evicted.
// Reaching ready alone does not reset the restart budget.
func TestEvict_crash_on_every_call(t *testing.T) {
	const budget = 3
	w := newFixture(t)
	c, events := w.client()
	dir := t.TempDir()
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "fragile", Policy: supervisor.Retry(budget, 10*time.Millisecond),
		Stdio: w.stdio(mcptest.Script{StateDir: dir, Faults: []mcptest.Fault{
			{At: mcptest.StageCall, Do: mcptest.ActionStderrLine, Text: "out of cheese"},
			{At: mcptest.StageCall, Do: mcptest.ActionExit, Code: 7}}})}))

	ctx := w.within()
	crashes := 0
	var err error
	for {
		_, err = c.CallTool(ctx, "fragile/echo", nil, facade.WithWaitReady())
		var e *mcpvisor.Error
		if !errors.As(err, &e) || !errors.Is(err, mcpvisor.ErrCrashed) {
			break
		}
		crashes++
		require.EqualValues(t, crashes, e.Epoch)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		require.Contains(t, e.Stderr, "out of cheese")
	}
	require.ErrorIs(t, err, mcpvisor.ErrEvicted)
	require.Equal(t, 1+budget, crashes, "one crash per incarnation")
	require.Equal(t, crashes, mcptest.Starts(dir))
	require.Empty(t, c.Tools())
	require.Empty(t, processes(w.mark), "an evicted server has no process")

	var delays []time.Duration
	for _, e := range events.of("fragile") {
		if e.Kind == mcpvisor.EventRetry {
			require.Equal(t, len(delays)+1, e.Attempt)
			require.Equal(t, budget, e.MaxAttempts)
			delays = append(delays, e.Delay)
		}
	}
	require.Equal(t, []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond}, delays)
	evicted, err := events.wait(w.within(), eventIs("fragile", mcpvisor.EventEvicted, 0))
	require.NoError(t, err)
	require.Equal(t, 7, *evicted.Cause.ExitCode)
	st, ok := c.ServerStatus("fragile")
	require.True(t, ok)
	require.Equal(t, supervisor.StateEvicted, st.State)
	require.Len(t, st.History, crashes)
	for _, life := range st.History {
		require.True(t, life.Served)
	}

	require.NoError(t, c.Restart(w.within(), "fragile"))
	require.NoError(t, c.WaitReady(w.within(), "fragile"), "Restart starts an evicted server")
	require.True(t, listsTools(c, "fragile"))
}

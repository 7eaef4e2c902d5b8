package facade_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestServerStatus_is_a_copy(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(1, time.Millisecond),
		Stdio: mcptest.Stdio(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "crash"}}})}))
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	before, _ := c.ServerStatus("s")
	want, err := json.Marshal(before)
	require.NoError(t, err)
	before.LastCause.Message = "changed"
	before.History[0].Cause.Message = "changed"
	*before.History[0].Cause.ExitCode = 99
	after, _ := c.ServerStatus("s")
	require.GreaterOrEqual(t, after.Totals.Uptime, before.Totals.Uptime)
	after.Totals.Uptime = before.Totals.Uptime
	got, err := json.Marshal(after)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

// The slices that are returned belong to the caller.
func TestServers_returns_a_copy(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	c.Servers()[0] = "changed"
	require.Equal(t, []string{"s"}, c.Servers())
	require.Len(t, c.Status(), 1)
}

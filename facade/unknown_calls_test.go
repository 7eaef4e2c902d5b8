package facade_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A call of unknown outcome stays listed, however many calls succeed afterwards.
func TestUnknownCalls(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(1, time.Millisecond)}))
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	_, err = c.CallTool(t.Context(), "s/none", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	for range retention.Calls + 1 {
		call(t, c, "s/echo", map[string]any{"text": "x"})
	}
	unknown := c.UnknownCalls()
	require.Len(t, unknown, 1)
	require.EqualValues(t, 1, unknown[0].Seq)
	require.Equal(t, "crash", unknown[0].Target)
	require.Equal(t, mcpvisor.OutcomeUnknown, unknown[0].Outcome)
	recent, _ := c.RecentCalls(0)
	require.Greater(t, recent[0].Seq, unknown[0].Seq)
}

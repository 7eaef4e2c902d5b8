package facade_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A call that begins after the death of the session was never in flight.
func TestEventDown_counts_only_calls_in_flight(t *testing.T) {
	for range 20 {
		c := newClient(t)
		events := c.Watch(t.Context())
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
		_, err := c.CallTool(t.Context(), "s/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		for range 3 {
			_, err = c.CallTool(t.Context(), "s/echo", nil)
			require.Error(t, err)
		}
		for e := range events {
			if e.Kind == mcpvisor.EventDown {
				require.Equal(t, 1, e.FailedCalls)
				break
			}
		}
		require.NoError(t, c.Close(context.Background()))
	}
}

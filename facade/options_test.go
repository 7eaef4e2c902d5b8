package facade_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// The client's default overrides the server's Timeouts.Call.
func TestWithDefaultCallTimeout(t *testing.T) {
	c := newClient(t, facade.WithDefaultCallTimeout(30*time.Millisecond))
	silent := rawServer(func(method, _ string) string {
		if method == "tools/call" {
			return silence
		}
		return ""
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Timeouts: mcpvisor.Timeouts{Call: time.Hour, CallTotal: time.Hour}}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
	longer, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = c.CallTool(longer, "s/x", nil, facade.WithTimeout(time.Hour))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled, "WithTimeout overrides both")
}

// A later valid option does not hide the error of an earlier one.
func TestNew_reports_the_error_of_every_option(t *testing.T) {
	_, err := facade.New(facade.WithRoots(mcp.Root{URI: "https://h/"}), facade.WithRoots(mcp.Root{URI: "file:///tmp"}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}

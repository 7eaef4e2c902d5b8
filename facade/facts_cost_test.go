//go:build !race

package facade_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// silentObserver does nothing.
type silentObserver struct{}

func (silentObserver) RequestStarted(ctx context.Context, _ mcpvisor.RequestStart) (context.Context, []byte) {
	return ctx, nil
}

func (silentObserver) RequestEnded(context.Context, mcpvisor.RequestEnd) {}

// An observer that does nothing costs a call no allocation: the budgets are those of
// TestCallTool_allocations. The facts are always on, so that test holds for them.
func TestWithObserver_allocations(t *testing.T) {
	ctx := context.Background()
	c, err := facade.New(facade.WithObserver(silentObserver{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy}))
	args, raw := map[string]any{"text": "hello"}, json.RawMessage(`{"text":"hello"}`)
	allocs, bytes := testutil.Allocations(2000, func() { _, err := c.CallTool(ctx, "s/echo", args); require.NoError(t, err) })
	t.Logf("CallTool: %.1f allocations, %.0f bytes", allocs, bytes)
	require.LessOrEqual(t, allocs, 3.5)
	allocs, bytes = testutil.Allocations(2000, func() { _, err := c.CallToolRaw(ctx, "s/echo", raw); require.NoError(t, err) })
	t.Logf("CallToolRaw: %.1f allocations, %.0f bytes", allocs, bytes)
	require.LessOrEqual(t, allocs, 2.5)
}

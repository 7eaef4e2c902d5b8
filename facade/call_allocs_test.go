//go:build !race

package facade_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// What one call may allocate in this process, all goroutines taken together.
// The race detector empties pools at random, so it is not asked.
func TestCallTool_allocations(t *testing.T) {
	ctx := context.Background()
	c, err := facade.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	// Since 2026-07-28 each answer says who the server is, which a typed result
	// has to hold too.
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy}))
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "modern", Stdio: mcptest.Stdio(mcptest.Script{})}))

	args := map[string]any{"text": "hello"}
	raw := json.RawMessage(`{"text":"hello"}`)
	for _, budget := range []struct {
		name          string
		allocs, bytes float64
		call          func() error
	}{
		{"Call", 11.5, 500, func() error { _, err := c.CallTool(ctx, "s/echo", args); return err }},
		{"Call, modern", 22.5, 1400, func() error { _, err := c.CallTool(ctx, "modern/echo", args); return err }},
		{"CallRaw, modern", 3.5, 300, func() error { _, err := c.CallToolRaw(ctx, "modern/echo", raw); return err }},
		{"CallRaw", 3.5, 200, func() error { _, err := c.CallToolRaw(ctx, "s/echo", raw); return err }},
	} {
		allocs, bytes := costs(t, budget.call)
		t.Logf("%s: %.1f allocations, %.0f bytes", budget.name, allocs, bytes)
		require.LessOrEqual(t, allocs, budget.allocs, "%s: allocations", budget.name)
		require.LessOrEqual(t, bytes, budget.bytes, "%s: bytes", budget.name)
	}
}

// costs is what f costs in the mean over many calls.
func costs(t *testing.T, f func() error) (allocs, bytes float64) {
	t.Helper()
	const n = 2000
	for range 100 {
		require.NoError(t, f())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n
}

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
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// The allocations of one call in this process, in all goroutines together. The race
// detector empties pools at random, so the test is not built with it.
func TestCallTool_allocations(t *testing.T) {
	ctx := context.Background()
	c, err := facade.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	// Since 2026-07-28 each result names the server in its metadata, which costs a typed
	// result more allocations.
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy}))
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "modern", Stdio: mcptest.Stdio(mcptest.Script{})}))

	cancelable, cancel := context.WithCancel(ctx)
	defer cancel()
	args := map[string]any{"text": "hello"}
	several := map[string]any{"text": "hello", "lines": []any{1, 2.0}, "deep": map[string]any{"a": true, "b": nil}}
	raw := json.RawMessage(`{"text":"hello"}`)
	for _, budget := range []struct {
		name          string
		allocs, bytes float64
		call          func() error
	}{
		{"CallTool", 2.5, 250, func() error { _, err := c.CallTool(ctx, "s/echo", args); return err }},
		{"CallTool, several arguments", 2.5, 250, func() error { _, err := c.CallTool(ctx, "s/echo", several); return err }},
		{"CallTool, modern", 13.5, 1200, func() error { _, err := c.CallTool(ctx, "modern/echo", args); return err }},
		{"CallToolRaw, modern", 1.5, 190, func() error { _, err := c.CallToolRaw(ctx, "modern/echo", raw); return err }},
		{"CallToolRaw", 1.5, 90, func() error { _, err := c.CallToolRaw(ctx, "s/echo", raw); return err }},
		{"CallTool, cancelable", 2.5, 250, func() error { _, err := c.CallTool(cancelable, "s/echo", args); return err }},
		{"CallToolRaw, cancelable", 1.5, 90, func() error { _, err := c.CallToolRaw(cancelable, "s/echo", raw); return err }},
	} {
		allocs, bytes := testutil.Allocations(2000, func() { require.NoError(t, budget.call()) })
		t.Logf("%s: %.1f allocations, %.0f bytes", budget.name, allocs, bytes)
		require.LessOrEqual(t, allocs, budget.allocs, "%s: allocations", budget.name)
		require.LessOrEqual(t, bytes, budget.bytes, "%s: bytes", budget.name)
	}
}

// A plain call that is validated allocates no more than one that is not.
func TestWithValidation_allocates_nothing(t *testing.T) {
	args := json.RawMessage(`{"path":"p","limit":3}`)
	var allocs [2]float64
	for i, opts := range [][]facade.Option{nil, {facade.WithValidation()}} {
		c := newClient(t, opts...)
		newSchemaServer(readSchema).register(t, c)
		allocs[i], _ = testutil.Allocations(500, func() {
			if _, err := c.CallToolRaw(t.Context(), "s/x", args); err != nil {
				t.Error(err)
			}
		})
	}
	require.InDelta(t, allocs[0], allocs[1], 0.5)
}

// silentObserver does nothing.
type silentObserver struct{}

func (silentObserver) RequestStarted(ctx context.Context, _ monitor.RequestStart) (context.Context, []byte) {
	return ctx, nil
}

func (silentObserver) RequestEnded(context.Context, monitor.RequestEnd) {}

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

// A client without servers costs little to make. The first one of a process costs 3 MB
// more for a moment: it makes the prototype of the actor systems.
func TestNew_footprint(t *testing.T) {
	allocs, bytes := testutil.Allocations(20, func() {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
	})
	t.Logf("%.0f allocations, %.0f bytes", allocs, bytes)
	require.Less(t, allocs, 1000.0)
	require.Less(t, bytes, 100.0*1024)
}

package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
)

// The node that runs a server applies the settings of its tools, once, for callers on every node.
func TestRemote_tool_settings(t *testing.T) {
	w := newWorld(t)
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "search", InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{},"region":{}},"required":["region"]}`)}, {Name: "other"}}}
	settings := func(c *Config) {
		c.Resolve = func(name string, _ json.RawMessage) (mcpvisor.ServerSpec, error) {
			return mcpvisor.ServerSpec{Name: name, Stdio: mcptest.Stdio(script), ToolSettings: map[string]mcpvisor.ToolSetting{
				"search": {Name: "find", Fixed: map[string]json.RawMessage{"region": json.RawMessage(`"eu"`)}}}}, nil
		}
	}
	a := w.join("a", settings)
	b := w.join("b", settings, func(c *Config) { c.Labels = map[string]string{"on": "b"} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, []Server{{Name: "s", Labels: map[string]string{"on": "b"}, Definition: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s"))
	require.NoError(t, b.WaitReady(ctx, "s"))
	for _, n := range []*Node{a, b} {
		require.Equal(t, "b", nodeOf(n, "s"))
		require.Equal(t, []string{"s/find", "s/other"}, toolNames(n))
		status, _ := n.ServerStatus("s")
		require.Empty(t, status.Catalog.Warnings, n.ID())
		result, err := n.CallTool(ctx, "s/find", map[string]any{"q": "go"})
		require.NoError(t, err, n.ID())
		require.JSONEq(t, `{"q":"go","region":"eu"}`, schema.Text(result))
		_, err = n.CallTool(ctx, "s/find", map[string]any{"region": "us"})
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, n.ID())
		_, err = n.CallTool(ctx, "s/search", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool, n.ID())
	}
}

package facade_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// requireHidden checks that every way to call the tools fails before anything is sent.
func requireHidden(t *testing.T, c *facade.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		_, listed := c.Tool(name)
		require.False(t, listed, name)
		_, err := c.CallTool(t.Context(), name, nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool, name)
		require.ErrorContains(t, err, "hides the tool", name)
		require.ErrorContains(t, err, "ServerSpec.Tools", name)
		_, err = c.CallToolRaw(t.Context(), name, nil, facade.WithTimeout(time.Second))
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		require.False(t, e.Retryable())
		require.Equal(t, "s", e.Server)
		text := readAsModel(t, c.CallToolForModel(t.Context(), name, nil)).Fault.Message
		require.NotContains(t, text, "ServerSpec", "a model cannot change the configuration")
	}
}

func TestToolFilter_hidden_tool(t *testing.T) {
	filter := mcpvisor.ToolFilter{Deny: []string{"ec*", "crash_*"}, Allow: []string{"e*", "crash", "add_tool", "remove_tool"}}
	start := func(t *testing.T, spec mcpvisor.ServerSpec) *facade.Client {
		c := newClient(t)
		spec.Name, spec.Tools = "s", filter
		spec.InMemory = mcptest.InMemory(mcptest.Script{})
		require.NoError(t, c.Register(t.Context(), spec))
		return c
	}
	listed := func(c *facade.Client) (names []string) {
		for _, tool := range c.Tools() {
			names = append(names, tool.OriginalName)
		}
		return names
	}

	t.Run("is_neither_listed_nor_callable", func(t *testing.T) {
		c := start(t, mcpvisor.ServerSpec{})
		require.Equal(t, []string{"add_tool", "crash", "env", "remove_tool"}, listed(c))
		requireHidden(t, c, "s/echo", "mcp__s__echo", "s/pid")
		status, _ := c.ServerStatus("s")
		require.Equal(t, 4, status.Catalog.Tools)
		require.Equal(t, len(mcptest.DefaultTools())-4, status.Catalog.Hidden)
		require.Equal(t, []mcpvisor.Warning{{List: "tools", Text: `tool pattern "crash_*" matches no tool of this server`}}, status.Catalog.Warnings)
		require.NotEmpty(t, c.Resources())
		require.NotEmpty(t, c.Prompts())
		_, err := c.CallTool(t.Context(), "s/env", map[string]any{"name": "HOME"})
		require.NoError(t, err)
	})
	t.Run("is_not_suggested", func(t *testing.T) {
		c := start(t, mcpvisor.ServerSpec{})
		_, err := c.CallTool(t.Context(), "s/ecko_", nil)
		require.NotContains(t, err.Error(), "s/echo")
	})
	t.Run("stays_hidden_while_its_server_is_down_and_after_a_restart", func(t *testing.T) {
		c := start(t, mcpvisor.ServerSpec{Policy: supervisor.Retry(3, time.Hour)})
		events := c.Watch(t.Context())
		_, err := c.CallTool(t.Context(), "s/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		for e := range events {
			if e.Kind == mcpvisor.EventRetry {
				break
			}
		}
		requireHidden(t, c, "s/echo", "mcp__s__echo")
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.NoError(t, c.WaitReady(t.Context(), "s"))
		require.Len(t, c.Tools(), 4)
		requireHidden(t, c, "s/echo")
	})
	t.Run("stays_hidden_when_the_lists_change", func(t *testing.T) {
		c := start(t, mcpvisor.ServerSpec{})
		events := c.Watch(t.Context())
		for _, name := range []string{"echo2", "extra"} { // the filter denies one and allows the other
			_, err := c.CallTool(t.Context(), "s/add_tool", map[string]any{"name": name})
			require.NoError(t, err)
		}
		for e := range events {
			if e.Kind == mcpvisor.EventChanged {
				require.Equal(t, []string{"s/extra"}, e.Change.Tools.Added)
				break
			}
		}
		require.Contains(t, listed(c), "extra")
		requireHidden(t, c, "s/echo2")
		require.NoError(t, c.Refresh(t.Context(), "s"))
		requireHidden(t, c, "s/echo2", "s/echo")
	})
	t.Run("is_hidden_by_the_copy_of_the_spec", func(t *testing.T) {
		c := newClient(t)
		deny := []string{"echo"}
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}),
			Tools: mcpvisor.ToolFilter{Deny: deny}}))
		deny[0] = "pid"
		requireHidden(t, c, "s/echo")
	})
}

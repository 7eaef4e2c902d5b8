package facade_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// sticky returns a client with sticky tools and a server s that has crashed, after an event
// of the given kind. before is what was listed while s was ready.
func sticky(t *testing.T, policy supervisor.Policy, until mcpvisor.EventKind) (c *facade.Client, before []mcpvisor.Tool) {
	t.Helper()
	c = newClient(t, facade.WithStickyTools())
	events := c.Watch(t.Context(), until)
	tools := append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "say.again", As: "echo"})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: policy, InMemory: mcptest.InMemory(mcptest.Script{Tools: tools})}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "other", InMemory: mcptest.InMemory(mcptest.Script{})}))
	before = c.Tools()
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	<-events
	return c, before
}

func TestWithStickyTools_keeps_the_tools_of_a_server_that_is_down(t *testing.T) {
	c, before := sticky(t, supervisor.Retry(3, time.Hour), mcpvisor.EventRetry)
	during := c.Tools()
	require.Len(t, during, len(before))
	for i, tool := range during {
		require.Equal(t, tool.Server == "s", tool.Unavailable, tool.Name)
		require.Equal(t, before[i].Name, tool.Name)
		for _, name := range []string{tool.Name, tool.Alias} {
			found, ok := c.Tool(name)
			require.True(t, ok, name)
			require.Equal(t, tool, found)
		}
	}
	require.Equal(t, during, slices.Collect(c.AllTools()))
	for range c.AllTools() {
		break
	}
	wasGiven, _ := schema.List(before, schema.OpenAI)
	isGiven, _ := schema.List(during, schema.OpenAI)
	require.Equal(t, wasGiven, isGiven, "the model is given the same")

	_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	for _, unknown := range []string{"s/nothing", "nothing/echo", "mcp__nothing__echo", "nothing"} {
		_, ok := c.Tool(unknown)
		require.False(t, ok, unknown)
	}

	require.NoError(t, c.Restart(t.Context(), "s"))
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	require.Equal(t, before, c.Tools())
}

func TestWithStickyTools_drops_the_tools_of_a_server_that_does_not_return(t *testing.T) {
	onlyOther := func(t *testing.T, c *facade.Client) {
		t.Helper()
		require.NotEmpty(t, c.Tools())
		for _, tool := range c.Tools() {
			require.Equal(t, "other", tool.Server)
		}
		for _, name := range []string{"s/echo", "mcp__s__echo"} {
			_, ok := c.Tool(name)
			require.False(t, ok, name)
		}
	}
	t.Run("evicted", func(t *testing.T) {
		c, _ := sticky(t, supervisor.NoRetry(), mcpvisor.EventEvicted)
		onlyOther(t, c)
	})
	t.Run("unregistered", func(t *testing.T) {
		c, _ := sticky(t, supervisor.Retry(3, time.Hour), mcpvisor.EventRetry)
		require.NoError(t, c.Unregister(t.Context(), "s"))
		onlyOther(t, c)
		require.NoError(t, c.Close(context.Background()))
		require.Empty(t, c.Tools())
		require.NotNil(t, c.Tools())
	})
	t.Run("never_ready", func(t *testing.T) {
		c := newClient(t, facade.WithStickyTools())
		events := c.Watch(t.Context(), mcpvisor.EventRetry)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, Policy: supervisor.Retry(3, time.Hour),
			Stdio: mcptest.Stdio(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit}}})}))
		<-events
		require.Empty(t, c.Tools())
	})
}

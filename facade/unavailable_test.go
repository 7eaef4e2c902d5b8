package facade_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// crashed registers a server that has just crashed and is started again after wait. It
// returns the aliases of two of its tools: one plain, one with a hash.
func crashed(t *testing.T, wait time.Duration) (c *facade.Client, plain, hashed string) {
	t.Helper()
	c = newClient(t)
	events := c.Watch(t.Context())
	tools := append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "say.again", As: "echo"})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(3, wait),
		InMemory: mcptest.InMemory(mcptest.Script{Tools: tools})}))
	for name, alias := range map[string]*string{"s/echo": &plain, "s/say.again": &hashed} {
		tool, ok := c.Tool(name)
		require.True(t, ok)
		*alias = tool.Alias
	}
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	for e := range events {
		if e.Kind == mcpvisor.EventRetry {
			break
		}
	}
	return c, plain, hashed
}

// The tools of a server that is down are ErrUnavailable by name and by alias, and not
// ErrUnknownTool.
func TestCallTool_names_of_a_server_that_is_down(t *testing.T) {
	c, plain, hashed := crashed(t, time.Hour)
	for _, name := range []string{"s/echo", plain, hashed} {
		_, listed := c.Tool(name)
		require.False(t, listed, name)
		_, err := c.CallTool(t.Context(), name, nil)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e, name)
		require.ErrorIs(t, err, mcpvisor.ErrUnavailable, name)
		require.Equal(t, "s", e.Server)
		require.Greater(t, e.RetryAfter, time.Minute)
		res := c.CallToolForModel(t.Context(), name, nil)
		require.True(t, res.IsError)
		require.True(t, res.StructuredContent.(facade.ModelError).Retryable, name)
	}
	_, err := c.CallTool(t.Context(), "mcp__s__nonesuch", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable, "the tools are not known before the server is ready")
	_, err = c.CallTool(t.Context(), "mcp__other__echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
}

// The aliases of a registration end with it.
func TestCallTool_alias_after_Unregister(t *testing.T) {
	c, plain, hashed := crashed(t, time.Hour)
	require.NoError(t, c.Unregister(t.Context(), "s"))
	for _, name := range []string{plain, hashed} {
		_, err := c.CallTool(t.Context(), name, nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool, name)
	}
}

func TestErrTimeout_names_the_timeout(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}),
		Timeouts: mcpvisor.Timeouts{Call: -1, CallTotal: 40 * time.Millisecond}}))
	_, err := c.CallTool(t.Context(), "s/hang", nil)
	require.ErrorContains(t, err, "exceeded Timeouts.CallTotal (40ms)")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "idle", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err = c.CallTool(t.Context(), "idle/hang", nil, facade.WithTimeout(20*time.Millisecond))
	require.ErrorContains(t, err, "no result or progress for 20ms; raise Timeouts.Call, or set WithTimeout for the call")
}

func TestErrUnavailable_while_starting(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true,
		InMemory: mcptest.InMemory(mcptest.Script{StartDelay: time.Hour})}))
	_, err := c.CallTool(t.Context(), "s/echo", nil)
	require.ErrorContains(t, err, "it is still starting")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.CallTool(ctx, "s/echo", nil, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.ErrorContains(t, err, "the server is connecting")
}

// Text on stdout in place of answers is counted while the server is still starting.
func TestDiscarded_is_counted_while_starting(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true,
		InMemory: mcptest.InMemory(mcptest.Script{Faults: []mcptest.Fault{
			{At: mcptest.StageStart, Do: mcptest.ActionJunk, Count: 7, Text: "listening on port 80"},
			{At: mcptest.StageDiscover, Do: mcptest.ActionHang}}})}))
	require.Eventually(t, func() bool {
		st, ok := c.ServerStatus("s")
		require.True(t, ok)
		return st.State == supervisor.StateConnecting && st.Session != nil && st.Session.Discarded.Malformed == 7
	}, 30*time.Second, time.Millisecond)
}

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

// fallen registers a server that has just crashed and is due again after wait.
// One of its tools has a name that no plain alias can hold.
func fallen(t *testing.T, wait time.Duration) (c *facade.Client, plain, hashed string) {
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

// A server that is down keeps the names of its tools, whichever way they are
// written: an agent that knows aliases only must not hear that its tool never was.
func TestCallTool_names_of_a_server_that_is_down(t *testing.T) {
	c, plain, hashed := fallen(t, time.Hour)
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
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable, "nobody can know before it is back")
	_, err = c.CallTool(t.Context(), "mcp__other__echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
}

func TestWithWaitReady_accepts_aliases(t *testing.T) {
	c, plain, hashed := fallen(t, 50*time.Millisecond)
	for _, name := range []string{plain, hashed} {
		res, err := c.CallTool(t.Context(), name, map[string]any{"text": "back"}, facade.WithWaitReady())
		require.NoError(t, err, name)
		require.False(t, res.IsError)
	}
}

// The names of a registration end with it.
func TestCallTool_alias_after_Unregister(t *testing.T) {
	c, plain, hashed := fallen(t, time.Hour)
	require.NoError(t, c.Unregister(t.Context(), "s"))
	for _, name := range []string{plain, hashed} {
		_, err := c.CallTool(t.Context(), name, nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool, name)
	}
}

func TestCallTool_misspelt_name_has_hint(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "good", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err := c.CallTool(t.Context(), "mcp__good__ech", nil)
	require.ErrorContains(t, err, "did you mean mcp__good__echo")
	_, err = c.CallTool(t.Context(), "good/ech", nil)
	require.ErrorContains(t, err, "did you mean good/echo")
}

// After Close there is no server to know, and that is not the caller's mistake.
func TestClose_later_operations_are_ErrClosed(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.NoError(t, c.Close(t.Context()))
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"call":      func() error { _, err := c.CallTool(ctx, "s/echo", nil); return err },
		"alias":     func() error { _, err := c.CallTool(ctx, "mcp__s__echo", nil); return err },
		"wait":      func() error { _, err := c.CallTool(ctx, "s/echo", nil, facade.WithWaitReady()); return err },
		"raw":       func() error { _, err := c.CallToolRaw(ctx, "s/echo", nil); return err },
		"read":      func() error { _, err := c.ReadResource(ctx, "s", "x:y"); return err },
		"prompt":    func() error { _, err := c.GetPrompt(ctx, "s", "p", nil); return err },
		"subscribe": func() error { return c.Subscribe(ctx, "s", "x:y") },
		"level":     func() error { return c.SetLoggingLevel(ctx, "s", "info") },
		"refresh":   func() error { return c.Refresh(ctx, "s") },
		"restart":   func() error { return c.Restart(ctx, "s") },
		"ready":     func() error { return c.WaitReady(ctx, "s") },
	} {
		require.ErrorIs(t, do(), mcpvisor.ErrClosed, what)
	}
	require.Equal(t, "closed", c.CallToolForModel(ctx, "s/echo", nil).StructuredContent.(facade.ModelError).Code)
}

// A call that comes when the session is dead was never in flight.
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

func TestErrTimeout_names_the_timeout(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}),
		Timeouts: mcpvisor.Timeouts{Call: -1, CallTotal: 40 * time.Millisecond}}))
	_, err := c.CallTool(t.Context(), "s/hang", nil)
	require.ErrorContains(t, err, "it took 40ms, and Timeouts.CallTotal allows no more")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "idle", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err = c.CallTool(t.Context(), "idle/hang", nil, facade.WithTimeout(20*time.Millisecond))
	require.ErrorContains(t, err, "silent about it for 20ms; raise Timeouts.Call, or set WithTimeout for the call")
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

// A server that prints words where its answers should be is found out while it
// is still being waited for.
func TestDiscarded_is_counted_while_starting(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true,
		InMemory: mcptest.InMemory(mcptest.Script{Faults: []mcptest.Fault{
			{At: mcptest.StageStart, Do: mcptest.Junk, Count: 7, Text: "listening on port 80"},
			{At: mcptest.StageDiscoverRPC, Do: mcptest.Hang}}})}))
	require.Eventually(t, func() bool {
		st, ok := c.ServerStatus("s")
		require.True(t, ok)
		return st.State == supervisor.StateConnecting && st.Session != nil && st.Session.Discarded.Malformed == 7
	}, 30*time.Second, time.Millisecond)
}

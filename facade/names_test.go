package facade_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Suggestions have the form of the requested name. A bare name gets aliases for a model,
// which no provider lets use a slash.
func TestSuggestions_keep_the_form_of_the_name(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "fs", InMemory: mcptest.InMemory(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "echo"}, {Name: "list_directory", As: "echo"}}})})
	for asked, want := range map[string]struct{ program, model string }{
		"fs/ecko":               {"fs/echo", "fs/echo"},
		"fss/echo":              {"fs", "fs/echo"},
		"mcp__fs__ecko":         {"mcp__fs__echo", "mcp__fs__echo"},
		"mcp__fss__echo":        {"mcp__fs__echo", "mcp__fs__echo"},
		"echo":                  {"fs/echo", "mcp__fs__echo"},
		"ecko":                  {"fs/echo", "mcp__fs__echo"},
		"fs_echo":               {"fs/echo", "mcp__fs__echo"},
		"mcp_fs_list_directory": {"fs/list_directory", "mcp__fs__list_directory"},
		"list_dirctory":         {"fs/list_directory", "mcp__fs__list_directory"},
	} {
		t.Run(asked, func(t *testing.T) {
			_, err := c.CallTool(t.Context(), asked, nil)
			require.ErrorContains(t, err, "did you mean "+want.program+"?")
			text := readAsModel(t, c.CallToolForModel(t.Context(), asked, nil)).Fault.Message
			require.Equal(t, "There is no tool "+asked+". Did you mean "+want.model+"?", text)
		})
	}
}

// The search for similar names is bounded, however long the names are, and what it says is short.
func TestSuggestions_for_long_names_are_bounded(t *testing.T) {
	long := strings.Repeat("x", 900)
	tools := make([]mcptest.ToolDef, 2000)
	for i := range tools {
		tools[i] = mcptest.ToolDef{Name: fmt.Sprintf("%s%05d", long, i*37), As: "echo"}
	}
	c := registered(t, mcpvisor.ServerSpec{Name: "big", InMemory: mcptest.InMemory(mcptest.Script{Tools: tools})})
	_, err := c.CallTool(t.Context(), "big/"+long+"?????", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	text := readAsModel(t, c.CallToolForModel(t.Context(), "mcp__big__"+long+"?????", nil)).Fault.Message
	require.Less(t, len(text), 300, "the name is quoted in part")
}

func TestClient_misspelt_server_has_hint(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "good", InMemory: mcptest.InMemory(mcptest.Script{})}))
	for op, err := range map[string]error{"restart": c.Restart(ctx, "god"), "unregister": c.Unregister(ctx, "god"), "fence": c.Fence(ctx, "god", ""), "wait for": c.WaitReady(ctx, "god")} {
		require.ErrorIs(t, err, mcpvisor.ErrUnknownServer, op)
		require.ErrorContains(t, err, "did you mean good?", op)
	}
	require.EqualError(t, c.Restart(ctx, "zzzzzzzz"), "restart zzzzzzzz: unknown server")
}

// A bare name that several servers have is not the first one's.
func TestSuggestions_name_all_servers_that_have_the_tool(t *testing.T) {
	c := newClient(t)
	var names, aliases []string
	for i := range 12 {
		name := fmt.Sprintf("s%02d", i)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}}})}))
		names, aliases = append(names, name+"/echo"), append(aliases, mcpvisor.Alias(name, "echo"))
		if i == 1 {
			_, err := c.CallTool(t.Context(), "echo", nil)
			require.ErrorContains(t, err, "did you mean s00/echo, s01/echo?")
		}
	}
	_, err := c.CallTool(t.Context(), "echo", nil)
	const more = ", or that of 2 more servers?"
	require.ErrorContains(t, err, "did you mean "+strings.Join(names[:10], ", ")+more)
	require.Equal(t, "There is no tool echo. Did you mean "+strings.Join(aliases[:10], ", ")+more,
		readAsModel(t, c.CallToolForModel(t.Context(), "echo", nil)).Fault.Message)
}

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

func TestErrUnavailable_while_starting(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", StartSupervised: true,
		InMemory: mcptest.InMemory(mcptest.Script{StartDelay: time.Hour})})
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
	c := registered(t, mcpvisor.ServerSpec{Name: "s", StartSupervised: true,
		InMemory: mcptest.InMemory(mcptest.Script{Faults: []mcptest.Fault{
			{At: mcptest.StageStart, Do: mcptest.ActionJunk, Count: 7, Text: "listening on port 80"},
			{At: mcptest.StageDiscover, Do: mcptest.ActionHang}}})})
	require.Eventually(t, func() bool {
		st, ok := c.ServerStatus("s")
		require.True(t, ok)
		return st.State == supervisor.StateConnecting && st.Session != nil && st.Session.Discarded.Malformed == 7
	}, 30*time.Second, time.Millisecond)
}

func TestErrTimeout_names_the_timeout(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}),
		Timeouts: mcpvisor.Timeouts{Call: -1, CallTotal: 40 * time.Millisecond}})
	_, err := c.CallTool(t.Context(), "s/hang", nil)
	require.ErrorContains(t, err, "exceeded Timeouts.CallTotal (40ms)")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "idle", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err = c.CallTool(t.Context(), "idle/hang", nil, facade.WithTimeout(20*time.Millisecond))
	require.ErrorContains(t, err, "no result or progress for 20ms; raise Timeouts.Call, or set WithTimeout for the call")
}

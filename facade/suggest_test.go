package facade_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Suggestions have the form of the requested name. A bare name gets aliases for a model,
// which no provider lets use a slash.
func TestSuggestions_keep_the_form_of_the_name(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "fs", InMemory: mcptest.InMemory(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "echo"}, {Name: "list_directory", As: "echo"}}})}))
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
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "big", InMemory: mcptest.InMemory(mcptest.Script{Tools: tools})}))
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

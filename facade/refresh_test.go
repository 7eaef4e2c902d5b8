package facade_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// A tool that a server adds or removes is listed or unlisted in one step, also after a
// restart.
func TestListChanged_on_every_transport(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		changes := watch(t, c, mcpvisor.EventChanged)
		require.NoError(t, c.Register(t.Context(), spec))
		before := len(c.Tools())
		for round := range 2 {
			call(t, c, "s/add_tool", map[string]any{"name": "fresh"})
			e := next(t, changes)
			require.Equal(t, mcpvisor.Delta{Added: []string{"s/fresh"}}, e.Change.Tools)
			require.Equal(t, before+1, e.Tools)
			require.True(t, lists(c, "s/fresh"))
			call(t, c, "s/fresh", nil)

			call(t, c, "s/remove_tool", map[string]any{"name": "fresh"})
			require.Equal(t, mcpvisor.Delta{Removed: []string{"s/fresh"}}, next(t, changes).Change.Tools)
			require.False(t, lists(c, "s/fresh"))
			if round == 0 {
				require.NoError(t, c.Restart(t.Context(), "s"))
				require.NoError(t, c.WaitReady(t.Context(), "s"))
			}
		}
	})
}

// A thousand announcements cause few readings of the list.
func TestListChanged_flood_is_coalesced(t *testing.T) {
	var listed, added atomic.Int64
	const announcements = 1000
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		switch method {
		case "initialize":
			return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			listed.Add(1)
			return fmt.Sprintf(`{"tools":[{"name":"x","inputSchema":{"type":"object"}},{"name":"n%d","inputSchema":{"type":"object"}}]}`, added.Load())
		case "tools/call":
			added.Add(1)
			return `{"content":[]}}` + "\n" + strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n", announcements/10) + `{"x":1`
		}
		return ""
	})}))
	before := listed.Load()
	for range 10 {
		call(t, c, "s/x", nil)
	}
	require.Eventually(t, func() bool { return lists(c, "s/n10") }, 20*time.Second, time.Millisecond, "the listing equals that of the server in the end")
	require.LessOrEqual(t, listed.Load()-before, int64(10))
}

func TestRefresh(t *testing.T) {
	c := newClient(t)
	var tool atomic.Value
	tool.Store("old")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		if method == "tools/list" {
			switch name := tool.Load().(string); name {
			case "broken":
				return `"no list"`
			default:
				return `{"tools":[{"name":"` + name + `"}]}`
			}
		}
		return ""
	})}))
	tool.Store("new")
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.True(t, lists(c, "s/new") && !lists(c, "s/old"))
	tool.Store("broken")
	require.NoError(t, c.Refresh(t.Context(), "s"), "the other lists were read")
	require.True(t, lists(c, "s/new"), "a list that cannot be read stays as it is")
	tool.Store("newer")
	require.Eventually(t, func() bool { return lists(c, "s/newer") }, 20*time.Second, 5*time.Millisecond, "it is tried again")

	require.ErrorIs(t, c.Refresh(t.Context(), "unknown"), mcpvisor.ErrUnknownServer)
}

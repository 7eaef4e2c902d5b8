package facade_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest/raw"
)

func TestSetRoots(t *testing.T) {
	c := legacyServer(t, facade.WithRoots(mcp.Root{URI: "file:///a", Name: "A"}))
	require.JSONEq(t, `{"roots":[{"uri":"file:///a","name":"A"}]}`, sendServerRequest(t, c, "roots/list", `{}`))
	require.NoError(t, c.SetRoots())
	require.JSONEq(t, `{"roots":[]}`, sendServerRequest(t, c, "roots/list", `{}`))
	require.ErrorIs(t, c.SetRoots(mcp.Root{URI: "https://example.org"}), mcpvisor.ErrInvalid)
	require.JSONEq(t, `{"roots":[]}`, sendServerRequest(t, c, "roots/list", `{}`))

	_, err := facade.New(facade.WithRoots(mcp.Root{URI: "/home"}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorIs(t, newClient(t).SetRoots(), mcpvisor.ErrInvalid)
}

// A legacy server over HTTP is notified once for each change.
func TestSetRoots_notifies_legacy_servers(t *testing.T) {
	notified := make(chan string, 10)
	server := overHTTP(t, &raw.Server{Answer: func(m *raw.Message) string {
		if strings.Contains(string(m.Text), "roots/list_changed") {
			notified <- string(m.Text)
		}
		return ""
	}})
	c := newClient(t, facade.WithRoots())
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: server}))
	require.NoError(t, c.SetRoots(mcp.Root{URI: "file:///a"}))
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, <-notified)
}

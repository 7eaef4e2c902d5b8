package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
)

// The commands know servers behind WebSockets, and say what is wrong with one. Package websocket tests calls.
func TestCommands_with_a_WebSocket(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) }))
	defer s.Close()
	t.Setenv("SOCKET_TOKEN", "a-secret-token-0123456789")
	path := serversFile(t, map[string]any{"locked": map[string]any{"url": strings.Replace(s.URL, "http", "ws", 1), "retry": "none",
		"headers": map[string]any{"Authorization": "Bearer ${SOCKET_TOKEN}"}}})
	for command, want := range map[string]string{"status": `locked +\S+ +ws .*HTTP 401 Unauthorized`, "doctor": `put valid credentials into "headers"`} {
		out, code := runTool(t, "-c", path, command)
		require.Equal(t, cli.ExitUnavailable, code, out)
		require.Regexp(t, want, out)
		require.NotContains(t, out, "a-secret-token")
		require.NotContains(t, out, `"env"`)
	}
}

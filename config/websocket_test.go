package config

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

// webSockets is an option, and what its function was given.
func webSockets() (Option, *[]WebSocket) {
	var given []WebSocket
	return WithWebSocket(func(w WebSocket) *mcpvisor.Transport {
		given = append(given, w)
		return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return nil, errors.New("nothing is at " + w.URL) }}
	}), &given
}

func parseWebSocket(t *testing.T, members string, opts ...Option) *File {
	t.Helper()
	f, err := Parse([]byte(`{"mcpServers": {"s": {`+members+`}}}`), "mcp.json", append(opts, WithLookup(func(name string) (string, bool) {
		return map[string]string{"TOKEN": "a-secret-token-0123456789"}[name], name == "TOKEN"
	}))...)
	require.NoError(t, err)
	return f
}

func TestType_ws(t *testing.T) {
	for _, members := range []string{`"type": "ws", `, `"type": "WebSocket", `, `"transport": "web-socket", `, ``} {
		option, given := webSockets()
		f := parseWebSocket(t, members+`"url": "wss://user:pass-word-1@h.example/mcp?key=${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}, "limits": {"max_message_bytes": 5000}, "retry": 7`, option)
		require.Empty(t, f.Problems, members)
		spec := f.Servers[0].Spec
		require.NoError(t, spec.Validate())
		require.Equal(t, []WebSocket{{URL: "wss://user:pass-word-1@h.example/mcp?key=a-secret-token-0123456789",
			Headers: map[string]string{"Authorization": "Bearer a-secret-token-0123456789"}, MaxMessageBytes: 5000}}, *given)
		require.Nil(t, spec.HTTP)
		require.Equal(t, "ws", spec.TransportKind())
		require.Equal(t, "wss://h.example/mcp", spec.Target())
		require.Contains(t, spec.Secrets, "a-secret-token-0123456789")
		require.Contains(t, spec.Secrets, "pass-word-1")
		require.Equal(t, 7, spec.Policy.MaxAttempts)
	}
	option, given := webSockets()
	require.Empty(t, parseWebSocket(t, `"type": "ws", "url": "ws://h"`, option).Problems)
	require.Equal(t, defaults.MaxMessageBytes, (*given)[0].MaxMessageBytes)
}

// Reading a file again gives equal specs, so that a reload does not start servers again.
func TestType_ws_equal_entries(t *testing.T) {
	option, given := webSockets()
	read := func(members string) mcpvisor.ServerSpec {
		return parseWebSocket(t, `"type": "ws", "url": "ws://h/mcp", `+members, option).Servers[0].Spec
	}
	first := read(`"headers": {"A": "1", "B": "2"}`)
	require.True(t, first.Equal(read(`"headers": {"B": "2", "A": "1"}`)))
	require.Len(t, *given, 1)
	require.False(t, first.Equal(read(`"headers": {"A": "1"}`)))
	require.False(t, first.Equal(read(`"limits": {"max_message_bytes": 5000}, "headers": {"A": "1", "B": "2"}`)))
}

func TestType_ws_rejected(t *testing.T) {
	option, _ := webSockets()
	for members, says := range map[string]string{
		`"type": "ws"`:                                           `has type "ws" and no "url"; give the address`,
		`"type": "ws", "command": "x"`:                           `has type "ws" and no "url"`,
		`"type": "ws", "url": "ws://h", "command": "x"`:          `has both "command" and "url"`,
		`"type": "ws", "url": "https://h/mcp"`:                   `must begin with ws:// or wss://`,
		`"type": "ws", "url": "ws:///mcp"`:                       `name a host`,
		`"type": "ws", "url": "ws://h:x"`:                        `cannot be parsed`,
		`"type": "ws", "url": "ws://h", "auth": true`:            `has "auth", which is for HTTP and not for WebSockets`,
		`"type": "ws", "url": "ws://h", "headers": {"a b": "c"}`: `cannot be reached: header "a b" is not usable`,
		`"type": "http", "url": "ws://h"`:                        `URL must begin with http:// or https://`,
		`"type": "sse", "url": "wss://h"`:                        `URL must begin with http:// or https://`,
	} {
		f := parseWebSocket(t, members, option)
		require.Empty(t, f.Servers, members)
		require.Len(t, f.Problems, 1, members)
		require.Contains(t, f.Problems[0].String(), says)
	}
	for _, opts := range [][]Option{nil, {WithWebSocket(nil)}} {
		f := parseWebSocket(t, `"type": "ws", "url": "ws://h?key=${TOKEN}"`, opts...)
		require.Empty(t, f.Servers)
		require.Contains(t, f.Problems[0].String(), "which this program does not reach")
		require.NotContains(t, f.Problems[0].String(), "a-secret-token")
	}
	f := parseWebSocket(t, `"type": "ws", "url": "ws://h"`, WithWebSocket(func(WebSocket) *mcpvisor.Transport { return nil }))
	require.Contains(t, f.Problems[0].String(), "returned no transport")
}

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// acceptedSocket is a connection of the go-sdk over a WebSocket that was accepted.
type acceptedSocket struct{ ws *websocket.Conn }

func (a acceptedSocket) Connect(context.Context) (mcp.Connection, error) { return a, nil }

func (a acceptedSocket) Read(ctx context.Context) (jsonrpc.Message, error) {
	_, text, err := a.ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(text)
}

func (a acceptedSocket) Write(ctx context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return a.ws.Write(ctx, websocket.MessageText, text)
}

func (a acceptedSocket) Close() error { return a.ws.CloseNow() }

func (acceptedSocket) SessionID() string { return "" }

// The commands know servers behind WebSockets, and say what is wrong with one.
func TestCommands_with_a_WebSocket(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "hello"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "from a socket"}}}, nil, nil
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a-secret-token-0123456789" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}})
		if err != nil {
			return
		}
		if session, err := m.Connect(r.Context(), acceptedSocket{ws}, nil); err == nil {
			_ = session.Wait()
		}
	}))
	defer s.Close()
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	t.Setenv("SOCKET_TOKEN", "a-secret-token-0123456789")
	address := strings.Replace(s.URL, "http", "ws", 1)
	file := filepath.Join(t.TempDir(), "c.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"live":   map[string]any{"type": "ws", "url": address, "headers": map[string]any{"Authorization": "Bearer ${SOCKET_TOKEN}"}},
		"locked": map[string]any{"url": address, "retry": "none"}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	command := func(args ...string) (code int, output string) {
		var out, errs strings.Builder
		code = run(t.Context(), append([]string{"--config", file}, args...), strings.NewReader(""), &out, &errs)
		require.NotContains(t, out.String()+errs.String(), "a-secret-token")
		return code, out.String() + errs.String()
	}
	code, output := command("call", "live/hello")
	require.Zero(t, code, output)
	require.Contains(t, output, "from a socket")
	code, output = command("tools", "live")
	require.Zero(t, code, output)
	require.Contains(t, output, "hello")
	code, output = command("status")
	require.Equal(t, 3, code, output)
	require.Contains(t, output, "HTTP 401 Unauthorized")
	require.Regexp(t, `live +ready +ws `, output)
	code, output = command("doctor")
	require.Equal(t, 3, code, output)
	require.Contains(t, output, `put valid credentials into "headers"`)
	require.NotContains(t, output, `"env"`)
}

package websocket

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-secret-token-0123456789"

// server is a server of the go-sdk behind WebSockets.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	conns []*websocket.Conn
	heads []http.Header
}

// accepted is the transport of a server over a WebSocket that was accepted.
type accepted struct{ ws *websocket.Conn }

func (a accepted) Connect(context.Context) (mcp.Connection, error) { return connection(a), nil }

func newServer(t *testing.T) *server {
	t.Helper()
	m := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	type text struct {
		Text string `json:"text"`
	}
	mcp.AddTool(m, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a text) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	mcp.AddTool(m, &mcp.Tool{Name: "hang"}, func(ctx context.Context, request *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		_ = request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: 1})
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	s := new(server)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
		if err != nil {
			return
		}
		ws.SetReadLimit(1 << 20)
		s.mu.Lock()
		s.conns, s.heads = append(s.conns, ws), append(s.heads, r.Header)
		s.mu.Unlock()
		if session, err := m.Connect(r.Context(), accepted{ws}, nil); err == nil {
			_ = session.Wait()
		}
	}))
	t.Cleanup(func() {
		s.drop()
		s.Close()
	})
	return s
}

// drop cuts all connections, as a crash does.
func (s *server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ws := range s.conns {
		_ = ws.CloseNow()
	}
	s.conns = nil
}

// load reads a file with one entry, as the command does.
func load(t *testing.T, url string, more map[string]any) mcpvisor.ServerSpec {
	t.Helper()
	entry := map[string]any{"type": "ws", "url": url + "/mcp?key=${TOKEN}", "headers": map[string]any{"Authorization": "Bearer ${TOKEN}", "X-Team": "blue"}, "retry": map[string]any{"base": "10ms", "max_attempts": 5}}
	for key, value := range more {
		entry[key] = value
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"remote": entry}})
	require.NoError(t, err)
	f, err := config.Parse(text, "mcp.json", Option, config.WithLookup(func(name string) (string, bool) { return token, name == "TOKEN" }))
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	return f.Specs()[0]
}

func newClient(t *testing.T, spec mcpvisor.ServerSpec) *facade.Client {
	t.Helper()
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Register(t.Context(), spec))
	return c
}

// A server of a file is called, cut off in a call, and reached again with its headers.
func TestServer_behind_a_WebSocket(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a test that fails ends
	defer cancel()
	s := newServer(t)
	c := newClient(t, load(t, strings.Replace(s.URL, "http", "ws", 1), nil))
	require.NoError(t, c.WaitReady(ctx, "remote"))
	for range 3 {
		result, err := c.CallTool(ctx, "remote/echo", map[string]any{"text": strings.Repeat("hello ", 20_000)}, facade.WithWaitReady())
		require.NoError(t, err)
		require.Len(t, result.Content[0].(*mcp.TextContent).Text, 120_000)
		events := c.Watch(ctx, mcpvisor.EventDown)
		failed, working := make(chan error, 1), make(chan struct{}, 1)
		go func() {
			_, err := c.CallTool(ctx, "remote/hang", nil,
				facade.WithProgress(func(mcpvisor.Progress) { working <- struct{}{} })) // the server has the call
			failed <- err
		}()
		select {
		case <-working:
		case err := <-failed:
			require.NoError(t, err, "the call ended before its server did")
		}
		s.drop()
		err = <-failed
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.NotContains(t, err.Error(), token)
		require.NotContains(t, (<-events).String(), token)
	}
	require.NoError(t, c.WaitReady(ctx, "remote"))
	status, _ := c.ServerStatus("remote")
	require.Equal(t, strings.Replace(s.URL, "http", "ws", 1)+"/mcp", status.Target)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.GreaterOrEqual(t, len(s.heads), 4)
	for _, head := range s.heads {
		require.Equal(t, "Bearer "+token, head.Get("Authorization"))
		require.Equal(t, "blue", head.Get("X-Team"))
	}
}

// Why a server is not reached is told, without its secrets.
func TestServer_that_is_not_reached(t *testing.T) {
	var elsewhere sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere.Store(r.URL.Path, true) }))
	defer other.Close()
	upgraded := func(behave func(context.Context, *websocket.Conn)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
			if err != nil {
				return
			}
			defer func() { _ = ws.CloseNow() }()
			behave(r.Context(), ws)
		}
	}
	send := func(text string) http.HandlerFunc {
		return upgraded(func(ctx context.Context, ws *websocket.Conn) {
			_ = ws.Write(ctx, websocket.MessageText, []byte(text))
			_, _, _ = ws.Read(ctx)
			_, _, _ = ws.Read(ctx)
		})
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL+"/stolen")
			http.Error(w, "echo: "+token, code)
		}
	}
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		kind    supervisor.CauseKind
		says    string
	}{
		"unauthorized": {status(401), supervisor.CauseAuth, "put valid credentials into \"headers\""},
		"forbidden":    {status(403), supervisor.CauseAuth, "HTTP 403 Forbidden"},
		"not found":    {status(404), supervisor.CauseHandshake, "check that the address is that of a WebSocket"},
		"redirect":     {status(307), supervisor.CauseConfig, "a redirect is not followed"},
		"unavailable":  {status(503), supervisor.CauseHandshake, "HTTP 503"},
		"no WebSocket": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, supervisor.CauseHandshake, "HTTP 200"},
		"large head":   {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, supervisor.CauseSpawn, "could not be opened"},
		"no key": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Sec-WebSocket-Accept", strings.Repeat(token, 1000))
			w.WriteHeader(101)
		}, supervisor.CauseHandshake, "and not as a WebSocket does"},
		"no JSON":      {send("hello " + token), supervisor.CauseClosed, "something other than one JSON-RPC message"},
		"long message": {send(`"` + strings.Repeat("x", 300_000) + `"`), supervisor.CauseClosed, "read limited at 200001 bytes"},
		"closes": {upgraded(func(_ context.Context, ws *websocket.Conn) {
			_ = ws.Close(websocket.StatusPolicyViolation, "go away\x1b[31m "+token)
		}), supervisor.CauseClosed, "status 1008: go away"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(row.handler)
			defer s.Close()
			c := newClient(t, load(t, strings.Replace(s.URL, "http", "ws", 1), map[string]any{"retry": "none", "limits": map[string]any{"max_message_bytes": 200_000}}))
			require.Error(t, c.WaitReady(t.Context(), "remote"))
			status, _ := c.ServerStatus("remote")
			require.NotNil(t, status.LastCause)
			require.Contains(t, status.LastCause.Message, row.says)
			require.Equal(t, row.kind, status.LastCause.Kind, status.LastCause.Message)
			text, err := json.Marshal(status)
			require.NoError(t, err)
			require.NotContains(t, string(text), token)
			require.NotContains(t, status.LastCause.Error(), token)
			require.NotContains(t, status.LastCause.Message, "\x1b")
		})
	}
	_, followed := elsewhere.Load("/stolen")
	require.False(t, followed, "the headers went to another address")

	closed := httptest.NewServer(nil)
	closed.Close()
	c := newClient(t, load(t, strings.Replace(closed.URL, "http", "ws", 1), map[string]any{"retry": "none"}))
	require.Error(t, c.WaitReady(t.Context(), "remote"))
	status2, _ := c.ServerStatus("remote")
	require.Equal(t, supervisor.CauseSpawn, status2.LastCause.Kind)
	require.Contains(t, status2.LastCause.Message, "connection refused")
	require.NotContains(t, status2.LastCause.Error(), token)
}

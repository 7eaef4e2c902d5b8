package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
)

// While the servers start, requests wait whose tokens are not checked: there is a most of them. A page can read that
// there are too many, and what no server is needed for is answered at once.
func TestMCPServer_waits_for_starts(t *testing.T) {
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	started := make(chan struct{})
	s := &mcpServer{Server: gateway.Handler(c, gateway.WithTokens(), gateway.WithOrigins("http://localhost:6274")), started: started, stop: func() {}, waiting: make(chan struct{}, 2)}
	t.Cleanup(s.Server.Close)
	askFrom := func(method, origin string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/mcp", nil)
		r.Header.Set("Origin", origin)
		s.ServeHTTP(w, r)
		return w
	}
	ask := func() int {
		w := askFrom(http.MethodPut, "http://localhost:6274")
		require.Equal(t, "http://localhost:6274", w.Header().Get("Access-Control-Allow-Origin"))
		return w.Code
	}
	require.Equal(t, http.StatusNoContent, askFrom(http.MethodOptions, "http://localhost:6274").Code)
	require.Equal(t, http.StatusForbidden, askFrom(http.MethodPost, "http://evil.example").Code)
	var waiting sync.WaitGroup
	served := make(chan int, 2)
	for range 2 {
		s.waiting <- struct{}{} // stands for a request that waits
	}
	require.Equal(t, http.StatusServiceUnavailable, ask())
	for range 2 {
		<-s.waiting
		waiting.Go(func() { served <- ask() })
	}
	close(started)
	waiting.Wait()
	require.NotEqual(t, http.StatusServiceUnavailable, <-served)
	require.NotEqual(t, http.StatusServiceUnavailable, <-served)
	require.Empty(t, s.waiting)
}

// The path of the MCP server may end with a slash, as many write it; any other path says where the server is.
func TestEndpoint_paths(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("mcp " + r.PathValue(gateway.ProfilePath)))
	})
	for path, want := range map[string]string{"/mcp": "mcp ", "/mcp/": "mcp ", "/mcp/review": "mcp review", "/": "the MCP server is at /mcp", "/sse": "the MCP server is at /mcp"} {
		w := httptest.NewRecorder()
		new(endpoint).atPath(served, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, nil))
		require.Contains(t, w.Body.String(), want, path)
	}
}

// What is sealed for one configuration of a user is not valid for another; the nodes of a fleet have one key.
func TestKeyOf(t *testing.T) {
	key := make([]byte, 32)
	of := func(name string) string {
		made, err := keyOf(key, cli.Sources{Key: name})
		require.NoError(t, err)
		require.Len(t, made, len(key))
		return string(made)
	}
	require.NotEqual(t, of("a.json"), of("b.json"))
	require.NotEqual(t, string(key), of("a.json"))
	require.Equal(t, of("a.json"), of("./a.json"))
	require.Equal(t, of("fleet:a"), of("fleet:b"))
}

// The bounds of a file are those of the gateway, in bytes.
func TestSettingsOf_bounds(t *testing.T) {
	file, err := config.Parse([]byte(`{"servers": {}, "gateway": {"max_held_mib": 4096, "max_held_mib_per_principal": 16}}`), "mcp.json")
	require.NoError(t, err)
	require.Empty(t, file.Problems)
	s := settingsOf(file)
	require.Equal(t, []int64{4 << 30, 16 << 20}, []int64{s.MaxHeldByAll, s.MaxHeldByPrincipal})
}

// What no browser sends, or every web page could use, is refused before anything is served.
func TestListenMCP_origins_and_hosts(t *testing.T) {
	for _, cmd := range []Serving{
		{MCP: "127.0.0.1:0", MCPOrigins: []string{"http://localhost:1", "*"}}, {MCP: "127.0.0.1:0", MCPHosts: []string{"*.example.com"}},
		{MCPOrigins: []string{"http://localhost:1"}}, {MCPHosts: []string{"a"}},
	} {
		_, err := cmd.listenMCP(cli.Sources{})
		require.ErrorContains(t, err, "--mcp-")
	}
}

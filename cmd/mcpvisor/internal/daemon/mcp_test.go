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

// While the servers start, requests wait whose tokens are not checked: there is a most of them.
func TestMCPServer_waits_for_starts(t *testing.T) {
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	started := make(chan struct{})
	s := &mcpServer{Server: gateway.Handler(c), started: started, stop: func() {}, waiting: make(chan struct{}, 2)}
	t.Cleanup(s.Server.Close)
	ask := func() int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1/mcp", nil))
		return w.Code
	}
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

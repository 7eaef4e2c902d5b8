package facade_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// workingSSE starts a server over HTTP+SSE that counts its calls, answers them on its
// stream, and ends their POST requests with the given status.
func workingSSE(t *testing.T, status int) (url string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	var mu sync.Mutex
	var stream chan string // of the session that was opened last
	quit := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			mine := make(chan string, 16)
			mu.Lock()
			stream = mine
			mu.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			text := "event: endpoint\ndata: /messages?s=1\n\n"
			for {
				_, _ = io.WriteString(w, text)
				w.(http.Flusher).Flush()
				select {
				case text = <-mine:
				case <-r.Context().Done():
					return
				case <-quit:
					return
				}
			}
		}
		body, _ := io.ReadAll(r.Body)
		var m incoming
		if json.Unmarshal(body, &m) != nil || r.URL.Path != "/messages" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		code, result := http.StatusAccepted, `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			calls.Add(1)
			code, result = status, `{"content":[]}`
		}
		if m.ID != nil {
			mu.Lock()
			out := stream
			mu.Unlock()
			select {
			case out <- fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, result):
			case <-quit:
			}
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(func() {
		close(quit)
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/sse", calls
}

// A call that the server has executed is not repeated although its POST ended with an
// empty 404. The client may read the answer or the 404 first, so there are many calls.
func TestWithWaitReady_runs_a_call_once_over_SSE(t *testing.T) {
	url, calls := workingSSE(t, http.StatusNotFound)
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "old", Policy: supervisor.Retry(100, time.Millisecond), HTTP: &mcpvisor.HTTP{URL: url, SSE: true}}))
	for call := range 20 {
		before := calls.Load()
		_, err := c.CallTool(t.Context(), "old/pay", map[string]any{}, facade.WithWaitReady())
		require.LessOrEqual(t, calls.Load()-before, int32(1), "call %d ran twice (%v)", call, err)
	}
}

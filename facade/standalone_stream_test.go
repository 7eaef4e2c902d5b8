package facade_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/raw"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// cutServer is a server of 2025-11-25 whose standalone stream can be cut, as proxies do.
// What it announces meanwhile reaches no client.
type cutServer struct {
	mu      sync.Mutex
	tool    string
	streams int
	cut     chan struct{}
	ids     bool // its streams can be resumed
}

// answer is that of the raw server.
func (s *cutServer) answer(m *raw.Message) string {
	switch m.Method {
	case http.MethodGet:
		s.stream(m.W, m.R)
		return raw.None
	case "initialize":
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"raw","version":"1"}}`
	case "tools/list":
		s.mu.Lock()
		defer s.mu.Unlock()
		return `"result":{"tools":[{"name":"` + s.tool + `","inputSchema":{"type":"object"}}]}`
	}
	return rawMembers(m)
}

func (s *cutServer) stream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.streams++
	first := s.streams == 1
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	if s.ids {
		_, _ = fmt.Fprint(w, "id: 1\ndata: \n\n")
		if r.Header.Get("Last-Event-ID") == "1" { // the event that the client missed
			_, _ = fmt.Fprint(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"x:missed\"}}\n\n")
		}
	}
	_ = http.NewResponseController(w).Flush()
	if first {
		<-s.cut
		return
	}
	<-r.Context().Done()
}

func (s *cutServer) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tool = "new"
	close(s.cut)
}

func TestStandaloneStream_refreshes_after_a_gap(t *testing.T) {
	s := &cutServer{tool: "old", cut: make(chan struct{})}
	web := overHTTP(t, &raw.Server{Session: "one", Answer: s.answer})
	c := newClient(t)
	updates := watch(t, c, mcpvisor.EventResourceUpdated)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: web, Policy: supervisor.Retry(3, time.Millisecond)}))
	require.NoError(t, c.Subscribe(t.Context(), "s", "x:a"))
	s.lose()
	require.Equal(t, "x:a", next(t, updates).URI, "it counts as updated")
	require.Eventually(t, func() bool { return lists(c, "s/new") }, 20*time.Second, time.Millisecond)
}

// A stream that is resumed where it was cut has no gap.
func TestStandaloneStream_resumed_by_event_id(t *testing.T) {
	s := &cutServer{tool: "old", cut: make(chan struct{}), ids: true}
	web := overHTTP(t, &raw.Server{Session: "one", Answer: s.answer})
	c := newClient(t)
	updates := watch(t, c, mcpvisor.EventResourceUpdated)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: web, Policy: supervisor.Retry(3, time.Millisecond)}))
	require.NoError(t, c.Subscribe(t.Context(), "s", "x:a"))
	s.lose()
	require.Equal(t, "x:missed", next(t, updates).URI)
	require.Empty(t, updates)
}

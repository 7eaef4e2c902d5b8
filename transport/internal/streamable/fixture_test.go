package streamable

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// scripted is a legacy MCP server over HTTP, of which each part can be
// replaced by something hostile.
type scripted struct {
	*httptest.Server
	session string // Mcp-Session-Id; "" for none

	mu   sync.Mutex
	seen []seenRequest
	// on replaces the reply to a JSON-RPC method, or to "GET" and "DELETE".
	on map[string]func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
	// quit is closed before the server is, so that handlers that hang may end.
	quit chan struct{}
}

type seenRequest struct {
	what   string
	header http.Header
	body   string
	host   string
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	checkLeaks(t)
	s := &scripted{session: "session-1", quit: make(chan struct{}),
		on: make(map[string]func(http.ResponseWriter, *http.Request, json.RawMessage))}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		close(s.quit)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// checkLeaks fails the test if a goroutine that it started outlives it. Call
// it first: cleanups run in reverse order.
func checkLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func (s *scripted) handle(what string, f func(w http.ResponseWriter, r *http.Request, id json.RawMessage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[what] = f
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	what := r.Method
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if r.Method == http.MethodPost {
		_ = json.Unmarshal(body, &m)
		what = m.Method
	}
	s.mu.Lock()
	s.seen = append(s.seen, seenRequest{what: what, header: r.Header.Clone(), body: string(body), host: r.Host})
	f := s.on[what]
	s.mu.Unlock()
	if f != nil {
		f(w, r, m.ID)
		return
	}
	switch what {
	case "server/discover":
		sayError(w, m.ID, -32601, "method not found")
	case "initialize":
		if s.session != "" {
			w.Header().Set("Mcp-Session-Id", s.session)
		}
		sayResult(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"7"},"instructions":"be kind"}`)
	case "GET":
		w.WriteHeader(http.StatusMethodNotAllowed)
	case "DELETE":
		w.WriteHeader(http.StatusNoContent)
	case "ping":
		sayResult(w, m.ID, `{}`)
	case "tools/call":
		sayResult(w, m.ID, `{"content":[{"type":"text","text":"hello"}]}`)
	default:
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		sayError(w, m.ID, -32601, "method not found")
	}
}

// requests returns what was seen so far of one kind.
func (s *scripted) requests(what string) []seenRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []seenRequest
	for _, r := range s.seen {
		if r.what == what {
			found = append(found, r)
		}
	}
	return found
}

// hang holds a handler until the client leaves or the test ends.
func (s *scripted) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.quit:
	}
}

func sayResult(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func sayError(w http.ResponseWriter, id json.RawMessage, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
}

// sayEvents begins an event stream and returns a function that sends text on it.
func sayEvents(w http.ResponseWriter) func(format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return func(format string, args ...any) {
		fmt.Fprintf(w, format, args...)
		w.(http.Flusher).Flush()
	}
}

func httpSpec(url string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: url}}
}

func httpDialerFor(spec mcpvisor.ServerSpec) *httpDialer {
	return NewDialer(spec.WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()}).(*httpDialer)
}

// openHTTP opens a session that is released at the end of the test.
func openHTTP(t *testing.T, spec mcpvisor.ServerSpec) *httpSession {
	t.Helper()
	s := httpDialerFor(spec).NewSession().(*httpSession)
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	return s
}

// openFails opens a session that must fail and returns why.
func openFails(t *testing.T, spec mcpvisor.ServerSpec) *supervisor.Cause {
	t.Helper()
	s := httpDialerFor(spec).NewSession()
	err := s.Open(transporttest.Context(t))
	require.Error(t, err)
	var cause *supervisor.Cause
	require.ErrorAs(t, err, &cause)
	require.Same(t, s.Cause(), cause)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	return cause
}

// callFails sends a call that must fail and returns its error.
func callFails(t *testing.T, s transport.Session) *mcpvisor.Error {
	t.Helper()
	_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
	require.Error(t, err)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	return e
}

// requireServing asserts that the session works.
func requireServing(t *testing.T, s transport.Session) {
	t.Helper()
	require.Nil(t, s.Cause())
	got, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
	require.NoError(t, err)
	require.Contains(t, string(got), "hello")
}

// oneTime makes a handler that is hostile the first time and kind after that.
func oneTime(hostile func(w http.ResponseWriter, r *http.Request, id json.RawMessage)) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	var done atomic.Bool
	return func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		if done.Swap(true) {
			sayResult(w, id, `{"content":[{"type":"text","text":"hello"}]}`)
			return
		}
		hostile(w, r, id)
	}
}

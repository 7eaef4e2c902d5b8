package streamable

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// leakChecked has the tests that called checkLeaks.
var leakChecked sync.Map

// checkLeaks fails the test if a goroutine that it started outlives it. Call it first,
// because cleanups run in reverse order. Of several calls in one test the first counts: a session to one
// server may make a connection while another server of the test is being closed.
func checkLeaks(t *testing.T) {
	t.Helper()
	if _, checked := leakChecked.LoadOrStore(t, true); checked {
		return
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// httpServer is a legacy server over Streamable HTTP. A test can replace each of its
// replies.
type httpServer struct {
	*testServer
	session string // Mcp-Session-Id; empty for none
}

func newHTTPServer(t *testing.T) *httpServer {
	t.Helper()
	s := &httpServer{testServer: newTestServer(), session: "session-1"}
	s.serve(t, s)
	return s
}

// ServeHTTP implements http.Handler.
func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	kind := r.Method
	var m message
	if r.Method == http.MethodPost {
		_ = json.Unmarshal(body, &m)
		kind = m.Method
	}
	if reply := s.record(kind, r, body); reply != nil {
		reply(w, r, m.ID)
		return
	}
	switch kind {
	case "server/discover":
		writeError(w, m.ID, -32601, "method not found")
	case "initialize":
		if s.session != "" {
			w.Header().Set("Mcp-Session-Id", s.session)
		}
		writeResult(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"7"},"instructions":"be brief"}`)
	case "GET":
		w.WriteHeader(http.StatusMethodNotAllowed)
	case "DELETE":
		w.WriteHeader(http.StatusNoContent)
	case "ping":
		writeResult(w, m.ID, `{}`)
	case "tools/call":
		writeResult(w, m.ID, `{"content":[{"type":"text","text":"hello"}]}`)
	default:
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		writeError(w, m.ID, -32601, "method not found")
	}
}

func writeResult(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func writeError(w http.ResponseWriter, id json.RawMessage, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
}

// startEvents begins an event stream and returns a function that sends text on it.
func startEvents(w http.ResponseWriter) func(format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return func(format string, args ...any) {
		fmt.Fprintf(w, format, args...)
		w.(http.Flusher).Flush()
	}
}

// specFor returns the spec of a server at this URL.
func specFor(url string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: url}}
}

// newTestDialer makes a dialer that logs nothing.
func newTestDialer(spec mcpvisor.ServerSpec) *dialer {
	return NewDialer(spec.WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()}).(*dialer)
}

// openSession opens a session that is released at the end of the test.
func openSession(t *testing.T, spec mcpvisor.ServerSpec) *session {
	t.Helper()
	s := newTestDialer(spec).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	return s
}

// requireOpenFails asserts that Open fails and the session is released. It returns the
// cause.
func requireOpenFails(t *testing.T, spec mcpvisor.ServerSpec) *supervisor.Cause {
	t.Helper()
	s := newTestDialer(spec).NewSession()
	err := s.Open(transporttest.Context(t))
	require.Error(t, err)
	var cause *supervisor.Cause
	require.ErrorAs(t, err, &cause)
	require.Same(t, s.Cause(), cause)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	return cause
}

// requireCallFails asserts that a call fails, and returns its error.
func requireCallFails(t *testing.T, s transport.Session) *mcpvisor.Error {
	t.Helper()
	_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
	require.Error(t, err)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	return e
}

// requireServing asserts that the session is alive and a call succeeds.
func requireServing(t *testing.T, s transport.Session) {
	t.Helper()
	require.Nil(t, s.Cause())
	got, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
	require.NoError(t, err)
	require.Contains(t, string(got), "hello")
}

// firstTime makes a handler that calls first for the first request, and answers all later
// requests.
func firstTime(first func(w http.ResponseWriter, r *http.Request, id json.RawMessage)) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	var done atomic.Bool
	return func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		if done.Swap(true) {
			writeResult(w, id, `{"content":[{"type":"text","text":"hello"}]}`)
			return
		}
		first(w, r, id)
	}
}

// basicCredential returns the credential of the Basic scheme.
func basicCredential(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

package streamable

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio"
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
	cause := testutil.AsError[*supervisor.Cause](t, err)
	require.Same(t, s.Cause(), cause)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	return cause
}

// requireCallFails asserts that a call fails, and returns its error.
func requireCallFails(t *testing.T, s transport.Session) *mcpvisor.Error {
	t.Helper()
	_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
	require.Error(t, err)
	e := testutil.AsError[*mcpvisor.Error](t, err)
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

// testServer is the common part of the test servers: it records the requests that it
// receives, and a test can replace its replies.
type testServer struct {
	*httptest.Server
	// quit is closed before the server is closed, so that blocked handlers return.
	quit chan struct{}

	mu       sync.Mutex // guards the fields below
	received []receivedRequest
	// replies replaces the reply to a kind of request. The kind is the JSON-RPC method of a
	// POST, "" for a JSON-RPC response, or else the HTTP method.
	replies map[string]handler
}

// receivedRequest is one request that a test server has received.
type receivedRequest struct {
	kind   string
	header http.Header
	body   string
	host   string
	url    string
}

func newTestServer() *testServer {
	return &testServer{quit: make(chan struct{}), replies: make(map[string]handler)}
}

// serve serves h over HTTP until the test ends.
func (s *testServer) serve(t *testing.T, h http.Handler) {
	t.Helper()
	checkLeaks(t)
	s.Server = httptest.NewServer(h)
	t.Cleanup(func() {
		close(s.quit)
		s.CloseClientConnections()
		s.Close()
	})
}

// handle replaces the reply to a kind of request.
func (s *testServer) handle(kind string, reply handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[kind] = reply
}

// record records a request, and returns the handler that replaces its reply; nil if the
// reply is not replaced.
func (s *testServer) record(kind string, r *http.Request, body []byte) handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, receivedRequest{kind: kind, header: r.Header.Clone(), body: string(body), host: r.Host, url: r.URL.String()})
	return s.replies[kind]
}

// requests returns the requests of one kind that were received so far.
func (s *testServer) requests(kind string) []receivedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []receivedRequest
	for _, r := range s.received {
		if r.kind == kind {
			found = append(found, r)
		}
	}
	return found
}

// hang blocks a handler until the client leaves or the test ends.
func (s *testServer) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.quit:
	}
}

// message is the part of a JSON-RPC message that a test server reads.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

const sseSecret = "stream-5d41402abc4b2a76"

// sseServer is a server over HTTP+SSE. A test can replace each of its replies, and send
// messages on its stream. It accepts POSTs with the session id of the endpoint event.
type sseServer struct {
	*testServer
	t *testing.T
	// endpoint is the address in the endpoint event.
	endpoint string
	out      chan string // to the stream that was opened last; guarded by mu
}

func newSSEServer(t *testing.T) *sseServer {
	t.Helper()
	s := &sseServer{testServer: newTestServer(), t: t, endpoint: "/messages?sessionId=" + sseSecret}
	s.serve(t, s)
	return s
}

// ServeHTTP implements http.Handler.
func (s *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m message
	_ = json.Unmarshal(body, &m)
	kind := m.Method
	posted := r.Method == http.MethodPost && r.URL.Query().Has("sessionId")
	if !posted {
		kind = r.Method
	}
	reply := s.record(kind, r, body)
	switch {
	case reply != nil:
		reply(w, r, m.ID)
	case kind == "GET":
		s.stream(w, r)
	case !posted:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.URL.Query().Get("sessionId") != sseSecret:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "Accepted")
		s.answer(kind, m.ID)
	}
}

// stream serves the event stream until the client leaves or the test ends.
func (s *sseServer) stream(w http.ResponseWriter, r *http.Request) {
	out := make(chan string, 64)
	s.mu.Lock()
	s.out = out
	s.mu.Unlock()
	send := startEvents(w)
	send("event: endpoint\ndata: %s\n\n", s.endpoint)
	for {
		select {
		case text := <-out:
			if text == "" { // the stream breaks
				panic(http.ErrAbortHandler)
			}
			send("%s", text)
		case <-r.Context().Done():
			return
		case <-s.quit:
			return
		}
	}
}

// answer sends the answer to a request on the stream.
func (s *sseServer) answer(method string, id json.RawMessage) {
	result := map[string]string{
		"initialize": `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`,
		"ping":       `{}`,
		"tools/call": `{"content":[{"type":"text","text":"hello"}]}`,
	}[method]
	switch {
	case id == nil:
	case result == "":
		s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, id)
	default:
		s.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
}

// send sends a message on the stream.
func (s *sseServer) send(format string, args ...any) {
	s.write("event: message\ndata: " + fmt.Sprintf(format, args...) + "\n\n")
}

// write writes text on the stream; "" breaks the stream.
func (s *sseServer) write(text string) {
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	if out == nil {
		s.t.Error("there is no stream")
		return
	}
	select {
	case out <- text:
	case <-s.quit:
	}
}

// sseSpec returns a spec that says that the server speaks HTTP+SSE.
func sseSpec(s *sseServer) mcpvisor.ServerSpec {
	spec := specFor(s.URL + "/sse")
	spec.HTTP.SSE = true
	return spec
}

// memoryTransport is an httpServer without a network, so that tests can use virtual time.
// It is a RoundTripper, and records which of its response bodies are open.
type memoryTransport struct {
	*httpServer
	handler http.Handler // serves the requests; nil: httpServer
	mu      sync.Mutex
	open    map[*memoryBody]struct{}
}

func newMemoryTransport(t *testing.T) *memoryTransport {
	t.Helper()
	d := &memoryTransport{open: make(map[*memoryBody]struct{}), httpServer: &httpServer{testServer: newTestServer(), session: "session-1"}}
	t.Cleanup(func() { close(d.quit) })
	return d
}

func (d *memoryTransport) spec() mcpvisor.ServerSpec {
	spec := specFor("http://wireless.invalid/mcp")
	spec.HTTP.Client = &http.Client{Transport: d}
	return spec
}

// unclosed returns method and path of the requests whose response bodies are open.
func (d *memoryTransport) unclosed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for b := range maps.Keys(d.open) {
		found = append(found, b.request)
	}
	slices.Sort(found)
	return found
}

// RoundTrip implements http.RoundTripper. As over a network, the end of the request's
// context also ends the response body.
func (d *memoryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	body, feed := io.Pipe()
	w := &memoryWriter{header: make(http.Header), feed: feed, begun: make(chan struct{})}
	r := req.Clone(ctx)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		defer func() {
			if recover() != nil {
				feed.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = feed.Close()
		}()
		if d.handler != nil {
			d.handler.ServeHTTP(w, r)
			return
		}
		d.ServeHTTP(w, r)
	}()
	context.AfterFunc(ctx, func() { feed.CloseWithError(ctx.Err()) })
	select {
	case <-w.begun:
	case <-handled:
	case <-ctx.Done():
	}
	select {
	case <-w.begun:
	default:
		cancel()
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		return nil, io.ErrUnexpectedEOF
	}
	b := &memoryBody{PipeReader: body, transport: d, cancel: cancel, request: req.Method + " " + req.URL.Path}
	d.mu.Lock()
	d.open[b] = struct{}{}
	d.mu.Unlock()
	return &http.Response{StatusCode: w.status, Header: w.sent, Body: b, ContentLength: -1, Request: req}, nil
}

// memoryWriter is the http.ResponseWriter of one request.
type memoryWriter struct {
	header, sent http.Header
	status       int
	feed         *io.PipeWriter
	begun        chan struct{}
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	}
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.feed.Write(p)
}

// Flush implements http.Flusher.
func (w *memoryWriter) Flush() {}

// memoryBody is the response body of one request.
type memoryBody struct {
	*io.PipeReader
	transport *memoryTransport
	cancel    func()
	request   string
}

// Close implements io.Closer.
func (b *memoryBody) Close() error {
	b.transport.mu.Lock()
	delete(b.transport.open, b)
	b.transport.mu.Unlock()
	b.cancel()
	return b.PipeReader.Close()
}

// openPipes opens a session with a server in memory, connected by pipes. It is for tests
// over both transports.
func openPipes(t *testing.T, serve transporttest.ServeFunc) transport.Session {
	t.Helper()
	return transporttest.OpenSession(t, stdio.NewDialer(mcpvisor.ServerSpec{Name: "tiny", InMemory: &mcpvisor.InMemory{Serve: serve}}, transporttest.MemoryOptions))
}

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

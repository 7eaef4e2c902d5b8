package streamable

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

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

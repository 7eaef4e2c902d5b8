package streamable

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// testServer is what the servers of these tests have in common: it records the
// requests that it receives, and a test can replace its replies.
type testServer struct {
	*httptest.Server
	// quit is closed before the server is, so that handlers which block can return.
	quit chan struct{}

	mu       sync.Mutex
	received []receivedRequest
	// replies replaces the reply to a kind of request: a JSON-RPC method, or an HTTP
	// method.
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

// record records a request, and returns what replaces its reply; nil if nothing does.
func (s *testServer) record(kind string, r *http.Request, body []byte) handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, receivedRequest{kind: kind, header: r.Header.Clone(), body: string(body), host: r.Host, url: r.URL.String()})
	return s.replies[kind]
}

// requests returns the requests of one kind so far.
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

// message is what a test server reads of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

package streamable

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/mcpvisor/mcpvisor"
)

// sseServer is a server over HTTP+SSE, of which each part can be replaced. Its
// stream takes what send is given; POSTs that name a session go to it.
type sseServer struct {
	*httptest.Server
	t *testing.T
	// endpoint is what the first event names.
	endpoint string
	quit     chan struct{}

	mu       sync.Mutex
	received []receivedRequest
	out      chan string // to the stream that was opened last
	// replies replaces the reply to a POST of a JSON-RPC method, and to "GET".
	replies map[string]func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
}

const sseSecret = "stream-5d41402abc4b2a76"

func newSSEServer(t *testing.T) *sseServer {
	t.Helper()
	checkLeaks(t)
	s := &sseServer{t: t, endpoint: "/messages?sessionId=" + sseSecret, quit: make(chan struct{}),
		replies: make(map[string]func(http.ResponseWriter, *http.Request, json.RawMessage))}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		close(s.quit)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *sseServer) handle(what string, f func(w http.ResponseWriter, r *http.Request, id json.RawMessage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[what] = f
}

func (s *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(body, &m)
	what := m.Method
	posted := r.Method == http.MethodPost && r.URL.Query().Has("sessionId")
	if !posted {
		what = r.Method
	}
	s.mu.Lock()
	s.received = append(s.received, receivedRequest{what: what, header: r.Header.Clone(), body: string(body), host: r.URL.String()})
	f := s.replies[what]
	s.mu.Unlock()
	switch {
	case f != nil:
		f(w, r, m.ID)
	case what == "GET":
		s.stream(w, r)
	case !posted:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.URL.Query().Get("sessionId") != sseSecret:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "Accepted")
		s.answer(what, m.ID)
	}
}

// stream serves the event stream until the client leaves or the test ends.
func (s *sseServer) stream(w http.ResponseWriter, r *http.Request) {
	out := make(chan string, 64)
	s.mu.Lock()
	s.out = out
	s.mu.Unlock()
	say := startEvents(w)
	say("event: endpoint\ndata: %s\n\n", s.endpoint)
	for {
		select {
		case text := <-out:
			if text == "" { // the stream breaks
				panic(http.ErrAbortHandler)
			}
			say("%s", text)
		case <-r.Context().Done():
			return
		case <-s.quit:
			return
		}
	}
}

// answer answers a request on the stream.
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

// write writes on the stream; "" breaks it.
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

// requests returns what was seen so far of one kind.
func (s *sseServer) requests(what string) []receivedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []receivedRequest
	for _, r := range s.received {
		if r.what == what {
			found = append(found, r)
		}
	}
	return found
}

func sseSpec(s *sseServer) mcpvisor.ServerSpec {
	spec := specFor(s.URL + "/sse")
	spec.HTTP.SSE = true
	return spec
}

package streamable

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/mcpvisor/mcpvisor"
)

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

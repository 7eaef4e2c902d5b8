package hostilehttp

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpServer is a small correct MCP server. A [Misbehaviour] replaces some of its
// handlers.
type httpServer struct {
	legacyOnly bool
	handlers   handlers
	// otherOrigin is the URL of another origin. A client must not follow redirects to it.
	otherOrigin string

	// mu guards everything below.
	mu       sync.Mutex
	sessions map[string]bool      // by Mcp-Session-Id
	counts   map[string]int       // of requests, by the key of handlers
	streams  map[chan string]bool // the open standalone event streams
}

// request is one HTTP request to an httpServer.
type request struct {
	server *httpServer
	w      http.ResponseWriter
	http   *http.Request
	// method is the JSON-RPC method, "answer", or the HTTP method of a GET or DELETE.
	method string
	// id is the JSON-RPC id; nil if the request needs no answer.
	id     json.RawMessage
	params struct {
		Name      string
		Cursor    string
		RequestID json.RawMessage
		// Notifications are those that subscriptions/listen requests.
		Notifications json.RawMessage
		Arguments     struct{ Text string }
	}
	// count is the number of requests with this key of handlers so far, this one
	// included.
	count int
}

// maxRequestBytes bounds the body of a request.
const maxRequestBytes = 64 << 20

// ServeHTTP implements [http.Handler].
func (h *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &request{server: h, w: w, http: r, method: r.Method}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes))
	if err != nil {
		return // the client has disconnected
	}
	if r.Method == http.MethodPost {
		var message struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(body, &message) != nil {
			http.Error(w, "the body is not a JSON-RPC message", http.StatusBadRequest)
			return
		}
		_ = json.Unmarshal(message.Params, &req.params) // members of other types stay empty
		req.id, req.method = message.ID, message.Method
		if req.method == "" {
			req.id, req.method = nil, "answer"
		}
	}
	keys := []string{req.method}
	switch {
	case req.method == "tools/call" && req.params.Name == "misbehave":
		keys = []string{"misbehave", req.method}
	case req.method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
		keys = []string{"resume", req.method}
	}
	h.mu.Lock()
	h.counts[keys[0]]++
	req.count = h.counts[keys[0]]
	h.mu.Unlock()
	for _, key := range append(keys, "*") {
		if do := h.handlers[key]; do != nil {
			do(req)
			return
		}
	}
	req.answerWell()
}

// modern reports whether the request follows 2026-07-28.
func (req *request) modern() bool {
	return !req.server.legacyOnly && req.http.Header.Get("Mcp-Protocol-Version") == "2026-07-28"
}

// answerWell answers the request as a correct server does.
func (req *request) answerWell() {
	switch {
	case req.method == "initialize":
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		req.replyMessage(req.answer())
		return
	case req.method == "server/discover" && req.server.legacyOnly:
		req.replyError(http.StatusOK, -32601, "method not found: server/discover")
		return
	case req.modern(), req.method == "server/discover":
	case !req.hasSession():
		return
	}
	switch {
	case req.method == http.MethodGet && req.modern():
		req.w.WriteHeader(http.StatusMethodNotAllowed)
	case req.method == http.MethodGet:
		req.stream()
	case req.method == http.MethodDelete:
		req.server.forget(req.http.Header.Get("Mcp-Session-Id"))
		req.w.WriteHeader(http.StatusNoContent)
	case req.id == nil:
		req.w.WriteHeader(http.StatusAccepted)
	case req.method == "subscriptions/listen":
		req.events().message(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":%s}}`,
			mcp.MetaKeySubscriptionID, req.id, req.params.Notifications))
		req.waitForClient()
	default:
		req.replyMessage(req.answer())
	}
}

// hasSession reports whether the request belongs to a session. If not, it rejects the
// request as 2025-11-25 requires: 400 without a session id, 404 for an unknown one.
func (req *request) hasSession() bool {
	id := req.http.Header.Get("Mcp-Session-Id")
	req.server.mu.Lock()
	known := req.server.sessions[id]
	req.server.mu.Unlock()
	switch {
	case known:
		return true
	case id == "":
		http.Error(req.w, "Bad Request: Mcp-Session-Id header is required", http.StatusBadRequest)
	default:
		http.Error(req.w, "Session not found", http.StatusNotFound)
	}
	return false
}

// newSession adds a session and returns its id.
func (h *httpServer) newSession() string {
	id := rand.Text()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[id] = true
	return id
}

// forget ends a session, or all sessions if id is empty.
func (h *httpServer) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, id)
	if id == "" {
		clear(h.sessions)
	}
}

// answer returns the right answer, as a JSON-RPC message.
func (req *request) answer() string { return req.resultMessage(req.result()) }

// resultMessage returns an answer with the given result.
func (req *request) resultMessage(result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, req.id, result)
}

const (
	goodCapabilities = `"capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}}`
	goodInfo         = `"serverInfo":{"name":"hostile","version":"1"}`
	goodTools        = `{"name":"echo","inputSchema":{"type":"object"}},{"name":"misbehave","inputSchema":{"type":"object"}}`
)

// result returns the right result of the request.
func (req *request) result() string {
	var b bytes.Buffer
	b.WriteByte('{')
	switch req.method {
	case "initialize":
		fmt.Fprintf(&b, `"protocolVersion":%q,%s,%s`, "2025-11-25", goodCapabilities, goodInfo)
	case "server/discover":
		fmt.Fprintf(&b, `"supportedVersions":[%q,%q],%s,%s`, "2026-07-28", "2025-11-25", goodCapabilities, goodInfo)
	case "tools/list":
		b.WriteString(`"tools":[` + goodTools + `]`)
	case "resources/list":
		b.WriteString(`"resources":[]`)
	case "resources/templates/list":
		b.WriteString(`"resourceTemplates":[]`)
	case "tools/call":
		text, _ := json.Marshal(req.params.Arguments.Text) // a string always marshals
		fmt.Fprintf(&b, `"content":[{"type":"text","text":%s}]`, text)
	}
	if req.modern() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"resultType":"complete"`)
	}
	b.WriteByte('}')
	return b.String()
}

// stream serves the standalone event stream of a session until the client disconnects
// or breakStreams is called.
func (req *request) stream() {
	queue := make(chan string, 16)
	req.server.mu.Lock()
	req.server.streams[queue] = true
	req.server.mu.Unlock()
	defer func() {
		req.server.mu.Lock()
		defer req.server.mu.Unlock()
		delete(req.server.streams, queue)
	}()
	events := req.events() // not earlier: a client that sees the stream open may have it broken
	for {
		select {
		case text, more := <-queue:
			if !more || !events.send("data: %s\n\n", text) {
				return
			}
		case <-req.http.Context().Done():
			return
		}
	}
}

// broadcast sends a message on every open standalone stream.
func (h *httpServer) broadcast(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for queue := range h.streams {
		select {
		case queue <- text:
		default:
		}
	}
}

// breakStreams ends every open standalone stream.
func (h *httpServer) breakStreams() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for queue := range h.streams {
		close(queue)
		delete(h.streams, queue)
	}
}

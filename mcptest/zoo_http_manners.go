package mcptest

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

// habitat is the server that every [HTTPMisbehaviour] lives in.
type habitat struct {
	legacyOnly bool
	habits     habits
	// trap is another origin, which no request of a client's should reach; ""
	// if there is none.
	trap string

	mu       sync.Mutex
	sessions map[string]bool
	counts   map[string]int
	streams  map[chan string]bool // the standalone event streams
}

// visit is one request to a habitat.
type visit struct {
	h *habitat
	w http.ResponseWriter
	r *http.Request
	// what is asked: the JSON-RPC method, "answer", "GET" or "DELETE".
	what string
	// id is nil if nothing is to be answered.
	id     json.RawMessage
	params struct {
		Name      string
		Cursor    string
		RequestID json.RawMessage
		// Notifications are those that subscriptions/listen asks for.
		Notifications json.RawMessage
		Arguments     struct{ Text string }
	}
	// nth counts the requests of this kind, from 1.
	nth int
}

// zooMessageLimit is the longest request that is read.
const zooMessageLimit = 64 << 20

// ServeHTTP implements [http.Handler].
func (h *habitat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{h: h, w: w, r: r, what: r.Method}
	body, err := io.ReadAll(io.LimitReader(r.Body, zooMessageLimit))
	if err != nil {
		return // the client has left
	}
	if r.Method == http.MethodPost {
		var message struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(body, &message) != nil {
			http.Error(w, "that is no JSON-RPC", http.StatusBadRequest)
			return
		}
		_ = json.Unmarshal(message.Params, &v.params) // what does not fit stays empty
		v.id, v.what = message.ID, message.Method
		if v.what == "" {
			v.id, v.what = nil, "answer"
		}
	}
	occasions := []string{v.what}
	switch {
	case v.what == "tools/call" && v.params.Name == "misbehave":
		occasions = []string{"misbehave", v.what}
	case v.what == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
		occasions = []string{"resume", v.what}
	}
	h.mu.Lock()
	h.counts[occasions[0]]++
	v.nth = h.counts[occasions[0]]
	h.mu.Unlock()
	for _, occasion := range append(occasions, "*") {
		if do := h.habits[occasion]; do != nil {
			do(v)
			return
		}
	}
	v.behave()
}

// modern is whether the request follows 2026-07-28.
func (v *visit) modern() bool {
	return !v.h.legacyOnly && v.r.Header.Get("Mcp-Protocol-Version") == Version20260728
}

// behave does what a correct server does.
func (v *visit) behave() {
	switch {
	case v.what == "initialize":
		v.w.Header().Set("Mcp-Session-Id", v.h.newSession())
		v.say(v.answer())
		return
	case v.what == "server/discover" && v.h.legacyOnly:
		v.sayError(http.StatusOK, -32601, "method not found: server/discover")
		return
	case v.modern(), v.what == "server/discover":
	case !v.known():
		return
	}
	switch {
	case v.what == http.MethodGet && v.modern():
		v.w.WriteHeader(http.StatusMethodNotAllowed)
	case v.what == http.MethodGet:
		v.stream()
	case v.what == http.MethodDelete:
		v.h.forget(v.r.Header.Get("Mcp-Session-Id"))
		v.w.WriteHeader(http.StatusNoContent)
	case v.id == nil:
		v.w.WriteHeader(http.StatusAccepted)
	case v.what == "subscriptions/listen":
		v.events().message(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":%s}}`,
			mcp.MetaKeySubscriptionID, v.id, v.params.Notifications))
		v.hang()
	default:
		v.say(v.answer())
	}
}

// known refuses a request that belongs to no session, as 2025-11-25 has it.
func (v *visit) known() bool {
	id := v.r.Header.Get("Mcp-Session-Id")
	v.h.mu.Lock()
	known := v.h.sessions[id]
	v.h.mu.Unlock()
	switch {
	case known:
		return true
	case id == "":
		http.Error(v.w, "Bad Request: Mcp-Session-Id header is required", http.StatusBadRequest)
	default:
		http.Error(v.w, "Session not found", http.StatusNotFound)
	}
	return false
}

func (h *habitat) newSession() string {
	id := rand.Text()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[id] = true
	return id
}

// forget ends a session, or all of them if id is empty.
func (h *habitat) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, id)
	if id == "" {
		clear(h.sessions)
	}
}

// answer is the whole message that answers the request.
func (v *visit) answer() string { return v.resultMessage(v.result()) }

// resultMessage is an answer to the request with another result.
func (v *visit) resultMessage(result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, v.id, result)
}

const (
	zooCapabilities = `"capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}}`
	zooInfo         = `"serverInfo":{"name":"zoo","version":"1"}`
	zooTools        = `{"name":"echo","inputSchema":{"type":"object"}},{"name":"misbehave","inputSchema":{"type":"object"}}`
)

// result is the right result of the request.
func (v *visit) result() string {
	var b bytes.Buffer
	b.WriteByte('{')
	switch v.what {
	case "initialize":
		fmt.Fprintf(&b, `"protocolVersion":%q,%s,%s`, Version20251125, zooCapabilities, zooInfo)
	case "server/discover":
		fmt.Fprintf(&b, `"supportedVersions":[%q,%q],%s,%s`, Version20260728, Version20251125, zooCapabilities, zooInfo)
	case "tools/list":
		b.WriteString(`"tools":[` + zooTools + `]`)
	case "resources/list":
		b.WriteString(`"resources":[]`)
	case "resources/templates/list":
		b.WriteString(`"resourceTemplates":[]`)
	case "tools/call":
		text, _ := json.Marshal(v.params.Arguments.Text) // a string always marshals
		fmt.Fprintf(&b, `"content":[{"type":"text","text":%s}]`, text)
	}
	if v.modern() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"resultType":"complete"`)
	}
	b.WriteByte('}')
	return b.String()
}

// stream is the standalone event stream of a session. It lasts until the
// client leaves or somebody breaks it.
func (v *visit) stream() {
	events := v.events()
	queue := make(chan string, 16)
	v.h.mu.Lock()
	v.h.streams[queue] = true
	v.h.mu.Unlock()
	defer func() {
		v.h.mu.Lock()
		defer v.h.mu.Unlock()
		delete(v.h.streams, queue)
	}()
	for {
		select {
		case text, more := <-queue:
			if !more || !events.send("data: %s\n\n", text) {
				return
			}
		case <-v.r.Context().Done():
			return
		}
	}
}

// broadcast sends a message on every standalone stream that is open.
func (h *habitat) broadcast(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for queue := range h.streams {
		select {
		case queue <- text:
		default:
		}
	}
}

// breakStreams ends every standalone stream that is open.
func (h *habitat) breakStreams() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for queue := range h.streams {
		close(queue)
		delete(h.streams, queue)
	}
}

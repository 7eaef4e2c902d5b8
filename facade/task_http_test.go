package facade_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpvisor/mcpvisor"
)

// bridge serves a server in memory over Streamable HTTP, each answer as plain JSON. What the
// server sends by itself goes to the standalone stream of a legacy session, and to the
// subscriptions/listen that it names. When the server ends, a new incarnation begins with the
// next request: a legacy client then hears that its session is unknown. The names that modern
// requests repeat in their headers are kept.
type bridge struct {
	*httptest.Server
	server *mcpvisor.InMemory
	ids    atomic.Int64 // requests so far

	mu      sync.Mutex
	session int
	current *bridged
	closed  bool              // no incarnation begins any more
	names   map[string]string // by method: the last Mcp-Name
}

// bridged is one incarnation.
type bridged struct {
	stdin   io.WriteCloser
	ended   chan struct{}
	cancel  context.CancelFunc
	mu      sync.Mutex
	waiting map[string]chan []byte // by id; "" is the standalone stream
}

// incoming is a JSON-RPC message that a server receives.
type incoming struct {
	ID     json.RawMessage
	Method string
}

// subscription is the id of the subscriptions/listen that a notification names; empty if none.
func subscription(line []byte) string {
	var m struct {
		Params struct {
			Meta struct {
				ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
			} `json:"_meta"`
		}
	}
	_ = json.Unmarshal(line, &m)
	return string(m.Params.Meta.ID)
}

func newBridge(t *testing.T, server *mcpvisor.InMemory) *bridge {
	t.Helper()
	b := &bridge{server: server, names: map[string]string{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.mu.Lock()
		b.closed = true
		if b.current != nil {
			b.current.cancel()
			<-b.current.ended
		}
		b.mu.Unlock()
		b.Close()
	})
	return b
}

// incarnation returns the one that serves now, and the name of its session.
func (b *bridge) incarnation() (*bridged, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current != nil {
		select {
		case <-b.current.ended:
			b.current = nil
		default:
		}
	}
	if b.current == nil && !b.closed {
		b.session++
		b.current = startBridged(b.server)
	}
	return b.current, strconv.Itoa(b.session)
}

func startBridged(server *mcpvisor.InMemory) *bridged {
	stdin, toServer := io.Pipe()
	fromServer, stdout := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	i := &bridged{stdin: toServer, ended: make(chan struct{}), cancel: cancel, waiting: map[string]chan []byte{}}
	go func() {
		_ = stdout.CloseWithError(server.Serve(ctx, stdin, stdout, io.Discard))
		_ = stdin.Close()
	}()
	go func() {
		defer close(i.ended)
		lines := bufio.NewReader(fromServer)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var m incoming
			if json.Unmarshal(line, &m) != nil {
				continue
			}
			to := string(m.ID)
			if m.Method != "" {
				to = subscription(line)
			}
			i.mu.Lock()
			into := i.waiting[to]
			i.mu.Unlock()
			if into != nil {
				select {
				case into <- line:
				default: // the stream has no reader
				}
			}
		}
	}()
	return i
}

// ServeHTTP implements [http.Handler].
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m incoming
	if r.Method == http.MethodDelete || r.Method == http.MethodPost && json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	i, session := b.incarnation()
	if i == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	modern := r.Header.Get("Mcp-Method") != ""
	switch given := r.Header.Get("Mcp-Session-Id"); {
	case modern:
		b.mu.Lock()
		b.names[m.Method] = r.Header.Get("Mcp-Name")
		b.mu.Unlock()
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", session)
	case given != session && m.Method != "server/discover":
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer, restore := make(chan []byte, 100), func(line []byte) []byte { return line }
	if r.Method == http.MethodGet || m.Method != "" && len(m.ID) > 0 {
		own := ""
		if m.ID != nil { // two sessions may use one id
			own = strconv.FormatInt(7e9+b.ids.Add(1), 10)
			body = bytes.Replace(body, []byte(`"id":`+string(m.ID)), []byte(`"id":`+own), 1)
			restore = func(line []byte) []byte { return bytes.ReplaceAll(line, []byte(own), m.ID) }
		}
		i.mu.Lock()
		i.waiting[own] = answer
		i.mu.Unlock()
	}
	if r.Method == http.MethodGet {
		i.stream(w, r, answer, restore)
		return
	}
	if _, err := i.stdin.Write(append(bytes.ReplaceAll(body, []byte("\n"), nil), '\n')); err != nil {
		panic(http.ErrAbortHandler)
	}
	switch {
	case len(m.ID) == 0 || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "subscriptions/listen":
		i.stream(w, r, answer, restore)
		return
	}
	select {
	case line := <-answer:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(restore(line))
	case <-i.ended:
		panic(http.ErrAbortHandler)
	case <-r.Context().Done():
	}
}

// stream sends what the server sends as events, until the client or the server ends.
func (i *bridged) stream(w http.ResponseWriter, r *http.Request, messages <-chan []byte, restore func([]byte) []byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case line := <-messages:
			_, _ = w.Write(append([]byte("data: "), append(restore(line), '\n')...))
		case <-i.ended:
			return
		case <-r.Context().Done():
			return
		}
	}
}

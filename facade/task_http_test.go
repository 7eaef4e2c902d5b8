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
	"testing"

	"github.com/mcpvisor/mcpvisor"
)

// bridge serves a server in memory over Streamable HTTP, each answer as plain JSON. When the
// server ends, a new incarnation begins with the next request: a legacy client then hears that
// its session is unknown. The names that modern requests repeat in their headers are kept.
type bridge struct {
	*httptest.Server
	server *mcpvisor.InMemory

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
	waiting map[string]chan []byte // by id
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
			if json.Unmarshal(line, &m) != nil || m.Method != "" {
				continue
			}
			i.mu.Lock()
			into := i.waiting[string(m.ID)]
			i.mu.Unlock()
			if into != nil {
				into <- line
			}
		}
	}()
	return i
}

// ServeHTTP implements [http.Handler].
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m incoming
	if r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
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
	answer := make(chan []byte, 1)
	i.mu.Lock()
	i.waiting[string(m.ID)] = answer
	i.mu.Unlock()
	if _, err := i.stdin.Write(append(bytes.ReplaceAll(body, []byte("\n"), nil), '\n')); err != nil {
		panic(http.ErrAbortHandler)
	}
	if len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	select {
	case line := <-answer:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(line)
	case <-i.ended:
		panic(http.ErrAbortHandler)
	case <-r.Context().Done():
	}
}

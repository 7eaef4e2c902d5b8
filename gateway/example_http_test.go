package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// httpSessions serves the sessions of a transport over Streamable HTTP, in the versions up to
// 2025-11-25. Its session id is no authentication: put one before it. A session ends with
// DELETE, and when the client or ctx ends; a service also bounds how many there are, and ends
// those that are idle.
type httpSessions struct {
	ctx   context.Context
	inner mcp.Transport // of gateway.Transport

	mu   sync.Mutex
	open map[string]httpSession
}

type httpSession struct {
	*mcp.StreamableServerTransport // handles the requests
	mcp.Connection
}

// Connect implements mcp.Transport: the connection is there before the first request.
func (s httpSession) Connect(context.Context) (mcp.Connection, error) { return s.Connection, nil }

func (h *httpSessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
	id := r.Header.Get("Mcp-Session-Id")
	h.mu.Lock()
	session, found := h.open[id]
	h.mu.Unlock()
	switch {
	case id == "" && r.Method == http.MethodPost:
		body, err := io.ReadAll(r.Body)
		message, _ := jsonrpc.DecodeMessage(body)
		if first, ok := message.(*jsonrpc.Request); err != nil || !ok || first.Method != "initialize" {
			http.Error(w, "a session begins with initialize", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if session, err = h.begin(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	case !found:
		http.Error(w, "session not found", http.StatusNotFound)
		return
	case r.Method == http.MethodDelete:
		_ = session.Close()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	session.ServeHTTP(w, r)
}

// begin opens a session, which is forgotten when it ends.
func (h *httpSessions) begin() (s httpSession, err error) {
	// The store keeps notifications until the peer asks for them with GET.
	s.StreamableServerTransport = &mcp.StreamableServerTransport{SessionID: rand.Text(), EventStore: mcp.NewMemoryEventStore(nil)}
	if s.Connection, err = s.StreamableServerTransport.Connect(h.ctx); err != nil {
		return s, err
	}
	h.mu.Lock()
	h.open[s.StreamableServerTransport.SessionID] = s
	h.mu.Unlock()
	go func() {
		_ = gateway.Serve(h.ctx, h.inner, s)
		h.mu.Lock()
		delete(h.open, s.StreamableServerTransport.SessionID)
		h.mu.Unlock()
	}()
	return s, nil
}

// The tools of a client over Streamable HTTP, with the transport of the go-sdk for servers.
func ExampleServe_http() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "demo", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		fmt.Println(err)
		return
	}
	handler := &httpSessions{ctx: ctx, inner: gateway.Transport(client), open: map[string]httpSession{}}
	server := httptest.NewServer(http.NewCrossOriginProtection().Handler(handler))
	defer server.Close()

	host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	session, err := host.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: server.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "mcp__demo__echo", Arguments: map[string]any{"text": "Hello."}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(session.InitializeResult().ProtocolVersion, result.Content[0].(*mcp.TextContent).Text)
	// Output: 2025-11-25 Hello.
}

package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func benchClient(b *testing.B, tools int) *facade.Client {
	b.Helper()
	script := mcptest.Script{}
	for i := range tools {
		script.Tools = append(script.Tools, mcptest.ToolDef{Name: fmt.Sprintf("tool_%d", i), As: "echo", Description: strings.Repeat("It does something useful. ", 10)})
	}
	c, err := facade.New()
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	require.NoError(b, c.Register(b.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script)}))
	return c
}

// discard is a ResponseWriter that forgets.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

// benchRequests sends the same request again and again, without a network.
func benchRequests(b *testing.B, s *Server, body string) {
	ctx := context.WithValue(b.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	post := func(body, session string) *discard {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(sessionHeader, session)
		d := &discard{header: http.Header{}}
		s.ServeHTTP(d, r)
		return d
	}
	session := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "").header.Get(sessionHeader)
	b.ReportAllocs()
	for b.Loop() {
		post(body, session)
	}
	b.ReportMetric(float64(post(body, session).bytes), "bytes/answer")
}

func BenchmarkHandler_list(b *testing.B) {
	s := Handler(benchClient(b, 1000))
	defer s.Close()
	benchRequests(b, s, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
}

func BenchmarkHandler_call(b *testing.B) {
	s := Handler(benchClient(b, 1))
	defer s.Close()
	benchRequests(b, s, toolCallOf(1, "s__tool_0", `{"text":"x"}`))
}

func BenchmarkCatalog_restart(b *testing.B) {
	c := benchClient(b, 1000)
	s := Handler(c)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() { // as if each time all was new
		listing.New(s.gateway.view, pageSize, s.gateway.terms, func() {}).Get()
	}
}

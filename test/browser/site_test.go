package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// prefix is where the page is mounted.
const prefix = "/ops/mcp"

// newClient makes a client that is closed at the end of the test.
func newClient(t *testing.T, opts ...facade.Option) *facade.Client {
	t.Helper()
	c, err := facade.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// register adds a server and waits until it is ready.
func register(t *testing.T, c *facade.Client, spec mcpvisor.ServerSpec) {
	t.Helper()
	require.NoError(t, c.Register(t.Context(), spec))
}

// process is a server in a process of its own, which is started again after a moment.
func process(name string, script mcptest.Script) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, Policy: supervisor.Retry(supervisor.Unlimited, 20*time.Millisecond, supervisor.WithMaxDelay(20*time.Millisecond)), Stdio: mcptest.Stdio(script)}
}

// serve serves the page of a client under prefix. wrap may stand in front of it.
func serve(t *testing.T, c *facade.Client, wrap func(http.Handler) http.Handler, opts ...web.Option) *httptest.Server {
	t.Helper()
	h, err := web.New(c, opts...)
	require.NoError(t, err)
	var handler http.Handler = h
	if wrap != nil {
		handler = wrap(h)
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, handler))
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		h.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// end ends a server, as the end of its process does: its connections break, and no client can connect
// again. A page tries that at once.
func end(s *httptest.Server) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close() // it waits until all connections are closed
	}()
	for {
		s.CloseClientConnections()
		select {
		case <-closed:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

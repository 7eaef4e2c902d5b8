package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// newClient makes a client that is closed at the end of the test.
func newClient(t *testing.T, opts ...facade.Option) *facade.Client {
	t.Helper()
	c, err := facade.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// register adds an in-memory server with the default tools.
func register(t *testing.T, c *facade.Client, name string) {
	t.Helper()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(3, time.Millisecond)}))
}

// registerBroken adds a server that is evicted at its first start.
func registerBroken(t *testing.T, c *facade.Client, name string) {
	t.Helper()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, StartSupervised: true,
		InMemory: mcptest.InMemory(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7}}})}))
	require.ErrorIs(t, c.WaitReady(t.Context(), name), mcpvisor.ErrEvicted)
}

// site is a handler that is served on loopback.
type site struct {
	*httptest.Server
	t       *testing.T
	handler *web.Handler
}

// serveOne serves a client of one server.
func serveOne(t *testing.T, name string, opts ...web.Option) (*facade.Client, *site) {
	t.Helper()
	c := newClient(t)
	register(t, c, name)
	return c, serve(t, c, opts...)
}

// serve serves a handler until the end of the test.
func serve(t *testing.T, c *facade.Client, opts ...web.Option) *site {
	t.Helper()
	h, err := web.New(c, opts...)
	require.NoError(t, err)
	s := &site{httptest.NewServer(h), t, h}
	t.Cleanup(func() {
		h.Close()
		s.Close()
		s.Client().CloseIdleConnections()
	})
	return s
}

// do sends a request; change may alter it. It returns the response and its body. Redirects
// are not followed.
func (s *site) do(method, path, body string, change func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, bytes.NewBufferString(body))
	require.NoError(s.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response, string(data)
}

// get sends GET and returns status and body.
func (s *site) get(path string) (int, string) {
	s.t.Helper()
	response, body := s.do(http.MethodGet, path, "", nil)
	return response.StatusCode, body
}

// post sends POST with a JSON body and returns status and body.
func (s *site) post(path, body string) (int, string) {
	s.t.Helper()
	response, answer := s.do(http.MethodPost, path, body, nil)
	return response.StatusCode, answer
}

// decoded gets a path and decodes the answer, which must have the status.
func decoded[T any](s *site, path string, status int) (answer T) {
	s.t.Helper()
	got, body := s.get(path)
	require.Equal(s.t, status, got, body)
	require.NoError(s.t, json.Unmarshal([]byte(body), &answer), body)
	return answer
}

// contextWithLocal is the context of a request that came in on an address.
func contextWithLocal(t *testing.T, local net.Addr) context.Context {
	return context.WithValue(t.Context(), http.LocalAddrContextKey, local)
}

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

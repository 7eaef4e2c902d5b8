package streamable

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A call is sent once, even with a header that makes net/http repeat requests.
func TestCall_sentOnce(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-Other"} {
		web := newHTTPServer(t)
		var ran atomic.Int32
		spec := specFor(web.URL)
		spec.HTTP.Headers = map[string]string{name: "service-7"}
		s := openSession(t, spec)
		requireServing(t, s)
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			ran.Add(1)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		})
		e := requireCallFails(t, s)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
		require.EqualValues(t, 1, ran.Load(), name)
		require.Equal(t, "service-7", web.requests("tools/call")[1].header.Get(name))
		require.Nil(t, s.Cause())
	}
}

// killableDialer makes connections that a test can kill without closing them: then a read
// blocks, and a write fails after maxWritten bytes.
type killableDialer struct {
	mu         sync.Mutex
	conns      []*killableConn
	killNew    bool // new connections are dead, too; with mu
	maxWritten int
}

// killableConn is a connection of a killableDialer.
type killableConn struct {
	net.Conn
	dialer *killableDialer
	dead   bool
}

func (m *killableDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &killableConn{Conn: conn, dialer: m, dead: m.killNew && len(m.conns) > 0}
	m.conns = append(m.conns, c)
	return c, nil
}

// kill kills all current connections.
func (m *killableDialer) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.dead = true
	}
}

// dialled returns how many connections were made.
func (m *killableDialer) dialled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

func (c *killableConn) Write(p []byte) (int, error) {
	c.dialer.mu.Lock()
	dead, takes := c.dead, min(len(p), c.dialer.maxWritten)
	c.dialer.mu.Unlock()
	if !dead {
		return c.Conn.Write(p)
	}
	if takes > 0 {
		_, _ = c.Conn.Write(p[:takes])
	}
	return takes, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
}

// openKillable opens a session over connections of m, of which at least four are idle.
func openKillable(t *testing.T, web *httpServer, m *killableDialer, secure bool) *session {
	t.Helper()
	spec := specFor(web.URL)
	host := &http.Transport{}
	if secure {
		tls := httptest.NewTLSServer(web)
		t.Cleanup(tls.Close)
		spec.HTTP.URL = tls.URL
		host = tls.Client().Transport.(*http.Transport).Clone()
	}
	host.DialContext = m.dial
	spec.HTTP.Client = &http.Client{Transport: host}
	s := openSession(t, spec)
	together := make(chan struct{})
	var entered atomic.Int32
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		if entered.Add(1) == 4 {
			close(together)
		}
		<-together
		writeResult(w, id, `{"a":"hello"}`)
	})
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() { _, _ = s.Request(context.Background(), transporttest.ToolCall) })
	}
	calls.Wait()
	require.GreaterOrEqual(t, m.dialled(), 4)
	return s
}

// A call on a pooled connection that the server had closed is sent again on a new
// connection, but only if nothing was written on the old one.
func TestConnections_closedWhileIdle(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name+", nothing written", func(t *testing.T) {
			web, m := newHTTPServer(t), new(killableDialer)
			s := openKillable(t, web, m, secure)
			before := m.dialled()
			m.kill()
			requireServing(t, s)
			require.Len(t, web.requests("tools/call"), 5)
			require.Equal(t, before+1, m.dialled())
		})
		t.Run(name+", something written", func(t *testing.T) {
			web, m := newHTTPServer(t), &killableDialer{maxWritten: 10}
			s := openKillable(t, web, m, secure)
			m.kill()
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
			require.Len(t, web.requests("tools/call"), 4)
		})
		t.Run(name+", new connections dead", func(t *testing.T) {
			web, m := newHTTPServer(t), &killableDialer{}
			s := openKillable(t, web, m, secure)
			m.kill()
			m.mu.Lock()
			m.killNew = true
			m.mu.Unlock()
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome, e.Error())
			require.Equal(t, mcpvisor.KindUnavailable, e.Kind)
			require.Len(t, web.requests("tools/call"), 4)
			m.mu.Lock()
			m.killNew = false
			m.mu.Unlock()
			requireServing(t, s)
		})
	}
}

// A redirect repeats the request with its whole body.
func TestRedirect_repeatsBody(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		if r.URL.Path != "/there" {
			http.Redirect(w, r, "/there", http.StatusPermanentRedirect)
			return
		}
		writeResult(w, id, `{"a":"hello"}`)
	})
	requireServing(t, openSession(t, specFor(web.URL)))
	seen := web.requests("tools/call")
	require.Len(t, seen, 2)
	require.Equal(t, seen[0].body, seen[1].body)
}

// At most maxRedirects redirects are followed. Each is relative to the previous one. A
// redirect without a Location is an error.
func TestRedirect(t *testing.T) {
	rows := map[string]struct {
		to    func(path string) string
		paths []string
		works bool
	}{
		"relative to the previous one": {func(path string) string {
			return map[string]string{"/mcp": "/a/b/", "/a/b/": "c"}[path]
		}, []string{"/mcp", "/a/b/", "/a/b/c"}, true},
		"without end":        {func(string) string { return "/mcp" }, []string{"/mcp", "/mcp", "/mcp", "/mcp", "/mcp", "/mcp"}, false},
		"without a Location": {func(string) string { return "" }, []string{"/mcp"}, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			var mu sync.Mutex
			var paths []string
			web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				mu.Lock()
				paths = append(paths, r.URL.Path)
				last := row.works && len(paths) == len(row.paths)
				mu.Unlock()
				if last {
					writeResult(w, id, helloResult)
					return
				}
				if to := row.to(r.URL.Path); to != "" {
					w.Header().Set("Location", to)
				}
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			s := openSession(t, specFor(web.URL+"/mcp"))
			_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
			require.Equal(t, row.works, err == nil, "%v", err)
			require.Equal(t, row.paths, paths)
			require.Nil(t, s.Cause())
		})
	}
}

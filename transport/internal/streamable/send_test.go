package streamable

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
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
			require.Equal(t, mcpvisor.ErrUnavailable, e.Kind)
			require.Len(t, web.requests("tools/call"), 4)
			m.mu.Lock()
			m.killNew = false
			m.mu.Unlock()
			requireServing(t, s)
		})
	}
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

// Frames of HTTP/2 (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7

	flagEnd, flagAck, flagEndHeaders = 1, 1, 4
)

// rawHTTP2Server is an MCP server that writes its HTTP/2 frames itself, so that a test can
// replace them.
type rawHTTP2Server struct {
	addr   string
	client *http.Client
	mu     sync.Mutex
	conns  []net.Conn
	calls  int
	// onCall replaces the answer to call n, counted from 1, unless it returns false.
	onCall func(h *h2conn, stream uint32, n int) bool
}

// h2conn is one connection of a rawHTTP2Server. The goroutine of serve owns it.
type h2conn struct {
	net.Conn
	server *rawHTTP2Server
	bodies map[uint32][]byte
}

func newRawHTTP2Server(t *testing.T) *rawHTTP2Server {
	t.Helper()
	checkLeaks(t)
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	certified.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	s := &rawHTTP2Server{addr: l.Addr().String(), client: certified.Client()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			serving.Go((&h2conn{Conn: conn, server: s, bodies: make(map[uint32][]byte)}).serve)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			_ = conn.Close()
		}
		s.mu.Unlock()
		serving.Wait()
	})
	return s
}

func (s *rawHTTP2Server) seen() (calls, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, len(s.conns)
}

func (h *h2conn) serve() {
	defer h.Close()
	if _, err := io.CopyN(io.Discard, h, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	h.send(frameSettings, 0, 0, nil)
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(h, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(h, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case (kind == frameSettings || kind == framePing) && flags&flagAck == 0:
			if kind == frameSettings {
				payload = nil
			}
			h.send(kind, flagAck, 0, payload)
		case kind == frameData || kind == frameHeaders:
			if kind == frameData {
				h.bodies[stream] = append(h.bodies[stream], payload...)
			}
			if flags&flagEnd != 0 {
				h.answer(stream, h.bodies[stream])
			}
		}
	}
}

func (h *h2conn) send(kind, flags byte, stream uint32, payload []byte) {
	frame := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	_, _ = h.Write(append(binary.BigEndian.AppendUint32(frame, stream), payload...))
}

func (h *h2conn) answer(stream uint32, body []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(body, &m)
	var result string
	switch {
	case m.ID == nil: // ":status" by its index in the static table, and its value
		code := map[bool]string{true: "202", false: "405"}[m.Method != ""]
		h.send(frameHeaders, flagEndHeaders|flagEnd, stream, append([]byte{8, 3}, code...))
		return
	case m.Method == "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"1"}}`
	case m.Method == "tools/call":
		h.server.mu.Lock()
		h.server.calls++
		n := h.server.calls
		h.server.mu.Unlock()
		if h.server.onCall(h, stream, n) {
			return
		}
		result = `{"a":"hello"}`
	default:
		result = `{}`
	}
	h.send(frameHeaders, flagEndHeaders, stream, []byte{0x88}) // :status 200
	h.send(frameData, flagEnd, stream, bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), m.ID, []byte(`,"result":` + result + `}`)}, nil))
}

func (h *h2conn) reset(stream, code uint32) {
	h.send(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

const (
	h2Protocol = 1 // PROTOCOL_ERROR
	h2Refused  = 7 // REFUSED_STREAM
)

// openRawHTTP2 opens a legacy session.
func openRawHTTP2(t *testing.T, web *rawHTTP2Server, onCall func(h *h2conn, stream uint32, n int) bool) *session {
	t.Helper()
	web.onCall = onCall
	spec := specFor("https://" + web.addr)
	spec.Era = mcpvisor.EraLegacy
	spec.HTTP.Client = web.client
	return openSession(t, spec)
}

// A request that an HTTP/2 server declares unprocessed is sent again. Servers declare that
// when they restart.
func TestHTTP2_unprocessedRepeated(t *testing.T) {
	rows := map[string]func(h *h2conn, stream uint32){
		"REFUSED_STREAM": func(h *h2conn, stream uint32) { h.reset(stream, h2Refused) },
		"GOAWAY": func(h *h2conn, stream uint32) {
			h.send(frameGoAway, 0, 0, append(binary.BigEndian.AppendUint32(nil, stream-2), 0, 0, 0, 0))
		},
	}
	for name, reject := range rows {
		t.Run(name, func(t *testing.T) {
			web := newRawHTTP2Server(t)
			s := openRawHTTP2(t, web, func(h *h2conn, stream uint32, n int) bool {
				if n == 2 {
					reject(h, stream)
				}
				return n == 2
			})
			requireServing(t, s)
			requireServing(t, s)
			calls, conns := web.seen()
			require.Equal(t, 3, calls)
			require.Equal(t, map[string]int{"REFUSED_STREAM": 1, "GOAWAY": 2}[name], conns)
		})
	}
}

// A request that the server always declares unprocessed is repeated a bounded number of
// times, and then fails as not sent.
func TestHTTP2_unprocessedAlways(t *testing.T) {
	web := newRawHTTP2Server(t)
	s := openRawHTTP2(t, web, func(h *h2conn, stream uint32, _ int) bool {
		h.reset(stream, h2Refused)
		return true
	})
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.ErrUnavailable, e.Kind, e.Error())
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	calls, _ := web.seen()
	require.Equal(t, 1+endpoint.MaxUnprocessedRetries, calls)
	require.Nil(t, s.Cause())
}

// A request whose stream ends in another way is not sent again, because the server may
// have acted on it.
func TestHTTP2_resetNotRepeated(t *testing.T) {
	web := newRawHTTP2Server(t)
	s := openRawHTTP2(t, web, func(h *h2conn, stream uint32, n int) bool {
		h.reset(stream, h2Protocol)
		return n > 0
	})
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
	calls, _ := web.seen()
	require.Equal(t, 1, calls, "the call ran twice")
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
}

// A session connects with the dial function of the application's transport, whichever of
// the four fields of http.Transport has it.
func TestHostDialFunctions(t *testing.T) {
	web := newHTTPServer(t)
	secure := httptest.NewTLSServer(web)
	t.Cleanup(secure.Close)
	var dialled atomic.Int32
	open := func(ctx context.Context, network, _ string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, web.Listener.Addr().String())
	}
	secured := func(ctx context.Context, network, _ string) (net.Conn, error) {
		dialled.Add(1)
		trusting := secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		trusting.ServerName = "example.com"
		return (&tls.Dialer{Config: trusting}).DialContext(ctx, network, secure.Listener.Addr().String())
	}
	rows := map[string]struct {
		url  string
		with *http.Transport
	}{
		"Dial":        {"http://mcp.invalid/", &http.Transport{Dial: withoutContext(open)}}, //nolint:staticcheck // the deprecated field is tested
		"DialContext": {"http://mcp.invalid/", &http.Transport{DialContext: open}},
		"DialContext over Dial": {"http://mcp.invalid/", &http.Transport{DialContext: open,
			Dial: func(string, string) (net.Conn, error) { return nil, errors.New("not this one") }}}, //nolint:staticcheck // the deprecated field is tested
		"DialTLS":        {"https://mcp.invalid/", &http.Transport{DialTLS: withoutContext(secured)}}, //nolint:staticcheck // the deprecated field is tested
		"DialTLSContext": {"https://mcp.invalid/", &http.Transport{DialTLSContext: secured}},
		"DialTLSContext, layered": {"https://mcp.invalid/", &http.Transport{DialTLSContext: func(ctx context.Context, n, a string) (net.Conn, error) {
			conn, err := secured(ctx, n, a)
			return struct{ net.Conn }{conn}, err
		}}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			dialled.Store(0)
			spec := specFor(row.url)
			spec.HTTP.Client = &http.Client{Transport: row.with}
			s := openSession(t, spec)
			requireServing(t, s)
			require.Positive(t, dialled.Load())
			s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		})
	}
}

// withoutContext makes a dial function of the deprecated type.
func withoutContext(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(network, addr string) (net.Conn, error) {
	return func(network, addr string) (net.Conn, error) { return dial(context.Background(), network, addr) }
}

// A DialTLSContext of the application does not prevent HTTP/2.
func TestHostDialFunctions_http2(t *testing.T) {
	web := newRawHTTP2Server(t)
	config := web.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	web.client = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		DialTLSContext: (&tls.Dialer{Config: config}).DialContext}}
	requireServing(t, openRawHTTP2(t, web, func(*h2conn, uint32, int) bool { return false }))
}

// The release of the session also closes a connection that no exchange has used.
func TestRelease_closesConnections(t *testing.T) {
	web := newHTTPServer(t)
	s := openSession(t, specFor(web.URL))
	conn, err := s.server.endpoint.RoundTripper.(*http.Transport).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(transporttest.Patience)))
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}

// proxyFor returns a client whose proxy answers every request with a status, and the
// address of the proxy.
func proxyFor(t *testing.T, code int) (client *http.Client, address string) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	address = u.Host
	u.User = url.UserPassword("carol", "canary-9f3b")
	own := &http.Transport{Proxy: http.ProxyURL(u)}
	t.Cleanup(own.CloseIdleConnections)
	return &http.Client{Transport: own}, address
}

// The error of a rejected CONNECT names the proxy.
func TestProxy_refusesConnect(t *testing.T) {
	rows := []struct {
		code int
		kind supervisor.CauseKind
		want string
		hint string
	}{
		{407, supervisor.CauseAuth, "HTTP 407 Proxy Authentication Required", "user and password"},
		{403, supervisor.CauseSpawn, "HTTP 403 Forbidden", "allow"},
		{502, supervisor.CauseSpawn, "HTTP 502 Bad Gateway", "reach"},
		{504, supervisor.CauseSpawn, "HTTP 504 Gateway Timeout", "reach"},
	}
	for _, row := range rows {
		t.Run(row.want, func(t *testing.T) {
			checkLeaks(t)
			client, address := proxyFor(t, row.code)
			spec := specFor("https://mcp.invalid/mcp")
			spec.HTTP.Client = client
			cause := requireOpenFails(t, spec)
			require.Contains(t, cause.Message, "the proxy "+address+" refused to connect to mcp.invalid:443: "+row.want)
			require.Contains(t, cause.Message, row.hint)
			require.Equal(t, row.kind, cause.Kind)
			require.Equal(t, row.code == 407, cause.Permanent)
			require.NotContains(t, cause.Message+cause.Err.Error(), "canary")
		})
	}
}

// An OnProxyConnectResponse hook of the application is called, and its error counts.
func TestProxy_hostHook(t *testing.T) {
	checkLeaks(t)
	client, _ := proxyFor(t, 502)
	spec := specFor("https://mcp.invalid/mcp")
	spec.HTTP.Client = client
	hookMethod := ""
	client.Transport.(*http.Transport).OnProxyConnectResponse = func(_ context.Context, _ *url.URL, req *http.Request, _ *http.Response) error {
		hookMethod = req.Method
		return errors.New("the application rejects it")
	}
	cause := requireOpenFails(t, spec)
	require.Equal(t, http.MethodConnect, hookMethod)
	require.Contains(t, cause.Message, "the application rejects it")
}

// A 407 to a request over plain http is an error about the credentials of the proxy, and not
// about those of the server.
func TestProxy_answersForServer(t *testing.T) {
	checkLeaks(t)
	client, _ := proxyFor(t, 407)
	spec := specFor("http://mcp.invalid/mcp")
	spec.HTTP.Client = client
	cause := requireOpenFails(t, spec)
	require.Contains(t, cause.Message, "proxy")
	require.NotContains(t, cause.Message, "headers of this server")
	require.NotContains(t, cause.Message, "canary")
}

package facade_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// breakable is a legacy server over Streamable HTTP that works until the tool "break" is
// called. From then on it answers what breaks accepts as refuse does.
type breakable struct {
	*httptest.Server
	refuse refusal
	breaks func(method string) bool // nil: all but initialize, which mends the server
	stream string                   // sent again and again on the event stream; empty: no stream

	mu       sync.Mutex
	broken   bool
	sessions int
	received map[string]int // by method
}

// refusal answers a request with this id.
type refusal func(w http.ResponseWriter, id json.RawMessage)

// status answers with an HTTP status. In body, %s is the id of the request.
func status(code int, kind, body string) refusal {
	return func(w http.ResponseWriter, id json.RawMessage) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, replaceID(body, id))
	}
}

func replaceID(body string, id json.RawMessage) string {
	if body == "" || body[0] != '{' {
		return body
	}
	return fmt.Sprintf(body, string(id))
}

// rpcError answers with a JSON-RPC error that has the id of the request.
func rpcError(code int, message string) refusal {
	return status(code, "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"`+message+`"}}`)
}

// rpcErrorNoID answers with a JSON-RPC error whose id is null.
func rpcErrorNoID(code int, message string) refusal {
	return status(code, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"`+message+`"},"for":%s}`)
}

func newBreakable(t *testing.T, refuse refusal) *breakable {
	t.Helper()
	s := &breakable{refuse: refuse, received: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *breakable) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[method]
}

func (s *breakable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && s.stream != "" {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			_, _ = io.WriteString(w, s.stream)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name            string
			ProtocolVersion string
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received[m.Method]++
	if m.Method == "initialize" && s.breaks == nil {
		s.broken = false
	}
	if s.broken && (s.breaks == nil || s.breaks(m.Method)) {
		s.refuse(w, m.ID)
		return
	}
	result := `{}`
	switch m.Method {
	case "server/discover":
		rpcError(200, "Method not found")(w, m.ID)
		return
	case "initialize":
		s.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("session-", s.sessions))
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"breakable","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"break","inputSchema":{"type":"object"}},{"name":"hello","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		s.broken = s.broken || m.Params.Name == "break"
		result = `{"content":[{"type":"text","text":"ok"}]}`
	default:
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// register registers the server and breaks it. A ping has succeeded before, if it can.
func (s *breakable) register(t *testing.T, policy supervisor.Policy) *facade.Client {
	t.Helper()
	c := registered(t, mcpvisor.ServerSpec{Name: "h", HTTP: &mcpvisor.HTTP{URL: s.URL}, Policy: policy,
		Probe: mcpvisor.Probe{Interval: 10 * time.Millisecond, Timeout: 30 * time.Second, Failures: 2}})
	s.waitFor(t, "ping", 1)
	_, err := c.CallTool(t.Context(), "h/break", nil)
	require.NoError(t, err)
	return c
}

// waitFor waits until the server has received this many more requests of a method.
func (s *breakable) waitFor(t *testing.T, method string, more int) {
	t.Helper()
	before := s.count(method)
	require.Eventually(t, func() bool { return s.count(method) >= before+more }, testWait, time.Millisecond, method)
}

func requireState(t *testing.T, c *facade.Client, want supervisor.State) mcpvisor.ServerStatus {
	t.Helper()
	var got mcpvisor.ServerStatus
	require.Eventually(t, func() bool { got, _ = c.ServerStatus("h"); return got.State == want }, testWait, time.Millisecond,
		"want %s, is %s", want, got.State)
	return got
}

// testWait is longer than a busy machine needs.
const testWait = time.Minute

var anyMethod = func(string) bool { return true }

// An answer that no MCP server has given in the session is no sign of life.
func TestHTTP_probe_of_dead_backend_fails(t *testing.T) {
	const page = "<!doctype html><html><title>Sign in</title></html>"
	for name, refuse := range map[string]refusal{
		"502":                      status(502, "text/html", page),
		"503":                      status(503, "text/plain", "no backend"),
		"504":                      status(504, "text/plain", "timeout"),
		"502 with JSON-RPC":        rpcError(502, "no backend"),
		"503 with JSON-RPC, no id": rpcErrorNoID(503, "no backend"),
		"200 page":                 status(200, "text/html", page),
		"200 page as text":         status(200, "text/plain", page),
		"200 empty":                status(200, "application/json", ""),
		"202 empty":                status(202, "", ""),
		"204":                      status(204, "", ""),
		"200 text":                 status(200, "text/plain", "welcome"),
		"200 JSON":                 status(200, "application/json", `{"status":"up","id":%s}`),
		"200 another id":           status(200, "application/json", `{"jsonrpc":"2.0","id":"no %s","result":{}}`),
		"200 empty event stream":   status(200, "text/event-stream", ": heartbeat\n\n"),
		"302 to a login": func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Location", "https://login.invalid/")
			w.WriteHeader(302)
		},
		"500 for everything": status(500, "text/plain", "internal error"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBreakable(t, refuse)
			s.breaks = anyMethod
			c := s.register(t, supervisor.Retry(3, time.Hour))
			got := requireState(t, c, supervisor.StateBackoff)
			require.Contains(t, []supervisor.CauseKind{supervisor.CauseProbe, supervisor.CauseClosed}, got.LastCause.Kind, got.LastCause.Message)
		})
	}
}

// What a proxy keeps open and sends on the event stream does not hide that requests fail.
func TestHTTP_probe_of_dead_backend_fails_beside_a_stream(t *testing.T) {
	for name, stream := range map[string]string{
		"comments":      ": heartbeat\n\n",
		"notifications": `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n\n",
		"answers":       `data: {"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n",
		"progress":      `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99,"progress":1}}` + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBreakable(t, status(502, "text/plain", "no backend"))
			s.breaks, s.stream = anyMethod, stream
			requireState(t, s.register(t, supervisor.Retry(3, time.Hour)), supervisor.StateBackoff)
		})
	}
}

// Failing calls do not put the probes off.
func TestHTTP_failing_calls_are_no_sign_of_life(t *testing.T) {
	s := newBreakable(t, status(502, "text/plain", "no backend"))
	s.breaks = anyMethod
	c := s.register(t, supervisor.Retry(3, time.Hour))
	require.Eventually(t, func() bool {
		_, _ = c.CallTool(t.Context(), "h/hello", nil)
		got, _ := c.ServerStatus("h")
		return got.State == supervisor.StateBackoff
	}, testWait, time.Millisecond)
}

// Without a token to renew, a server that refuses the credentials is unauthorized.
func TestHTTP_probe_refused_is_unauthorized(t *testing.T) {
	for _, code := range []int{401, 403, 407} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s := newBreakable(t, status(code, "text/plain", "who are you"))
			s.breaks = anyMethod
			got := requireState(t, s.register(t, supervisor.Retry(3, time.Hour)), supervisor.StateUnauthorized)
			require.Equal(t, supervisor.CauseAuth, got.LastCause.Kind)
		})
	}
}

// A server that answers calls stays ready, whatever it thinks of pings.
func TestHTTP_server_without_pings_stays_ready(t *testing.T) {
	for name, refuse := range map[string]refusal{
		"unknown method":      rpcError(200, "Method not found"),
		"unknown method, 404": rpcErrorNoID(400, "Method not found"),
		"405":                 status(405, "text/plain", "no"),
		"400":                 status(400, "text/plain", "no"),
		"403":                 status(403, "text/plain", "blocked by policy"),
		"500":                 status(500, "text/plain", "oops"),
		"429":                 status(429, "text/plain", "slow down"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBreakable(t, refuse)
			s.breaks, s.broken = func(method string) bool { return method == "ping" }, true
			c := s.register(t, supervisor.NoRetry())
			s.waitFor(t, "ping", 10)
			_, err := c.CallTool(t.Context(), "h/hello", nil)
			require.NoError(t, err)
			got, _ := c.ServerStatus("h")
			require.EqualValues(t, 1, got.Epoch)
		})
	}
}

// A server whose calls work, and that refuses the pings of each session after some, is
// replaced once and not again: a new session does not help it.
func TestHTTP_server_that_refuses_later_pings_is_replaced_once(t *testing.T) {
	for name, refuse := range map[string]refusal{
		"status":   status(400, "text/plain", "no more pings"),
		"JSON-RPC": rpcError(200, "no more pings"),
		"403":      status(403, "text/plain", "no more pings"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBreakable(t, refuse)
			s.breaks = func(method string) bool { return method == "ping" && s.received[method]%7 != 0 }
			c := s.register(t, supervisor.Retry(1, time.Millisecond, supervisor.WithStableAfter(time.Millisecond)))
			for range 10 { // epochs, if each session were replaced
				s.waitFor(t, "ping", 14)
			}
			requireState(t, c, supervisor.StateReady)
			_, err := c.CallTool(t.Context(), "h/hello", nil)
			require.NoError(t, err)
			got, _ := c.ServerStatus("h")
			require.LessOrEqual(t, got.Epoch, uint64(2))
		})
	}
}

// The cause of a server whose probes fail because of its certificate names the
// certificate.
func TestProbe_cause_names_expired_certificate(t *testing.T) {
	mcp := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(mcp.Close)
	target, err := url.Parse(mcp.URL)
	require.NoError(t, err)
	valid, roots := certificate(t, time.Now().Add(time.Hour))
	expired, _ := certificate(t, time.Now().Add(-time.Hour))
	var served atomic.Pointer[tls.Certificate]
	served.Store(valid)
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.URL.Path = target.Path }})
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*served.Load()}, MinVersion: tls.VersionTLS12}, nil
	}}
	front.StartTLS()
	t.Cleanup(front.Close)

	c := registered(t, mcpvisor.ServerSpec{Name: "web", Policy: supervisor.Retry(3, time.Hour),
		HTTP: &mcpvisor.HTTP{URL: front.URL, Client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}},
		Probe: mcpvisor.Probe{Interval: 10 * time.Millisecond, Timeout: 5 * time.Second, Failures: 2}})
	served.Store(expired)
	front.CloseClientConnections()
	var cause string
	require.Eventually(t, func() bool {
		s, ok := c.ServerStatus("web")
		if !ok || s.LastCause == nil {
			return false
		}
		cause = s.LastCause.Message
		return true
	}, 10*time.Second, 5*time.Millisecond)
	require.Contains(t, cause, "liveness probes")
	require.Contains(t, cause, "has expired")
}

// certificate makes a certificate for 127.0.0.1, valid until end, and the pool
// that trusts it.
func certificate(t *testing.T, end time.Time) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: end.Add(-24 * time.Hour), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// 429 is an answer of a server that lives.
func TestHTTP_probe_limited_is_alive(t *testing.T) {
	s := newBreakable(t, func(w http.ResponseWriter, _ json.RawMessage) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	s.breaks = anyMethod
	c := s.register(t, supervisor.NoRetry())
	s.waitFor(t, "ping", 10)
	requireState(t, c, supervisor.StateReady)
}

// Errors of calls are no reason to end a session.
func TestHTTP_session_with_failing_calls_is_kept(t *testing.T) {
	for name, refuse := range map[string]refusal{
		"JSON-RPC": rpcError(200, "Unknown tool"),
		"400":      rpcErrorNoID(400, "Invalid arguments: session not found"),
		"500":      status(500, "text/plain", "oops"),
		"410":      status(410, "text/plain", "that file is gone"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBreakable(t, refuse)
			s.breaks = func(method string) bool { return method == "tools/call" }
			c := s.register(t, supervisor.NoRetry())
			for range 3 {
				_, err := c.CallTool(t.Context(), "h/hello", nil)
				require.Error(t, err)
				s.waitFor(t, "ping", 2)
			}
			got := requireState(t, c, supervisor.StateReady)
			require.EqualValues(t, 1, got.Epoch)
		})
	}
}

package safehttp

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
)

// A server on the internet cannot name an address of this machine or one without TLS.
func TestCheckScheme(t *testing.T) {
	for _, c := range []struct {
		server, address string
		want            bool
	}{
		{"https://mcp.example/mcp", "https://auth.example/x", true},
		{"https://mcp.example/mcp", "http://auth.example/x", false},
		{"https://mcp.example/mcp", "http://mcp.example/x", false},
		{"https://mcp.example/mcp", "http://127.0.0.1:8080/x", false},
		{"https://mcp.example/mcp", "http://169.254.169.254/latest", false},
		{"https://mcp.example/mcp", "javascript:alert(1)", false},
		{"https://mcp.example/mcp", "https://user@auth.example/", false},
		{"https://mcp.example/mcp", "file:///etc/passwd", false},
		{"http://mcp.internal/mcp", "http://mcp.internal:9000/x", true},
		{"http://mcp.internal/mcp", "http://127.0.0.1/x", false},
		{"http://localhost:1/mcp", "http://127.0.0.1:2/x", true},
		{"http://[::1]:1/mcp", "http://localhost/x", true},
	} {
		server, err := url.Parse(c.server)
		require.NoError(t, err)
		address, err := url.Parse(c.address)
		require.NoError(t, err)
		require.Equal(t, c.want, New(server, &mcpvisor.HTTP{}).checkScheme(address) == nil, "%s names %s", c.server, c.address)
	}
}

// An error on the way to a server is temporary, unless it is about the identity of the
// server.
func TestDo_temporary_errors(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	srv.EnableHTTP2 = true // its errors are not of type net.Error
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	server, err := url.Parse(srv.URL)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		client    *http.Client
		address   string
		temporary bool
	}{
		"stream_reset":        {srv.Client(), srv.URL, true},
		"connection_refused":  {nil, "https://127.0.0.1:1/", true},
		"unknown_certificate": {nil, srv.URL, false},
		"plain_HTTP":          {nil, "http://mcp.example/", false},
	} {
		client := New(server, &mcpvisor.HTTP{Client: c.client})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.address, strings.NewReader("x"))
		require.NoError(t, err)
		_, _, _, err = client.Do(req)
		_, temporary := IsTemporary(err)
		require.Equal(t, c.temporary, temporary, "%s: %v", name, err)
	}
}

// The headers of the spec are sent to the server's own origin only, also after a
// redirect.
func TestGetJSON_headers_of_the_spec(t *testing.T) {
	seen := make(chan string, 4)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Key")
		answerEmpty(w, r)
	}))
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Key")
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer own.Close()
	server, err := url.Parse(own.URL)
	require.NoError(t, err)
	c := New(server, &mcpvisor.HTTP{Headers: map[string]string{"X-Key": "secret-key"}})
	var d map[string]any
	require.NoError(t, c.GetJSON(t.Context(), own.URL, &d))
	require.Equal(t, "secret-key", <-seen)
	require.Empty(t, <-seen)
}

func TestGetJSON_endless_redirects(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }))
	defer site.Close()
	server, err := url.Parse(site.URL + "/mcp")
	require.NoError(t, err)
	var d map[string]any
	err = New(server, &mcpvisor.HTTP{}).GetJSON(t.Context(), site.URL, &d)
	require.ErrorContains(t, err, "more than 5 redirects")
	_, temporary := IsTemporary(err)
	require.False(t, temporary)
}

// roundTripper is a RoundTripper that the host supplies.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answerWith(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// errDown is the error of a connection to a server that is not running.
var errDown error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// outageOf makes connections to host fail while the returned pointer holds an error.
func (n *network) outageOf(host string) *atomic.Pointer[error] {
	t, outage := n.RoundTripper.(*http.Transport), new(atomic.Pointer[error])
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if name, _, _ := net.SplitHostPort(addr); name == host {
			if why := outage.Load(); why != nil {
				return nil, *why
			}
		}
		return dial(ctx, network, addr)
	}
	return outage
}

// While the server is down, the class of its address is unknown. Internal addresses
// are then blocked with a temporary error, and allowed again after the outage.
func TestGetJSON_internal_address_while_server_is_down(t *testing.T) {
	for name, why := range map[string]error{
		"connection_refused": errDown,
		"name_not_resolved":  &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "mcp.corp", IsNotFound: true}},
		"context_ended":      context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, testHosts, answerEmpty)
			outage := n.outageOf("mcp.corp")
			outage.Store(&why)
			c := n.client(t, "https://mcp.corp/mcp")
			var into struct{}
			for _, address := range []string{"https://as.corp/x", "https://10.9.9.9/x"} {
				err := c.GetJSON(t.Context(), address, &into)
				require.ErrorIs(t, err, why, address)
				require.False(t, isPermanent(err), "%s: the outage will end: %v", address, err)
				_, temporary := IsTemporary(err)
				require.True(t, temporary, address)
				_, temporary = IsTemporary(c.CheckURL(t.Context(), "token endpoint", "https://10.9.9.9/token"))
				require.True(t, temporary, address)
			}
			require.Zero(t, n.seen.Load(), "nothing was sent")
			require.True(t, isPermanent(c.GetJSON(t.Context(), "https://127.1/x", &into)), "no server may name it")
			outage.Store(nil)
			require.NoError(t, c.GetJSON(t.Context(), "https://as.corp/x", &into))
			require.NoError(t, c.GetJSON(t.Context(), "https://10.9.9.9/x", &into))
		})
	}
}

// A public server cannot get an internal address allowed by refusing connections.
func TestGetJSON_internal_address_while_public_server_is_down(t *testing.T) {
	n := newNetwork(t, testHosts, answerEmpty)
	outage := n.outageOf("mcp.example")
	outage.Store(&errDown)
	c := n.client(t, "https://mcp.example/mcp")
	var into struct{}
	for _, address := range []string{"https://as.corp/x", "https://meta.evil/x", "https://127.0.0.1/x"} {
		require.ErrorIs(t, c.GetJSON(t.Context(), address, &into), errDown, address)
	}
	outage.Store(nil)
	for _, address := range []string{"https://as.corp/x", "https://meta.evil/x", "https://127.0.0.1/x"} {
		require.True(t, isPermanent(c.GetJSON(t.Context(), address, &into)), address)
	}
	require.Zero(t, n.seen.Load(), "nothing was sent")
}

// One trusted address that allows the class is enough.
func TestGetJSON_internal_address_while_one_trusted_address_is_down(t *testing.T) {
	n := newNetwork(t, testHosts, answerEmpty)
	n.outageOf("mcp.corp").Store(&errDown)
	c := n.client(t, "https://mcp.corp/mcp", "https://as.corp")
	var into struct{}
	require.NoError(t, c.GetJSON(t.Context(), "https://private.evil/x", &into))
	require.ErrorIs(t, c.GetJSON(t.Context(), "https://local.evil/x", &into), errDown)
}

// With a RoundTripper of the host's the name of the server is only resolved. The empty
// label makes that fail without a query to a name server.
func TestCheckURL_host_RoundTripper_while_name_does_not_resolve(t *testing.T) {
	n := newNetwork(t, testHosts, answerEmpty)
	n.RoundTripper = roundTripper(n.RoundTripper.RoundTrip)
	c := n.client(t, "https://mcp..invalid/mcp")
	err := c.CheckURL(t.Context(), "token endpoint", "https://10.9.9.9/token")
	_, temporary := IsTemporary(err)
	require.True(t, temporary, "%v", err)
}

// A Proxy function that fails is a temporary error.
func TestCheckURL_internal_address_while_Proxy_function_fails(t *testing.T) {
	n := newNetwork(t, testHosts, answerEmpty)
	errProxy := errors.New("no proxy is known yet")
	n.RoundTripper.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) { return nil, errProxy }
	err := n.client(t, "https://mcp.corp/mcp").CheckURL(t.Context(), "token endpoint", "https://10.9.9.9/token")
	require.ErrorIs(t, err, errProxy)
	_, temporary := IsTemporary(err)
	require.True(t, temporary)
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]addrClass{
		"93.184.216.34": classPublic, "2606:2800:220:1::1": classPublic, "172.32.0.1": classPublic, "100.128.0.1": classPublic,
		"10.1.2.3": classPrivate, "172.16.0.1": classPrivate, "192.168.1.1": classPrivate, "100.64.0.1": classPrivate,
		"fd00::1": classPrivate, "fec0::1": classPrivate, "198.18.0.7": classPrivate,
		"169.254.169.254": classLinkLocal, "fe80::1": classLinkLocal, "fe80::1%eth0": classLinkLocal,
		"127.0.0.1": classLoopback, "127.9.9.9": classLoopback, "::1": classLoopback, "0.0.0.0": classLoopback, "::": classLoopback, "0.1.2.3": classLoopback,
		"::ffff:127.0.0.1": classLoopback, "::ffff:10.0.0.1": classPrivate, "::ffff:169.254.169.254": classLinkLocal, "::ffff:1.1.1.1": classPublic,
		"64:ff9b::7f00:1": classLoopback, "64:ff9b::a00:1": classPrivate, "64:ff9b::101:101": classPublic, "2002:7f00:1::": classLoopback, "2002:a9fe:a9fe::1": classLinkLocal,
		"::127.0.0.1": classLoopback, "224.0.0.1": classInvalid, "ff02::1": classInvalid, "255.255.255.255": classInvalid,
	} {
		require.Equal(t, want, classify(netip.MustParseAddr(text)), text)
	}
	for text, want := range map[string]addrClass{
		"localhost": classLoopback, "LocalHost.": classLoopback, "a.localhost": classLoopback, "127.0.0.1": classLoopback, "fe80::1%eth0": classLinkLocal,
		"127.1": classInvalid, "2130706433": classInvalid, "0x7f000001": classInvalid, "0x7f.1": classInvalid, "127.0.0.1.": classLoopback, "0177.0.0.1": classInvalid, "": classInvalid,
	} {
		got, known := classifyHost(text)
		require.True(t, known, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"mcp.example", "10.example", "3scale", "localhost.example", "face", "0xyz"} {
		_, known := classifyHost(text)
		require.False(t, known, text)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

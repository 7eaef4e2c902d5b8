package safehttp

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// fakePeer is a connection that reports another remote address.
type fakePeer struct {
	net.Conn
	remote net.Addr
}

func (f fakePeer) RemoteAddr() net.Addr { return f.remote }

// network is a RoundTripper that resolves names to the addresses of a table, and
// connects all of them to one server. seen counts its requests.
type network struct {
	http.RoundTripper
	seen  atomic.Int32
	dials atomic.Int32
	names map[string]string
}

func newNetwork(t *testing.T, names map[string]string, handler http.HandlerFunc) *network {
	t.Helper()
	n := &network{names: names}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.seen.Add(1)
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	n.RoundTripper = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			n.dials.Add(1)
			c, err := new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			host, _, _ := net.SplitHostPort(addr)
			if to := names[host]; to != "" {
				host = to
			}
			return fakePeer{c, &net.TCPAddr{IP: net.ParseIP(host), Port: 443}}, nil
		}}
	return n
}

func (n *network) client(t *testing.T, server string, trusted ...string) *Client {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	return New(u, &mcpvisor.HTTP{URL: server, Client: &http.Client{Transport: n.RoundTripper}}, trusted...)
}

func answerEmpty(w http.ResponseWriter, _ *http.Request) { answerWith(w, http.StatusOK, `{}`) }

// testHosts are names and the addresses that they resolve to.
var testHosts = map[string]string{
	"mcp.example": "93.184.216.34", "as.example": "93.184.216.35", "mcp.corp": "10.0.0.5", "as.corp": "10.0.0.6", "mcp.link": "169.254.7.7",
	"local.evil": "127.0.0.1", "mapped.evil": "::ffff:127.0.0.1", "meta.evil": "169.254.169.254", "private.evil": "192.168.0.1", "nat.evil": "64:ff9b::7f00:1",
}

// A request to a private, link-local or loopback address is blocked, whether it is
// literal or the result of a name lookup, unless the server has such an address.
func TestGetJSON_internal_address(t *testing.T) {
	for _, row := range []struct {
		server, address string
		want            bool
	}{
		{"https://mcp.example/mcp", "https://as.example/x", true},
		{"https://mcp.example/mcp", "https://mcp.example/x", true},
		{"https://mcp.example/mcp", "https://local.evil/x", false},
		{"https://mcp.example/mcp", "https://mapped.evil/x", false},
		{"https://mcp.example/mcp", "https://meta.evil/x", false},
		{"https://mcp.example/mcp", "https://private.evil/x", false},
		{"https://mcp.example/mcp", "https://nat.evil/x", false},
		{"https://mcp.example/mcp", "https://as.corp/x", false},
		{"https://mcp.example/mcp", "https://127.0.0.1/x", false},
		{"https://mcp.example/mcp", "https://[::1]/x", false},
		{"https://mcp.example/mcp", "https://[::ffff:127.0.0.1]/x", false},
		{"https://mcp.example/mcp", "https://[fe80::1%25eth0]/x", false},
		{"https://mcp.example/mcp", "https://localhost:8443/x", false},
		{"https://mcp.example/mcp", "https://127.1/x", false},
		{"https://mcp.example/mcp", "https://2130706433/x", false},
		{"https://mcp.corp/mcp", "https://as.corp/x", true},
		{"https://mcp.corp/mcp", "https://mcp.corp:8443/x", true},
		{"https://mcp.corp/mcp", "https://10.9.9.9/x", true},
		{"https://mcp.corp/mcp", "https://as.example/x", true},
		{"https://mcp.corp/mcp", "https://local.evil/x", false},
		{"https://mcp.corp/mcp", "https://meta.evil/x", false},
		{"https://mcp.link/mcp", "https://meta.evil/x", true},
		{"https://mcp.link/mcp", "https://as.corp/x", true},
		{"https://mcp.link/mcp", "https://localhost/x", false},
		{"https://localhost/mcp", "https://local.evil/x", true},
		{"https://127.0.0.1:9/mcp", "https://private.evil/x", true},
		{"https://127.0.0.1:9/mcp", "https://meta.evil/x", false},
		{"https://local.evil/mcp", "https://127.0.0.1:7/x", true},
	} {
		t.Run(row.server+" names "+row.address, func(t *testing.T) {
			n := newNetwork(t, testHosts, answerEmpty)
			c := n.client(t, row.server)
			var into struct{}
			err := c.GetJSON(t.Context(), row.address, &into)
			if row.want {
				require.NoError(t, err)
				require.EqualValues(t, 1, n.seen.Load())
				return
			}
			require.ErrorContains(t, err, "not reached by such")
			require.True(t, isPermanent(err), "a second attempt is useless")
			require.Zero(t, n.seen.Load(), "nothing was sent")
		})
	}
}

// The target of a redirect is checked, too.
func TestGetJSON_redirect_to_internal_address(t *testing.T) {
	n := newNetwork(t, testHosts, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "as.example" {
			http.Redirect(w, r, "https://meta.evil/latest", http.StatusFound)
			return
		}
		answerEmpty(w, r)
	})
	var into struct{}
	require.ErrorContains(t, n.client(t, "https://mcp.example/mcp").GetJSON(t.Context(), "https://as.example/x", &into), "link-local")
	require.EqualValues(t, 1, n.seen.Load())
}

// The authorization endpoint is opened by a browser, so only its text is checked.
func TestCheckURL_private_address(t *testing.T) {
	c := newNetwork(t, testHosts, answerEmpty).client(t, "https://mcp.example/mcp")
	require.ErrorContains(t, c.CheckURL(t.Context(), "authorization endpoint", "https://192.168.0.1/reboot"), "the authorization endpoint: the address 192.168.0.1 is a private address")
	require.NoError(t, c.CheckURL(t.Context(), "authorization endpoint", "https://as.example/authorize"))
}

// An address that the host configured may be anywhere.
func TestGetJSON_trusted_address(t *testing.T) {
	n := newNetwork(t, testHosts, answerEmpty)
	var into struct{}
	for _, trusted := range [][]string{{"https://as.corp", ""}, {"", "https://as.corp/token"}} {
		c := n.client(t, "https://mcp.example/mcp", trusted...)
		require.NoError(t, c.GetJSON(t.Context(), "https://as.corp/x", &into))
		require.NoError(t, c.GetJSON(t.Context(), "https://private.evil/x", &into), "its endpoints may be in the same network")
		require.Error(t, c.GetJSON(t.Context(), "https://local.evil/x", &into))
	}
}

// The standard dialer blocks an address before the socket connects.
func TestDialer_blocks_before_connect(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
			connected <- struct{}{}
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	server := &url.URL{Scheme: "https", Host: "93.184.216.34", Path: "/mcp"}
	for name, client := range map[string]*http.Client{"default": nil, "empty": {}, "zero_transport": {Transport: &http.Transport{}}} {
		c := New(server, &mcpvisor.HTTP{Client: client})
		// The context stands for a name that resolves to this machine.
		ctx := context.WithValue(t.Context(), destinationKey{}, &destination{host: "as.example"})
		conn, err := c.http.Transport.(*checkedTransport).base.(*http.Transport).DialContext(ctx, "tcp", "localhost:"+port)
		if err == nil {
			_ = conn.Close()
		}
		require.ErrorContains(t, err, "a loopback address", name)
	}
	require.NoError(t, l.Close())
	_, was := <-connected
	require.False(t, was, "the socket connected")
}

// A proxy makes its own connections, so only the text of the address is checked.
func TestGetJSON_behind_proxy(t *testing.T) {
	n := newNetwork(t, map[string]string{"proxy.corp": "10.0.0.1"}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			answerEmpty(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	n.RoundTripper.(*http.Transport).Proxy = http.ProxyURL(&url.URL{Scheme: "https", Host: "proxy.corp"})
	c := n.client(t, "https://mcp.example/mcp")
	var into struct{}
	require.ErrorContains(t, c.GetJSON(t.Context(), "https://as.example/x", &into), "Bad Gateway")
	require.EqualValues(t, 1, n.seen.Load(), "the proxy itself may have a private address")
	require.ErrorContains(t, c.GetJSON(t.Context(), "https://127.0.0.1/x", &into), "a loopback address")
	require.EqualValues(t, 1, n.seen.Load())
}

// A RoundTripper of the host connects by itself, so only the text of the address is
// checked.
func TestGetJSON_host_RoundTripper(t *testing.T) {
	n := newNetwork(t, testHosts, answerEmpty)
	own := n.RoundTripper
	n.RoundTripper = roundTripper(func(r *http.Request) (*http.Response, error) { return own.RoundTrip(r) })
	t.Cleanup(own.(*http.Transport).CloseIdleConnections)
	c := n.client(t, "https://93.184.216.34/mcp")
	var into struct{}
	require.NoError(t, c.GetJSON(t.Context(), "https://as.example/x", &into))
	require.ErrorContains(t, c.GetJSON(t.Context(), "https://[::ffff:169.254.169.254]/x", &into), "a link-local address")
	require.ErrorContains(t, c.GetJSON(t.Context(), "https://localhost/x", &into), "a loopback address")
	require.EqualValues(t, 1, n.seen.Load())
}

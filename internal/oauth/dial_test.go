package oauth

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestReachOf(t *testing.T) {
	for text, want := range map[string]reach{
		"93.184.216.34": reachPublic, "2606:2800:220:1::1": reachPublic, "172.32.0.1": reachPublic, "100.128.0.1": reachPublic,
		"10.1.2.3": reachPrivate, "172.16.0.1": reachPrivate, "192.168.1.1": reachPrivate, "100.64.0.1": reachPrivate,
		"fd00::1": reachPrivate, "fec0::1": reachPrivate, "198.18.0.7": reachPrivate,
		"169.254.169.254": reachLinkLocal, "fe80::1": reachLinkLocal, "fe80::1%eth0": reachLinkLocal,
		"127.0.0.1": reachLoopback, "127.9.9.9": reachLoopback, "::1": reachLoopback, "0.0.0.0": reachLoopback, "::": reachLoopback, "0.1.2.3": reachLoopback,
		"::ffff:127.0.0.1": reachLoopback, "::ffff:10.0.0.1": reachPrivate, "::ffff:169.254.169.254": reachLinkLocal, "::ffff:1.1.1.1": reachPublic,
		"64:ff9b::7f00:1": reachLoopback, "64:ff9b::a00:1": reachPrivate, "64:ff9b::101:101": reachPublic, "2002:7f00:1::": reachLoopback, "2002:a9fe:a9fe::1": reachLinkLocal,
		"::127.0.0.1": reachLoopback, "224.0.0.1": reachNowhere, "ff02::1": reachNowhere, "255.255.255.255": reachNowhere,
	} {
		require.Equal(t, want, reachOf(netip.MustParseAddr(text)), text)
	}
	for text, want := range map[string]reach{
		"localhost": reachLoopback, "LocalHost.": reachLoopback, "a.localhost": reachLoopback, "127.0.0.1": reachLoopback, "fe80::1%eth0": reachLinkLocal,
		"127.1": reachNowhere, "2130706433": reachNowhere, "0x7f000001": reachNowhere, "0x7f.1": reachNowhere, "127.0.0.1.": reachLoopback, "0177.0.0.1": reachNowhere, "": reachNowhere,
	} {
		got, known := reachOfName(text)
		require.True(t, known, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"mcp.example", "10.example", "3scale", "localhost.example", "face", "0xyz"} {
		_, known := reachOfName(text)
		require.False(t, known, text)
	}
}

// away is a connection that says to lead elsewhere.
type away struct {
	net.Conn
	to net.Addr
}

func (a away) RemoteAddr() net.Addr { return a.to }

// network is a client whose names lead to made-up addresses, and all of them to
// one server. seen counts its requests.
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
			return away{c, &net.TCPAddr{IP: net.ParseIP(host), Port: 443}}, nil
		}}
	return n
}

func (n *network) web(t *testing.T, server string, o *mcpvisor.OAuth) *web {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	return newWeb(u, &mcpvisor.HTTP{URL: server, Auth: o, Client: &http.Client{Transport: n.RoundTripper}})
}

func sayEmpty(w http.ResponseWriter, _ *http.Request) { answerWith(w, http.StatusOK, `{}`) }

// worldwide are names and what they resolve to.
var worldwide = map[string]string{
	"mcp.example": "93.184.216.34", "as.example": "93.184.216.35", "mcp.corp": "10.0.0.5", "as.corp": "10.0.0.6", "mcp.link": "169.254.7.7",
	"local.evil": "127.0.0.1", "mapped.evil": "::ffff:127.0.0.1", "meta.evil": "169.254.169.254", "private.evil": "192.168.0.1", "nat.evil": "64:ff9b::7f00:1",
}

// An address that a server names leads into no network that only this host can
// reach, whatever its name resolves to, unless the server is reached that way.
func TestMetadata_address_of_inner_network(t *testing.T) {
	for _, c := range []struct {
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
		t.Run(c.server+" names "+c.address, func(t *testing.T) {
			n := newNetwork(t, worldwide, sayEmpty)
			w := n.web(t, c.server, nil)
			var into struct{}
			err := w.document(t.Context(), c.address, &into)
			if c.want {
				require.NoError(t, err)
				require.EqualValues(t, 1, n.seen.Load())
				return
			}
			require.ErrorContains(t, err, "not reached by such")
			require.True(t, isFinal(err), "it is not tried again")
			require.Zero(t, n.seen.Load(), "nothing was sent")
		})
	}
}

// Each of several addresses counts: a redirect, and what the metadata names.
func TestMetadata_redirect_to_inner_network(t *testing.T) {
	n := newNetwork(t, worldwide, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "as.example" {
			http.Redirect(w, r, "https://meta.evil/latest", http.StatusFound)
			return
		}
		sayEmpty(w, r)
	})
	var into struct{}
	require.ErrorContains(t, n.web(t, "https://mcp.example/mcp", nil).document(t.Context(), "https://as.example/x", &into), "link-local")
	require.EqualValues(t, 1, n.seen.Load())
}

// The authorization endpoint is opened by a browser of the host's, or by its Visit.
func TestMetadata_authorization_endpoint_in_inner_network(t *testing.T) {
	w := newNetwork(t, worldwide, sayEmpty).web(t, "https://mcp.example/mcp", nil)
	m := oauthex.AuthServerMeta{Issuer: "https://as.example", AuthorizationEndpoint: "https://192.168.0.1/reboot"}
	require.ErrorContains(t, w.sound(t.Context(), &m), "a private address")
	m.AuthorizationEndpoint = "https://as.example/authorize"
	require.NoError(t, w.sound(t.Context(), &m))
}

// What the host itself names may be anywhere.
func TestMetadata_address_that_host_names(t *testing.T) {
	n := newNetwork(t, worldwide, sayEmpty)
	var into struct{}
	for _, o := range []*mcpvisor.OAuth{{Issuer: "https://as.corp"}, {Enterprise: &mcpvisor.Enterprise{TokenEndpoint: "https://as.corp/token"}}} {
		w := n.web(t, "https://mcp.example/mcp", o)
		require.NoError(t, w.document(t.Context(), "https://as.corp/x", &into))
		require.NoError(t, w.document(t.Context(), "https://private.evil/x", &into), "its endpoints may be beside it")
		require.Error(t, w.document(t.Context(), "https://local.evil/x", &into))
	}
}

// A name that leads to this machine is refused before anything listens to it.
func TestMetadata_is_not_connected_to(t *testing.T) {
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
		w := newWeb(server, &mcpvisor.HTTP{Client: client})
		// The text of the name is passed by, as that of one that resolves to this machine.
		ctx := context.WithValue(t.Context(), hopKey{}, &hop{host: "as.example"})
		c, err := w.client.Transport.(*gate).base.(*http.Transport).DialContext(ctx, "tcp", "localhost:"+port)
		if err == nil {
			_ = c.Close()
		}
		require.ErrorContains(t, err, "a loopback address", name)
	}
	require.NoError(t, l.Close())
	_, was := <-connected
	require.False(t, was, "it was connected to")
}

// Behind a proxy it is the proxy that connects; what the text says counts.
func TestMetadata_behind_proxy(t *testing.T) {
	n := newNetwork(t, map[string]string{"proxy.corp": "10.0.0.1"}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			sayEmpty(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	n.RoundTripper.(*http.Transport).Proxy = http.ProxyURL(&url.URL{Scheme: "https", Host: "proxy.corp"})
	w := n.web(t, "https://mcp.example/mcp", nil)
	var into struct{}
	require.ErrorContains(t, w.document(t.Context(), "https://as.example/x", &into), "Bad Gateway")
	require.EqualValues(t, 1, n.seen.Load(), "the proxy was asked, at its private address")
	require.ErrorContains(t, w.document(t.Context(), "https://127.0.0.1/x", &into), "a loopback address")
	require.EqualValues(t, 1, n.seen.Load())
}

// A RoundTripper of the host's connects as it likes; what the text says counts.
func TestMetadata_by_foreign_RoundTripper(t *testing.T) {
	n := newNetwork(t, worldwide, sayEmpty)
	own := n.RoundTripper
	n.RoundTripper = hostTripper(func(r *http.Request) (*http.Response, error) { return own.RoundTrip(r) })
	t.Cleanup(own.(*http.Transport).CloseIdleConnections)
	w := n.web(t, "https://93.184.216.34/mcp", nil)
	var into struct{}
	require.NoError(t, w.document(t.Context(), "https://as.example/x", &into))
	require.ErrorContains(t, w.document(t.Context(), "https://[::ffff:169.254.169.254]/x", &into), "a link-local address")
	require.ErrorContains(t, w.document(t.Context(), "https://localhost/x", &into), "a loopback address")
	require.EqualValues(t, 1, n.seen.Load())
}

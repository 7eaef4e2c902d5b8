package safehttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

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

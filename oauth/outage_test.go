package oauth

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// privatePeer is a connection that reports a private remote address.
type privatePeer struct{ net.Conn }

func (privatePeer) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 443} }

// newPrivateNetwork returns a RoundTripper that connects every name to one server, whose
// address is private. While down is true, connections to mcp.corp are refused.
func newPrivateNetwork(t *testing.T, handler http.HandlerFunc) (rt http.RoundTripper, down *atomic.Bool) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	down = new(atomic.Bool)
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down.Load() && strings.HasPrefix(addr, "mcp.corp:") {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			c, err := new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return privatePeer{c}, nil
		}}, down
}

// The server and its authorization server are in one private network. While the server
// is down, a token expires, and it is no longer known in which network the server is.
func TestToken_expires_while_server_in_private_network_is_down(t *testing.T) {
	rt, down := newPrivateNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/mcp":
			answerWith(w, http.StatusOK, `{"resource":"https://mcp.corp/mcp","authorization_servers":["https://as.corp"]}`)
		case "/.well-known/oauth-authorization-server":
			answerWith(w, http.StatusOK, `{"issuer":"https://as.corp","token_endpoint":"https://as.corp/token"}`)
		case "/token":
			answerWith(w, http.StatusOK, `{"access_token":"t1","token_type":"Bearer","expires_in":3600}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	spec := &mcpvisor.HTTP{URL: "https://mcp.corp/mcp", Client: &http.Client{Transport: rt},
		Auth: &Config{Grant: GrantClientCredentials, ClientID: "me", ClientSecret: "a secret of some length"}}
	a, err := newTestAuthorizer(spec, func(text string) { t.Log("warning:", text) })
	require.NoError(t, err)
	a.Attach(t.Context())
	t.Cleanup(func() { a.Detach(0) })
	require.NoError(t, a.renewRefused(t.Context(), "", false, http.StatusUnauthorized, http.Header{}))
	require.Equal(t, "t1", a.accessToken())

	down.Store(true)
	a.http = safehttp.New(a.http.Server(), spec) // it remembers no address
	setExpiry(t, a, -time.Minute, time.Hour)
	_, err = a.token(t.Context())
	var required *mcpvisor.AuthRequired
	require.False(t, errors.As(err, &required), "the user cannot help: %v", err)
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)

	down.Store(false)
	endPause(a)
	_, err = a.token(t.Context())
	require.NoError(t, err)
}

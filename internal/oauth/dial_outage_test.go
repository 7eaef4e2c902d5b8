package oauth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// errDown is the error of a dial function for a server that is not running.
var errDown error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// outageOf makes the connections of n to host fail while the returned pointer holds
// an error.
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

// An outage of the server says nothing about the network it is in. What its metadata
// named is not asked meanwhile, and is asked when the outage is over.
func TestMetadata_address_of_inner_network_while_server_is_down(t *testing.T) {
	for name, why := range map[string]error{
		"connection_refused": errDown,
		"name_not_resolved":  &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "mcp.corp", IsNotFound: true}},
		"context_ended":      context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, worldwide, sayEmpty)
			outage := n.outageOf("mcp.corp")
			outage.Store(&why)
			w := n.web(t, "https://mcp.corp/mcp", nil)
			var into struct{}
			for _, address := range []string{"https://as.corp/x", "https://10.9.9.9/x"} {
				err := w.document(t.Context(), address, &into)
				require.ErrorIs(t, err, why, address)
				require.False(t, isFinal(err), "%s: the outage ends: %v", address, err)
				_, passes := mayPass(err)
				require.True(t, passes, address)
				_, passes = mayPass(w.allowedText(t.Context(), "token endpoint", "https://10.9.9.9/token"))
				require.True(t, passes, address)
			}
			require.Zero(t, n.seen.Load(), "nothing was sent")
			require.True(t, isFinal(w.document(t.Context(), "https://127.1/x", &into)), "no server permits it")
			outage.Store(nil)
			require.NoError(t, w.document(t.Context(), "https://as.corp/x", &into))
			require.NoError(t, w.document(t.Context(), "https://10.9.9.9/x", &into))
		})
	}
}

// A server cannot reach a private network by refusing to be looked at.
func TestMetadata_address_of_inner_network_while_public_server_is_down(t *testing.T) {
	n := newNetwork(t, worldwide, sayEmpty)
	outage := n.outageOf("mcp.example")
	outage.Store(&errDown)
	w := n.web(t, "https://mcp.example/mcp", nil)
	var into struct{}
	for _, address := range []string{"https://as.corp/x", "https://meta.evil/x", "https://127.0.0.1/x"} {
		require.ErrorIs(t, w.document(t.Context(), address, &into), errDown, address)
	}
	outage.Store(nil)
	for _, address := range []string{"https://as.corp/x", "https://meta.evil/x", "https://127.0.0.1/x"} {
		require.True(t, isFinal(w.document(t.Context(), address, &into)), address)
	}
	require.Zero(t, n.seen.Load(), "nothing was sent")
}

// Of several addresses that the host named, one that permits is enough.
func TestMetadata_address_of_inner_network_while_one_anchor_is_down(t *testing.T) {
	n := newNetwork(t, worldwide, sayEmpty)
	n.outageOf("mcp.corp").Store(&errDown)
	w := n.web(t, "https://mcp.corp/mcp", &mcpvisor.OAuth{Issuer: "https://as.corp"})
	var into struct{}
	require.NoError(t, w.document(t.Context(), "https://private.evil/x", &into))
	require.ErrorIs(t, w.document(t.Context(), "https://local.evil/x", &into), errDown)
}

// The host's RoundTripper connects by itself there, and the name is only resolved.
// An empty label makes that fail without a request to a name server.
func TestMetadata_by_foreign_RoundTripper_while_name_does_not_resolve(t *testing.T) {
	n := newNetwork(t, worldwide, sayEmpty)
	n.RoundTripper = hostTripper(n.RoundTripper.RoundTrip)
	w := n.web(t, "https://mcp..invalid/mcp", nil)
	err := w.allowedText(t.Context(), "token endpoint", "https://10.9.9.9/token")
	_, passes := mayPass(err)
	require.True(t, passes, "%v", err)
}

// The proxy of the request may not be known at the moment, either.
func TestMetadata_address_of_inner_network_while_Proxy_function_fails(t *testing.T) {
	n := newNetwork(t, worldwide, sayEmpty)
	errProxy := errors.New("no proxy is known yet")
	n.RoundTripper.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) { return nil, errProxy }
	err := n.web(t, "https://mcp.corp/mcp", nil).allowedText(t.Context(), "token endpoint", "https://10.9.9.9/token")
	require.ErrorIs(t, err, errProxy)
	_, passes := mayPass(err)
	require.True(t, passes)
}

// The server and its authorization server are in one private network. The server is
// down for longer than it is remembered where it is, and a token ends.
func TestRenewal_while_server_in_private_network_is_down(t *testing.T) {
	n := newNetwork(t, worldwide, func(w http.ResponseWriter, r *http.Request) {
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
	outage := n.outageOf("mcp.corp")
	a, err := New(&mcpvisor.HTTP{URL: "https://mcp.corp/mcp", Client: &http.Client{Transport: n.RoundTripper},
		Auth: &mcpvisor.OAuth{Grant: mcpvisor.GrantClientCredentials, ClientID: "me", ClientSecret: "a secret of some length"}}, func(text string) { t.Log("warning:", text) })
	require.NoError(t, err)
	a.Attach(t.Context())
	t.Cleanup(func() { a.Detach(0) })
	require.NoError(t, a.Renew(t.Context(), "", false, http.StatusUnauthorized, http.Header{}))
	require.Equal(t, "t1", a.AccessToken())

	outage.Store(&errDown)
	for _, anchor := range a.web.dialer.anchors {
		anchor.mu.Lock()
		anchor.seen = time.Now().Add(-2 * anchorLife)
		anchor.mu.Unlock()
	}
	age(t, a, -time.Minute, time.Hour)
	_, err = a.Token(t.Context())
	var required *mcpvisor.AuthRequired
	require.False(t, errors.As(err, &required), "no person can help: %v", err)
	var later *Unavailable
	require.ErrorAs(t, err, &later)

	outage.Store(nil)
	a.mu.Lock()
	a.failed = nil // the pause is over
	a.mu.Unlock()
	_, err = a.Token(t.Context())
	require.NoError(t, err)
}

// A dial function that ignores its context is not waited for, and the connection
// that it makes later is closed.
func TestMetadata_dial_that_ignores_context(t *testing.T) {
	n := newNetwork(t, worldwide, sayEmpty)
	dialed, quit, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	n.RoundTripper.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		close(dialed)
		<-quit
		here, there := net.Pipe()
		go func() {
			defer close(closed)
			_, _ = there.Read(make([]byte, 1))
			_ = there.Close()
		}()
		return here, nil
	}
	w := n.web(t, "https://mcp.corp/mcp", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.allowedText(ctx, "token endpoint", "https://10.9.9.9/token") }()
	<-dialed
	cancel()
	var err error
	select {
	case err = <-done:
	case <-time.After(soon):
		close(quit)
		t.Fatal("it was waited for after its context had ended")
	}
	require.ErrorIs(t, err, context.Canceled)
	_, passes := mayPass(err)
	require.True(t, passes)
	close(quit)
	<-closed
}

// A caller's httptrace runs in goroutines of package net and of net/http.
func TestAuthorize_httptrace_that_panics(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := detached(t, s, mcpvisor.OAuth{})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	rude := func(string, string) { panic("rude") }
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectStart: rude, ConnectDone: func(string, string, error) { panic("rude") }})
	require.NoError(t, a.Authorize(ctx, browse))
}

// The connection that shows where the server is runs the hooks as well.
func TestMetadata_httptrace_that_panics(t *testing.T) {
	for name, client := range map[string]*http.Client{"standard": nil, "foreign": {Transport: hostTripper(http.DefaultTransport.RoundTrip)}} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(&url.URL{Scheme: "https", Host: "mcp..invalid", Path: "/mcp"}, &mcpvisor.HTTP{Client: client})
			called := make(chan struct{}, 16)
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{DNSStart: func(httptrace.DNSStartInfo) { called <- struct{}{}; panic("rude") }})
			err := w.allowedText(ctx, "token endpoint", "https://10.9.9.9/token")
			_, passes := mayPass(err)
			require.True(t, passes, "%v", err)
			require.Len(t, called, 1)
		})
	}
}

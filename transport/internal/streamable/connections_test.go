package streamable

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

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

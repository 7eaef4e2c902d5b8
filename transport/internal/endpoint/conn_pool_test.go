package endpoint

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

const patience = 10 * time.Second

// post sends a POST as a session does, and returns the body of the response.
func post(ctx context.Context, t *testing.T, e *Endpoint) (string, *HTTPError) {
	t.Helper()
	var trace ConnTrace
	ctx, cancel := context.WithCancelCause(trace.Context(ctx))
	defer cancel(context.Canceled)
	resp, httpErr := e.Do(ctx, OutgoingRequest{Method: http.MethodPost, Body: []byte("{}"), Header: e.NewHeader(0), Trace: &trace})
	if httpErr != nil {
		return "", httpErr
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body), nil
}

// newPooled makes an endpoint of a server that answers with the address of its client.
func newPooled(t *testing.T, transport *http.Transport) *Endpoint {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/close" {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.WriteString(w, r.RemoteAddr)
	}))
	t.Cleanup(web.Close)
	spec := testSpec(web.URL)
	spec.HTTP.Client = &http.Client{Transport: transport}
	e, err := New(spec.WithDefaults())
	require.NoError(t, err)
	t.Cleanup(e.Close)
	require.NotNil(t, e.pool)
	return e
}

func TestConnPool_reusesConnection(t *testing.T) {
	e := newPooled(t, &http.Transport{})
	first, httpErr := post(t.Context(), t, e)
	require.Nil(t, httpErr)
	second, httpErr := post(t.Context(), t, e)
	require.Nil(t, httpErr)
	require.Equal(t, first, second)
	require.Len(t, e.pool.idle, 1)
	e.Close()
	require.Zero(t, e.OpenConns())
}

// A connection that the server closes after its response does not stay in the pool.
func TestConnPool_closedByServer(t *testing.T) {
	e := newPooled(t, &http.Transport{})
	e.URL.Path = "/close"
	first, httpErr := post(t.Context(), t, e)
	require.Nil(t, httpErr)
	require.Empty(t, e.pool.idle)
	second, httpErr := post(t.Context(), t, e)
	require.Nil(t, httpErr)
	require.NotEqual(t, first, second)
}

func TestConnPool_idleTimeout(t *testing.T) {
	e := newPooled(t, &http.Transport{IdleConnTimeout: time.Millisecond})
	_, httpErr := post(t.Context(), t, e)
	require.Nil(t, httpErr)
	require.Eventually(t, func() bool { return e.OpenConns() == 0 }, patience, time.Millisecond)
	_, httpErr = post(t.Context(), t, e)
	require.Nil(t, httpErr)
}

// Beyond the bound for idle connections the one that is idle for longest is closed.
func TestConnPool_maxIdle(t *testing.T) {
	e := newPooled(t, &http.Transport{})
	e.pool.maxIdle = 2
	var conns []*poolConn
	for range 3 {
		c, err := e.pool.connect(t.Context())
		require.NoError(t, err)
		conns = append(conns, c)
	}
	for _, c := range conns {
		e.pool.put(c)
	}
	require.Equal(t, conns[1:], e.pool.idle)
	require.Error(t, conns[0].client.Err())
	require.Same(t, conns[2], e.pool.take())
}

// A dial function that ignores its context does not hold up a canceled request. Its
// connection serves a later request.
func TestConnPool_dialIgnoresContext(t *testing.T) {
	dialing, goOn := make(chan struct{}), make(chan struct{})
	e := newPooled(t, &http.Transport{DialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
		close(dialing)
		<-goOn
		return net.Dial(network, addr)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-dialing
		cancel()
	}()
	_, err := e.pool.connect(ctx)
	require.ErrorIs(t, err, context.Canceled)
	close(goOn)
	require.Eventually(t, func() bool {
		e.pool.mu.Lock()
		defer e.pool.mu.Unlock()
		return len(e.pool.idle) == 1
	}, patience, time.Millisecond)
	_, httpErr := post(t.Context(), t, e)
	require.Nil(t, httpErr)
}

// A request whose context has ended is not sent.
func TestConnPool_canceledBefore(t *testing.T) {
	e := newPooled(t, &http.Transport{})
	_, httpErr := post(t.Context(), t, e)
	require.Nil(t, httpErr)
	var trace ConnTrace
	ctx, cancel := context.WithCancelCause(trace.Context(t.Context()))
	cancel(io.ErrClosedPipe)
	written := e.pool.idle[0].raw.written.Load()
	_, httpErr = e.Do(ctx, OutgoingRequest{Method: http.MethodPost, Body: []byte("{}"), Header: e.NewHeader(0), Trace: &trace})
	require.NotNil(t, httpErr)
	require.Equal(t, mcpvisor.OutcomeNotSent, httpErr.Outcome)
	require.Len(t, e.pool.idle, 1)
	require.Equal(t, written, e.pool.idle[0].raw.written.Load())
}

// Only http.Transport can choose the connection where its settings decide.
func TestNewConnPool_notUsed(t *testing.T) {
	var unencrypted, http1 http.Protocols
	unencrypted.SetHTTP1(true)
	unencrypted.SetUnencryptedHTTP2(true)
	http1.SetHTTP1(true)
	rows := map[string]struct {
		url       string
		transport *http.Transport
		used      bool
	}{
		"plain":                 {"http://host.example/", &http.Transport{}, true},
		"HTTP/1 only":           {"http://host.example/", &http.Transport{Protocols: &http1}, true},
		"TLS":                   {"https://host.example/", &http.Transport{}, false},
		"name that is no ASCII": {"http://höst.example/", &http.Transport{}, false},
		"no keep-alive":         {"http://host.example/", &http.Transport{DisableKeepAlives: true}, false},
		"bound for connections": {"http://host.example/", &http.Transport{MaxConnsPerHost: 3}, false},
		"unencrypted HTTP/2":    {"http://host.example/", &http.Transport{Protocols: &unencrypted}, false},
		"proxy function":        {"http://host.example/", &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			spec := testSpec(row.url)
			spec.HTTP.Client = &http.Client{Transport: row.transport}
			e, err := New(spec.WithDefaults())
			require.NoError(t, err)
			require.Equal(t, row.used, e.pool != nil)
		})
	}
}

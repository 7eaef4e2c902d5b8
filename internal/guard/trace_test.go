package guard

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// hooks counts the calls of the hooks of a trace. If panics is set, each hook panics.
type hooks struct {
	panics bool
	mu     sync.Mutex
	called map[string]int
}

func (h *hooks) call(name string) {
	h.mu.Lock()
	h.called[name]++
	h.mu.Unlock()
	if h.panics {
		panic("boom")
	}
}

func (h *hooks) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { h.call("DNSStart") },
		DNSDone:              func(httptrace.DNSDoneInfo) { h.call("DNSDone") },
		ConnectStart:         func(string, string) { h.call("ConnectStart") },
		ConnectDone:          func(string, string, error) { h.call("ConnectDone") },
		GotConn:              func(httptrace.GotConnInfo) { h.call("GotConn") },
		WroteRequest:         func(httptrace.WroteRequestInfo) { h.call("WroteRequest") },
		GotFirstResponseByte: func() { h.call("GotFirstResponseByte") },
	}
}

// fetch makes a request over a new connection.
func fetch(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{FallbackDelay: -1}).DialContext}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "hello", string(body))
}

// Package net keeps its hooks in the context, beside those of net/http. All are
// guarded, and each is called as often as without the guard.
func TestTrace(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	url := "http://localhost:" + port
	plain := &hooks{called: map[string]int{}}
	fetch(httptrace.WithClientTrace(t.Context(), plain.trace()), t, url)
	require.Len(t, plain.called, 7)

	for name, c := range map[string]struct {
		panics, twice bool
		own           bool // the library has hooks of its own
	}{
		"hooks_that_return": {}, "hooks_that_panic": {panics: true},
		"hooks_guarded_twice": {panics: true, twice: true}, "hooks_beside_own_hooks": {panics: true, own: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, own := &hooks{panics: c.panics, called: map[string]int{}}, &hooks{called: map[string]int{}}
			ctx := Trace(httptrace.WithClientTrace(t.Context(), h.trace()))
			if c.twice {
				ctx = Trace(ctx)
			}
			if c.own {
				ctx = httptrace.WithClientTrace(ctx, own.trace())
			}
			fetch(ctx, t, url)
			require.Equal(t, plain.called, h.called)
			if c.own {
				require.Equal(t, plain.called, own.called)
			}
		})
	}
}

func TestTrace_context_without_trace(t *testing.T) {
	require.Equal(t, t.Context(), Trace(t.Context()))
}

package facade_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

type tripperFunc func(*http.Request) (*http.Response, error)

func (f tripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A RoundTripper that ignores the context of its requests delays neither CallTool nor
// Unregister nor Close. The status counts the requests that it holds.
func TestRoundTripper_that_ignores_its_context(t *testing.T) {
	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	held, free := make(chan struct{}, 100), make(chan struct{})
	var ignoring atomic.Bool
	client := &http.Client{Transport: tripperFunc(func(r *http.Request) (*http.Response, error) {
		if ignoring.Load() {
			held <- struct{}{}
			<-free
			return nil, context.Canceled
		}
		return own.RoundTrip(r)
	})}
	c, err := facade.New()
	require.NoError(t, err)
	for _, name := range []string{"one", "two"} {
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, HTTP: &mcpvisor.HTTP{URL: web.URL, Client: client},
			Timeouts: mcpvisor.Timeouts{Shutdown: 300 * time.Millisecond, CallTotal: 5 * time.Second}}))
	}
	ignoring.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held // a call that ends before its request begins leaves none behind
		cancel()
	}()
	_, err = c.CallTool(ctx, "one/echo", map[string]any{"text": "hello"})
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.CallTool(t.Context(), "one/echo", map[string]any{"text": "hello"})
	require.ErrorIs(t, err, mcpvisor.ErrTimeout, "Timeouts.CallTotal")
	// A call ends by its own clock, and its request a moment later.
	require.Eventually(t, func() bool {
		s, ok := c.ServerStatus("one")
		return ok && s.Session.AbandonedRequests >= 2
	}, 30*time.Second, time.Millisecond)

	ended := make(chan error, 1)
	go func() { ended <- c.Unregister(context.Background(), "one") }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "Unregister does not return")
	}
	go func() { ended <- c.Close(context.Background()) }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "Close does not return")
	}
	close(free)
}

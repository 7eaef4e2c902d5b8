package facade_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The client's own bound of a call goes over the server's.
func TestWithDefaultCallTimeout(t *testing.T) {
	c := newClient(t, facade.WithDefaultCallTimeout(30*time.Millisecond))
	deaf := rawServer(func(method, _ string) string {
		if method == "tools/call" {
			return silence
		}
		return ""
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: deaf, Timeouts: mcpvisor.Timeouts{Call: time.Hour, CallTotal: time.Hour}}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
	longer, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = c.CallTool(longer, "s/x", nil, facade.WithTimeout(time.Hour))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled, "what is said of one call goes over both")
}

// A client may have every call wait for a server that is not ready yet.
func TestWithDefaultWaitReady(t *testing.T) {
	c := newClient(t, facade.WithDefaultWaitReady())
	gate := make(chan struct{})
	slow := mcptest.InMemory(mcptest.Script{})
	serve := slow.Serve
	slow.Serve = func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, errs io.Writer) error {
		<-gate
		return serve(ctx, in, out, errs)
	}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: slow, StartSupervised: true}))
	done := make(chan error, 1)
	go func() { _, err := c.CallTool(context.Background(), "s/echo", map[string]any{"text": "x"}); done <- err }()
	select {
	case err := <-done:
		require.FailNow(t, "it did not wait", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	require.NoError(t, <-done)
}

// WaitReady waits for a server that is down, and for nothing else: one that has too
// much to do says so at once.
func TestWithWaitReady_does_not_wait_for_a_slot(t *testing.T) {
	c := newClient(t)
	busy := make(chan struct{}, 8)
	deaf := rawServer(func(method, _ string) string {
		if method == "tools/call" {
			busy <- struct{}{}
			return silence
		}
		return ""
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: deaf, Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}}))
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := c.CallTool(first, "s/x", nil); left <- err }()
	<-busy
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrOverloaded)
	require.NoError(t, ctx.Err(), "at once")
	leave()
	require.ErrorIs(t, <-left, mcpvisor.ErrCanceled)
}

// However long a server asks to be left alone, the caller's context ends the wait.
func TestWithWaitReady_ends_with_its_context(t *testing.T) {
	guard := newGuarded(t)
	guard.AddClient("service", "service-secret")
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL,
		Auth: &mcpvisor.OAuth{Grant: mcpvisor.GrantClientCredentials, ClientID: "service", ClientSecret: "service-secret"}}}))
	guard.Set(mcptest.AuthorityRules{Token: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}})
	guard.Revoke(false, false)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "web/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
		done <- err
	}()
	select {
	case err := <-done:
		require.Error(t, err)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the call waits on")
	}
}

// A name that is registered anew without Auth has nothing to authorize any more.
func TestAuthorize_after_registering_without_Auth(t *testing.T) {
	guard := newGuarded(t)
	c := newAuthClient(t)
	require.ErrorIs(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL,
		Auth: &mcpvisor.OAuth{Store: facade.NewMemoryTokenStore()}}}), mcpvisor.ErrAuthRequired)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", InMemory: mcptest.InMemory(mcptest.Script{})}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.ErrorIs(t, c.Authorize(ctx, "web", func(string) error { return nil }), mcpvisor.ErrInvalid)
}

// What is wrong with one option is not mended by the next.
func TestNew_reports_the_error_of_every_option(t *testing.T) {
	_, err := facade.New(facade.WithRoots(mcp.Root{URI: "https://h/"}), facade.WithRoots(mcp.Root{URI: "file:///tmp"}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}

// What is listed is the caller's own.
func TestServers_returns_a_copy(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	c.Servers()[0] = "changed"
	require.Equal(t, []string{"s"}, c.Servers())
	require.Len(t, c.Status(), 1)
}

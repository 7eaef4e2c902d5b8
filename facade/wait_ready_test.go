package facade_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// WithWaitReady waits for a server that is down, and not for one that is overloaded.
func TestWithWaitReady_does_not_wait_for_a_slot(t *testing.T) {
	c := newClient(t)
	busy := make(chan struct{}, 8)
	silent := rawServer(func(method, _ string) string {
		if method == "tools/call" {
			busy <- struct{}{}
			return silence
		}
		return ""
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}}))
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

// The caller's context ends the wait, however long Retry-After is.
func TestWithWaitReady_ends_with_its_context(t *testing.T) {
	guard := newGuarded(t)
	guard.AddClient("service", "service-secret")
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL,
		Auth: &oauth.Config{Grant: oauth.GrantClientCredentials, ClientID: "service", ClientSecret: "service-secret"}}}))
	guard.Set(oauthtest.Rules{Token: func(w http.ResponseWriter, _ *http.Request) bool {
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
		require.FailNow(t, "the call still waits")
	}
}

func TestWithWaitReady_accepts_aliases(t *testing.T) {
	c, plain, hashed := crashed(t, 50*time.Millisecond)
	for _, name := range []string{plain, hashed} {
		res, err := c.CallTool(t.Context(), name, map[string]any{"text": "back"}, facade.WithWaitReady())
		require.NoError(t, err, name)
		require.False(t, res.IsError)
	}
}

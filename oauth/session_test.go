package oauth

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// isRenewing reports whether a renewal runs.
func isRenewing(a *authorizer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewal != nil
}

// A renewal belongs to all sessions: it ends with the last of them.
func TestDetach_one_of_two_sessions(t *testing.T) {
	a, done := hangingSession(t)
	a.Attach(t.Context())
	a.Detach(0)
	require.True(t, isRenewing(a), "the other session needs it")
	a.Detach(0)
	require.False(t, isRenewing(a), "no session needs it")
	require.Error(t, <-done)
}

// The next session renews the same token ahead of its expiry, too.
func TestAttach_after_Detach(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newDetached(t, s, Config{FetchAuthorizationCode: approve})
	a.Attach(t.Context())
	requireOK(t, a)
	first := a.accessToken()
	a.Detach(0)
	setExpiry(t, a, 4*time.Minute, time.Hour) // the renewal ahead is due, and no session is there for it
	require.Equal(t, first, a.accessToken())
	a.Attach(t.Context())
	defer a.Detach(0)
	require.Eventually(t, func() bool { return a.accessToken() != first }, testTimeout, 5*time.Millisecond, "without a call")
}

// Detach waits for the answer that holds a rotated refresh token.
func TestDetach_waits_for_rotation(t *testing.T) {
	rule, asked, free := hangGrant(t, "refresh_token")
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	store := authorizedStore(t, s)
	s.Set(oauthtest.Rules{Rotate: true, Token: rule})
	s.Revoke(false, false)
	a := newDetached(t, s, Config{Store: store})
	a.Attach(t.Context())
	go func() { _, _ = sendRequest(context.Background(), a, "") }()
	<-asked
	detached := make(chan struct{})
	go func() { a.Detach(testTimeout); close(detached) }()
	select {
	case <-detached:
		require.FailNow(t, "Detach did not wait for the renewal")
	case <-time.After(50 * time.Millisecond):
	}
	free()
	<-detached
	requireOK(t, newAuthorizer(t, s, Config{Store: store}))
	require.Equal(t, 1, s.Counts().Refreshes)
}

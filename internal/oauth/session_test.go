package oauth

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// inFlight reports whether a renewal is under way.
func inFlight(a *Authorizer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flight != nil
}

// What is under way belongs to all sessions: the first that leaves takes nothing
// from the others, and the last leaves nothing behind.
func TestRenewalEndsWithTheLastSession(t *testing.T) {
	a, done := asking(t)
	a.Attach(t.Context())
	a.Detach(0)
	require.True(t, inFlight(a), "the other session waits for it")
	a.Detach(0)
	require.False(t, inFlight(a), "nobody does any more")
	require.Error(t, <-done)
}

// The timer of one session ends with it; the next sets one of its own, for the
// same token.
func TestNextSessionRenewsAheadToo(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{TokenLife: 1500 * time.Millisecond})
	a := detached(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	a.Attach(t.Context())
	requireOK(t, a)
	first := a.AccessToken()
	a.Detach(0)
	a.Attach(t.Context())
	defer a.Detach(0)
	require.Equal(t, first, a.AccessToken())
	require.Eventually(t, func() bool { return a.AccessToken() != first }, soon, 5*time.Millisecond, "nobody has asked for it")
}

// A refresh token that is being rotated when the session ends is waited for: the
// answer is not sent twice.
func TestDetachWaitsForARotation(t *testing.T) {
	rule, asked, free := hanging(t, "refresh_token")
	s := newAuthority(t, mcptest.AuthorityRules{Rotate: true})
	store := authorizedStore(t, s)
	s.Set(mcptest.AuthorityRules{Rotate: true, Token: rule})
	s.Revoke(false, false)
	a := detached(t, s, mcpvisor.OAuth{Store: store})
	a.Attach(t.Context())
	go func() { _, _ = request(context.Background(), a, "") }()
	<-asked
	left := make(chan struct{})
	go func() { a.Detach(soon); close(left) }()
	select {
	case <-left:
		require.FailNow(t, "the renewal was not waited for")
	case <-time.After(50 * time.Millisecond):
	}
	free()
	<-left
	requireOK(t, newAuthorizer(t, s, mcpvisor.OAuth{Store: store}))
	require.Equal(t, 1, s.Counts().Refreshes)
}

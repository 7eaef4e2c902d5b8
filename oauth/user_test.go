package oauth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// An authorization code that is used twice revokes its tokens (RFC 6749, section 4.1.2).
func TestFinish_twice(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	store := NewMemoryStore()
	a := newAuthorizer(t, s, Config{Store: store})
	redirect, err := approve(t.Context(), requireAuthRequired(t, a, "").URL)
	require.NoError(t, err)
	unlock, err := store.(TokenLocker).Lock(t.Context(), a.key) // another process renews
	require.NoError(t, err)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- a.Finish(context.Background(), redirect) }()
	}
	require.ErrorContains(t, <-errs, "no authorization request waits", "while the other waits for the lock")
	unlock()
	require.NoError(t, <-errs)
	require.Equal(t, 1, s.Counts().CodeExchanges)
	requireOK(t, a)
}

// A browser that disconnects during the code exchange loses no token.
func TestFinish_canceled_during_exchange(t *testing.T) {
	rule, asked, free := hangGrant(t, "authorization_code")
	s := newAuthServer(t, oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{})
	redirect, err := approve(t.Context(), requireAuthRequired(t, a, "").URL)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan error, 1)
	go func() { finished <- a.Finish(ctx, redirect) }()
	<-asked
	cancel()
	require.ErrorIs(t, <-finished, context.Canceled)
	free()
	require.Eventually(t, func() bool { return a.accessToken() != "" }, testTimeout, 5*time.Millisecond)
}

// A registration that the authorization server has deleted is dropped when no redirect
// comes, or when the server rejects the client.
func TestAuthorize_forgotten_registration(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{NoRefresh: true})
	store := authorizedStore(t, s)
	s.Revoke(true, true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, newAuthorizer(t, s, Config{Store: store}).Authorize(ctx, openBrowser), context.DeadlineExceeded)
	a := newAuthorizer(t, s, Config{Store: store})
	require.NoError(t, a.Authorize(t.Context(), openBrowser))
	require.Equal(t, 2, s.Counts().Registrations)
	requireOK(t, a)

	for _, code := range []string{"unauthorized_client", "invalid_client"} {
		rule, refuse := rejectGrant("refresh_token", http.StatusUnauthorized, `{"error":"`+code+`"}`)
		s = newAuthServer(t, oauthtest.Rules{Token: rule})
		a = newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
		s.Revoke(true, true)
		refuse.Store(true)
		_, err := approve(t.Context(), requireAuthRequired(t, a, "").URL)
		require.NoError(t, err, "the authorization server knows the new client")
	}
}

// The request for the challenge follows a redirect within the origin, such as to a path
// with a slash at the end, and no other.
func TestCurrentChallenge_endpoint_redirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer elsewhere.Close()
	to := "/mcp/"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer scope="read"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer srv.Close()
	a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: srv.URL + "/mcp", Auth: &Config{Store: NewMemoryStore()}}, func(string) {})
	require.NoError(t, err)
	c, err := a.currentChallenge(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"read"}, c.Scopes)
	to = elsewhere.URL
	_, err = a.currentChallenge(t.Context())
	require.ErrorContains(t, err, "is a redirect, which is not followed")
}

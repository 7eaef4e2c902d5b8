package oauth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A code that is used twice revokes its tokens (RFC 6749, section 4.1.2).
func TestRedirectIsGoodOnce(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	store := NewMemoryStore()
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	redirect, err := visit(t.Context(), requirePerson(t, a, "").URL)
	require.NoError(t, err)
	unlock, err := store.(mcpvisor.TokenLocker).Lock(t.Context(), a.key) // somebody renews
	require.NoError(t, err)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- a.Finish(context.Background(), redirect) }()
	}
	require.ErrorContains(t, <-errs, "nobody waits", "before the turn of the other")
	unlock()
	require.NoError(t, <-errs)
	require.Equal(t, 1, s.Counts().Exchanges)
	requireOK(t, a)
}

// A browser that leaves when the code has been sent costs no token.
func TestPersonWhoLeavesDuringTheExchange(t *testing.T) {
	rule, asked, free := hanging(t, "authorization_code")
	s := newAuthority(t, mcptest.AuthorityRules{Token: rule})
	a := newAuthorizer(t, s, mcpvisor.OAuth{})
	redirect, err := visit(t.Context(), requirePerson(t, a, "").URL)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- a.Finish(ctx, redirect) }()
	<-asked
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	free()
	require.Eventually(t, func() bool { return a.AccessToken() != "" }, soon, 5*time.Millisecond)
}

// A registration that the authorization server has forgotten is known by a person
// who does not come back, or by what is said to the refresh token.
func TestForgottenRegistration(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{NoRefresh: true})
	store := authorizedStore(t, s)
	s.Revoke(true, true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, newAuthorizer(t, s, mcpvisor.OAuth{Store: store}).Authorize(ctx, browse), context.DeadlineExceeded)
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	require.NoError(t, a.Authorize(t.Context(), browse))
	require.Equal(t, 2, s.Counts().Registrations)
	requireOK(t, a)

	for _, code := range []string{"unauthorized_client", "invalid_client"} {
		rule, refuse := refusing("refresh_token", http.StatusUnauthorized, `{"error":"`+code+`"}`)
		s = newAuthority(t, mcptest.AuthorityRules{Token: rule})
		a = newAuthorizer(t, s, mcpvisor.OAuth{Store: authorizedStore(t, s)})
		s.Revoke(true, true)
		refuse.Store(true)
		_, err := visit(t.Context(), requirePerson(t, a, "").URL)
		require.NoError(t, err, "the person would see: unknown client")
	}
}

// The server is asked what it wants where it sends the question, as servers do
// that want a slash at the end.
func TestAuthorizeWhereTheEndpointRedirects(t *testing.T) {
	strange := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer strange.Close()
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
	a, err := New(&mcpvisor.HTTP{URL: srv.URL + "/mcp", Auth: &mcpvisor.OAuth{Store: NewMemoryStore()}}, func(string) {})
	require.NoError(t, err)
	c, err := a.asked(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"read"}, c.scopes)
	to = strange.URL
	_, err = a.asked(t.Context())
	require.ErrorIs(t, err, errNoRedirect)
}

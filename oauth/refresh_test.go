package oauth

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// A refresh token is sent to no other issuer, even if its token endpoint is gone and the
// server names another one.
func TestRefresh_other_issuer(t *testing.T) {
	rule, gone := rejectGrant("refresh_token", http.StatusNotFound, "")
	s, other := newAuthServer(t, oauthtest.Rules{Token: rule}), newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
	gone.Store(true)
	s.Revoke(false, false)
	s.Set(oauthtest.Rules{Token: rule, Document: func(_ string, d map[string]any) int {
		if d["authorization_servers"] != nil {
			d["authorization_servers"] = []string{other.Issuer}
		}
		return 0
	}})
	require.Equal(t, other.Issuer, requireAuthRequired(t, a, "").Issuer)
	require.Zero(t, other.Counts().Refreshes)
}

// If the server rejects a token that was renewed for the same request, the user is
// needed and nothing is renewed again.
func TestRenew_rejects_renewed_token(t *testing.T) {
	rule, useless := rejectGrant("refresh_token", http.StatusOK, `{"access_token": "always-rejected"}`)
	s := newAuthServer(t, oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
	s.Revoke(false, false)
	useless.Store(true)
	require.NotEmpty(t, requireAuthRequired(t, a, "").URL)
	require.Equal(t, 1, s.Counts().Refreshes)
}

// A renewal ahead that is rejected keeps the access token that is still valid.
func TestRenewalAhead_rejected(t *testing.T) {
	rule, refuse := rejectGrant("refresh_token", http.StatusBadRequest, `{"error": "invalid_grant"}`)
	s := newAuthServer(t, oauthtest.Rules{Token: rule})
	store := authorizedStore(t, s)
	a := newAuthorizer(t, s, Config{Store: store})
	token := a.accessToken()
	refuse.Store(true)
	a.mu.Lock()
	f, err := a.joinRenewal(reason{trigger: triggerAhead}, token)
	a.mu.Unlock()
	require.NoError(t, err)
	<-f.done
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, token, a.accessToken())
	requireOK(t, a)
	requireOK(t, newAuthorizer(t, s, Config{Store: store}))
}

// An Authorize without a redirect keeps a registration that has a refresh token.
func TestAuthorize_canceled_keeps_tokens(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	store := authorizedStore(t, s)
	a := newAuthorizer(t, s, Config{Store: store})
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, a.Authorize(ctx, func(string) error { cancel(); return nil }), context.Canceled)
	s.Revoke(false, false)
	requireOK(t, newAuthorizer(t, s, Config{Store: store}))
	require.Equal(t, 1, s.Counts().Registrations)
	require.Equal(t, 1, s.Counts().Refreshes)
}

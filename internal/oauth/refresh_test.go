package oauth

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A refresh token is for the issuer that gave it: if its endpoint is no more, and
// the server now names another issuer, it is sent to nobody.
func TestRefreshTokenStaysAtItsIssuer(t *testing.T) {
	rule, gone := refusing("refresh_token", http.StatusNotFound, "")
	s, other := newAuthority(t, mcptest.AuthorityRules{Token: rule}), newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: authorizedStore(t, s)})
	gone.Store(true)
	s.Revoke(false, false)
	s.Set(mcptest.AuthorityRules{Token: rule, Document: func(_ string, d map[string]any) int {
		if d["authorization_servers"] != nil {
			d["authorization_servers"] = []string{other.Issuer}
		}
		return 0
	}})
	require.Equal(t, other.Issuer, requirePerson(t, a, "").Issuer)
	require.Zero(t, other.Counts().Refreshes)
}

// A server that does not take the token that was renewed for the same request does
// not take the next one either: a person is asked for, and nothing is renewed on.
func TestRenewedTokenThatIsRefused(t *testing.T) {
	rule, useless := refusing("refresh_token", http.StatusOK, `{"access_token": "not-good-for-anything"}`)
	s := newAuthority(t, mcptest.AuthorityRules{Token: rule})
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: authorizedStore(t, s)})
	s.Revoke(false, false)
	useless.Store(true)
	require.NotEmpty(t, requirePerson(t, a, "").URL)
	require.Equal(t, 1, s.Counts().Refreshes)
}

// A renewal ahead that is refused for good takes nothing away that is still good.
func TestRefusalAheadLeavesTheToken(t *testing.T) {
	rule, refuse := refusing("refresh_token", http.StatusBadRequest, `{"error": "invalid_grant"}`)
	s := newAuthority(t, mcptest.AuthorityRules{Token: rule})
	store := authorizedStore(t, s)
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	token := a.AccessToken()
	refuse.Store(true)
	a.mu.Lock()
	f, err := a.join(&flight{need: ahead}, token)
	a.mu.Unlock()
	require.NoError(t, err)
	<-f.done
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, token, a.AccessToken())
	requireOK(t, a)
	requireOK(t, newAuthorizer(t, s, mcpvisor.OAuth{Store: store}))
}

// A person who does not come back says nothing about a registration whose tokens
// can be renewed.
func TestPersonWhoStaysAwayCostsNoTokens(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	store := authorizedStore(t, s)
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, a.Authorize(ctx, func(string) error { cancel(); return nil }), context.Canceled)
	s.Revoke(false, false)
	requireOK(t, newAuthorizer(t, s, mcpvisor.OAuth{Store: store}))
	require.Equal(t, 1, s.Counts().Registrations)
	require.Equal(t, 1, s.Counts().Refreshes)
}

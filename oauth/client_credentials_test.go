package oauth

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// service returns the configuration of a client that acts for itself.
func service() Config {
	return Config{Grant: GrantClientCredentials, ClientID: "service", ClientSecret: "service-secret"}
}

func TestClientCredentials(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"jobs"}})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	for _, err := range requestConcurrently(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().ClientGrants)
	require.Equal(t, s.URL, s.Counts().LastToken.Get("resource"))
	require.Equal(t, "jobs", s.Counts().LastToken.Get("scope"))
	s.Revoke(false, false)
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().ClientGrants)
	require.Zero(t, s.Counts().Authorizations)

	wrong := service()
	wrong.ClientSecret = "another-secret"
	require.Contains(t, requireAuthRequired(t, newAuthorizer(t, s, wrong), "").Error(), "invalid_client")
}

// After a permanent error neither the timer nor the calls request another token.
func TestClientCredentials_permanent_error(t *testing.T) {
	rule, refuse := rejectGrant("client_credentials", http.StatusUnauthorized, `{"error":"invalid_client"}`)
	s := newAuthServer(t, oauthtest.Rules{TokenLifetime: 3 * time.Second, Token: func(w http.ResponseWriter, r *http.Request) bool {
		return rule(w, r) || refuse.Swap(true) // the first is granted
	}})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	requireOK(t, a)
	require.Eventually(t, func() bool { return s.Counts().ClientGrants == 2 }, testTimeout, time.Millisecond, "renewed ahead of the expiry")
	require.Never(t, func() bool { return s.Counts().ClientGrants > 2 }, 2500*time.Millisecond, 20*time.Millisecond)

	setExpiry(t, a, 0, time.Hour)
	began := time.Now()
	for range 20 {
		requireAuthRequired(t, a, "")
	}
	require.LessOrEqual(t, s.Counts().ClientGrants, 3+int(time.Since(began)/time.Second), "one request, and one more for each second that the calls took")
}

// A token that was renewed ahead and is revoked before its first use is replaced.
func TestRevokedToken_after_renewal_ahead(t *testing.T) {
	for name, o := range map[string]Config{"client": service(), "code": {FetchAuthorizationCode: approve}} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{TokenLifetime: 1500 * time.Millisecond})
			s.AddClient("service", "service-secret")
			a := newAuthorizer(t, s, o)
			requireOK(t, a)
			first := a.accessToken()
			s.Set(oauthtest.Rules{})
			require.Eventually(t, func() bool { return a.accessToken() != first }, testTimeout, 5*time.Millisecond)
			s.Revoke(false, false)
			requireOK(t, a)
			require.LessOrEqual(t, s.Counts().Authorizations, 1)
		})
	}
}

// The scopes of the challenge are requested for later tokens, too.
func TestClientCredentials_scopes_of_challenge(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}, Document: func(path string, d map[string]any) int {
		if strings.Contains(path, "protected-resource") {
			d["scopes_supported"] = []string{"read", "admin"}
		}
		return 0
	}})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	requireOK(t, a)
	setExpiry(t, a, 0, time.Hour)
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().ClientGrants)
	require.Equal(t, "read", s.Counts().LastToken.Get("scope"))
}

// Authorize sends the secret to no other issuer. A failure keeps the current token.
func TestAuthorize_client_credentials(t *testing.T) {
	other := newAuthServer(t, oauthtest.Rules{})
	var moved atomic.Bool
	rule, refuse := rejectGrant("client_credentials", http.StatusServiceUnavailable, "")
	s := newAuthServer(t, oauthtest.Rules{Token: rule, Document: func(path string, d map[string]any) int {
		if moved.Load() && strings.Contains(path, "protected-resource") {
			d["authorization_servers"] = []string{other.Issuer}
		}
		return 0
	}})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	requireOK(t, a)
	refuse.Store(true)
	require.ErrorContains(t, a.Authorize(t.Context(), nil), "503")
	requireOK(t, a)

	moved.Store(true)
	require.ErrorContains(t, a.Authorize(t.Context(), nil), "belongs to "+s.Issuer)
	next := newDetached(t, s, service()) // registered again in this process
	next.Inherit(a)
	require.ErrorContains(t, next.Authorize(t.Context(), nil), "belongs to "+s.Issuer)
	require.Zero(t, other.Counts().ClientGrants)
	require.NoError(t, next.Forget(t.Context()))
	require.ErrorContains(t, next.Authorize(t.Context(), nil), "invalid_client", "after Forget the new issuer is used")
}

// Tokens that can always be requested again are not stored.
func TestClientCredentials_not_stored(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	s.AddClient("service", "service-secret")
	o := service()
	o.Store = NewMemoryStore()
	a := newAuthorizer(t, s, o)
	requireOK(t, a)
	kept, err := o.Store.Load(t.Context(), a.key)
	require.NoError(t, err)
	require.Nil(t, kept)
}

// A scope that was requested and not granted is not requested again by each call.
func TestClientCredentials_scope_not_granted(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"write": "write"},
		Token: func(_ http.ResponseWriter, r *http.Request) bool { r.PostForm.Set("scope", "read"); return false }})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	requireOK(t, a)
	for range 3 {
		endPause(a)
		requireAuthRequired(t, a, "write")
	}
	require.Equal(t, 2, s.Counts().ClientGrants, "one request for the scope")
	requireOK(t, a)
}

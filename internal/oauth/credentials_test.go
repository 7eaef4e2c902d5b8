package oauth

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// service is a client that acts for itself.
func service() mcpvisor.OAuth {
	return mcpvisor.OAuth{Grant: mcpvisor.GrantClientCredentials, ClientID: "service", ClientSecret: "service-secret"}
}

func TestClientCredentials(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Scopes: []string{"jobs"}})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	for _, err := range together(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().ClientGrants)
	require.Equal(t, s.URL, s.Counts().LastToken.Get("resource"))
	require.Equal(t, "jobs", s.Counts().LastToken.Get("scope"))
	s.Revoke(false, false)
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().ClientGrants)
	require.Zero(t, s.Counts().Visits)

	wrong := service()
	wrong.ClientSecret = "another-secret"
	require.Contains(t, requirePerson(t, newAuthorizer(t, s, wrong), "").Error(), "invalid_client")
}

// A refusal for good is believed: neither the timer nor the calls ask on.
func TestClientThatIsRefusedDoesNotAskOn(t *testing.T) {
	rule, refuse := refusing("client_credentials", http.StatusUnauthorized, `{"error":"invalid_client"}`)
	s := newAuthority(t, mcptest.AuthorityRules{TokenLife: 3 * time.Second, Token: rule})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	requireOK(t, a)
	refuse.Store(true)
	require.Eventually(t, func() bool { return s.Counts().ClientGrants == 2 }, soon, time.Millisecond, "ahead of the end")
	require.Never(t, func() bool { return s.Counts().ClientGrants > 2 }, 2500*time.Millisecond, 20*time.Millisecond)

	age(t, a, 0, time.Hour)
	for range 20 {
		requirePerson(t, a, "")
	}
	require.LessOrEqual(t, s.Counts().ClientGrants, 3+1, "once, and once more if the calls took a second")
}

// A token that was renewed ahead, and has not been used, may be revoked like another.
func TestTokenRenewedAheadAndRevoked(t *testing.T) {
	for name, o := range map[string]mcpvisor.OAuth{"client": service(), "code": {FetchAuthorizationCode: visit}} {
		t.Run(name, func(t *testing.T) {
			s := newAuthority(t, mcptest.AuthorityRules{TokenLife: 1500 * time.Millisecond})
			s.AddClient("service", "service-secret")
			a := newAuthorizer(t, s, o)
			requireOK(t, a)
			s.Set(mcptest.AuthorityRules{})
			first := a.AccessToken()
			require.Eventually(t, func() bool { return a.AccessToken() != first }, soon, 5*time.Millisecond)
			s.Revoke(false, false)
			requireOK(t, a)
			require.LessOrEqual(t, s.Counts().Visits, 1)
		})
	}
}

// The scopes of the challenge are authoritative for the tokens that follow, too.
func TestClientKeepsItsScopes(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Scopes: []string{"read"}, Document: func(path string, d map[string]any) int {
		if strings.Contains(path, "protected-resource") {
			d["scopes_supported"] = []string{"read", "admin"}
		}
		return 0
	}})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	requireOK(t, a)
	age(t, a, 0, time.Hour)
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().ClientGrants)
	require.Equal(t, "read", s.Counts().LastToken.Get("scope"))
}

// Authorize shows the secret to no other issuer either, and what fails takes
// nothing away.
func TestAuthorizeOfAClient(t *testing.T) {
	other := newAuthority(t, mcptest.AuthorityRules{})
	var moved atomic.Bool
	rule, refuse := refusing("client_credentials", http.StatusServiceUnavailable, "")
	s := newAuthority(t, mcptest.AuthorityRules{Token: rule, Document: func(path string, d map[string]any) int {
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
	next := detached(t, s, service()) // registered again in this process
	next.Inherit(a)
	require.ErrorContains(t, next.Authorize(t.Context(), nil), "belongs to "+s.Issuer)
	require.Zero(t, other.Counts().ClientGrants)
	require.NoError(t, next.Forget(t.Context()))
	require.ErrorContains(t, next.Authorize(t.Context(), nil), "invalid_client", "it was told to")
}

// There is always another token to be had, so that none is written down.
func TestTokensWithoutAPersonAreNotKept(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	s.AddClient("service", "service-secret")
	o := service()
	o.Store = NewMemoryStore()
	a := newAuthorizer(t, s, o)
	requireOK(t, a)
	kept, err := o.Store.Load(t.Context(), a.key)
	require.NoError(t, err)
	require.Nil(t, kept)
}

// A client that is given less than it asks for does not ask on.
func TestClientThatIsGivenLess(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Scopes: []string{"read"}, Needs: map[string]string{"write": "write"},
		Token: func(_ http.ResponseWriter, r *http.Request) bool { r.PostForm.Set("scope", "read"); return false }})
	s.AddClient("service", "service-secret")
	a := newAuthorizer(t, s, service())
	requireOK(t, a)
	for range 3 {
		a.mu.Lock()
		a.failed = nil // as if a second had passed
		a.mu.Unlock()
		requirePerson(t, a, "write")
	}
	require.Equal(t, 2, s.Counts().ClientGrants, "once for the scope")
	requireOK(t, a)
}

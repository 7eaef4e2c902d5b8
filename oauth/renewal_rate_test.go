package oauth

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// Tokens with hardly any lifetime do not cost a token request for each call.
func TestRenewals_tinyLifetime(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Token: func(w http.ResponseWriter, _ *http.Request) bool {
		answerWith(w, http.StatusOK, `{"access_token":"token","token_type":"Bearer","expires_in":0.0001}`)
		return true
	}})
	s.AddClient("me", "very-secret")
	a := newAuthorizer(t, s, Config{Grant: GrantClientCredentials, ClientID: "me", ClientSecret: "very-secret"})
	require.NoError(t, a.renewRefused(t.Context(), "", false, http.StatusUnauthorized, http.Header{}))
	for range 50 {
		setExpiry(t, a, -time.Hour, time.Second) // as if each call came much later
		token, err := a.token(t.Context())
		require.NoError(t, err)
		require.Equal(t, "token", token, "without a new token the old one is sent: the server decides")
	}
	require.LessOrEqual(t, s.Counts().ClientGrants, renewalBurst)
}

// A server that rejects each token, or asks for more and more scopes, is answered with a bounded
// number of token requests for all calls together. The error says what to do.
func TestRenewals_bounded(t *testing.T) {
	var n atomic.Int32
	for name, rules := range map[string]oauthtest.Rules{
		"each token is good for one request": {},
		"ever more scopes": {RequiredScopes: map[string]string{"": "never"}, Challenge: func(h http.Header) {
			h.Set("WWW-Authenticate", strings.ReplaceAll(h.Get("WWW-Authenticate"), `scope="never"`, fmt.Sprintf(`scope="scope-%d"`, n.Add(1))))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, rules)
			a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
			var last error
			for range 3 * renewalBurst {
				_, last = sendRequest(t.Context(), a, "")
				s.Revoke(false, false)
			}
			var unavailable *mcpvisor.AuthUnavailable
			require.ErrorAs(t, last, &unavailable)
			require.Positive(t, unavailable.RetryAfter)
			require.LessOrEqual(t, unavailable.RetryAfter, renewalInterval)
			require.ErrorContains(t, last, "check the lifetime and the scopes")
			c := s.Counts()
			require.LessOrEqual(t, c.Authorizations+c.Refreshes, 2*renewalBurst, "a renewal may take both")
			for _, err := range requestConcurrently(t.Context(), a, 8) {
				require.ErrorAs(t, err, &unavailable)
			}
			require.Equal(t, c.Authorizations+c.Refreshes, s.Counts().Authorizations+s.Counts().Refreshes)
		})
	}
}

// After some time there is another renewal, and never more than renewalBurst at once, even
// if the clock jumps.
func TestTakeRenewal(t *testing.T) {
	a := &authorizer{renewalsLeft: renewalBurst}
	now := time.Now()
	take := func(want int) {
		t.Helper()
		n := 0
		for ; a.takeRenewal(now) == 0; n++ {
			require.LessOrEqual(t, n, want)
		}
		require.Equal(t, want, n)
	}
	take(renewalBurst)
	require.InDelta(t, renewalInterval, a.takeRenewal(now), float64(time.Millisecond))
	now = now.Add(renewalInterval + time.Millisecond)
	take(1)
	now = now.Add(-time.Hour)
	take(0)
	now = now.Add(1000 * time.Hour)
	take(renewalBurst)
}

package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// A nonce that is too long, or is not allowed in a header, is not kept.
func TestNonceOf(t *testing.T) {
	for text, kept := range map[string]bool{"a.B-_~1": true, strings.Repeat("x", maxNonceBytes): true,
		strings.Repeat("x", maxNonceBytes+1): false, "a b": false, "a\"b": false, "a\\b": false, "größe": false, "a\x00": false, "": false} {
		got := nonceOf(http.Header{"Dpop-Nonce": {text}})
		require.Equal(t, kept, got != "", "%.20q", text)
	}
}

// Tokens are bound to one key, over refreshes, step-ups and restarts of the process.
func TestDPoP_keyIsKept(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{DPoP: true, Rotate: true, RequiredScopes: map[string]string{"write": "write"}})
	store := NewMemoryStore()
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	requireOK(t, a)
	stored := func() *Authorization {
		got, err := store.Load(t.Context(), a.key)
		require.NoError(t, err)
		return got
	}
	key := stored().DPoPKey
	require.NotEmpty(t, key)
	s.Revoke(false, false)
	requireOK(t, a) // by the refresh token, which is bound to the key
	require.Equal(t, 1, s.Counts().Refreshes)
	_, err := sendRequest(t.Context(), a, "write")
	require.NoError(t, err)
	require.Equal(t, 2, s.Counts().Authorizations)
	next := newAuthorizer(t, s, Config{Store: store})
	s.Revoke(false, false)
	requireOK(t, next)
	require.Equal(t, key, stored().DPoPKey)
}

// Tokens that have lost their key are not used; the user authorizes again, with the same
// registration.
func TestDPoP_keyIsLost(t *testing.T) {
	for name, key := range map[string]string{"damaged": "no key", "empty scalar": "AA", "removed by another version": ""} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{DPoP: true})
			store := authorizedStore(t, s)
			a := newDetached(t, s, Config{Store: store})
			old, err := store.Load(t.Context(), a.key)
			require.NoError(t, err)
			old.DPoPKey = key
			require.NoError(t, store.Save(t.Context(), a.key, old))
			a.Attach(t.Context())
			defer a.Detach(0)
			requireAuthRequired(t, a, "")
			require.Equal(t, key == "", s.Counts().Refreshes > 0, "tokens whose key is damaged are not sent")
			require.NoError(t, a.Authorize(t.Context(), openBrowser))
			requireOK(t, a)
			now, err := store.Load(t.Context(), a.key)
			require.NoError(t, err)
			require.Equal(t, old.ClientID, now.ClientID)
			require.NotEqual(t, key, now.DPoPKey)
		})
	}
}

// A grant without a user keeps its key in memory.
func TestDPoP_clientCredentials(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{DPoP: true})
	s.AddClient("me", "very-secret")
	a := newAuthorizer(t, s, Config{Grant: GrantClientCredentials, ClientID: "me", ClientSecret: "very-secret"})
	requireOK(t, a)
	key := a.dpop.Text()
	s.Revoke(false, false)
	requireOK(t, a)
	require.Equal(t, key, a.dpop.Text())
}

// DPoP is used only if both servers want it: many authorization servers announce it for all
// their resources.
func TestDPoP_onlyIfBothWantIt(t *testing.T) {
	announce := func(path, name string, value any) func(string, map[string]any) int {
		return func(at string, document map[string]any) int {
			if strings.Contains(at, path) {
				document[name] = value
			}
			return 0
		}
	}
	challenge := func(text string) func(http.Header) { return func(h http.Header) { h.Set("WWW-Authenticate", text) } }
	for name, row := range map[string]struct {
		rules oauthtest.Rules
		bound bool
	}{
		"the challenge says it":           {oauthtest.Rules{DPoP: true}, true},
		"another algorithm is announced":  {oauthtest.Rules{DPoP: true, Document: announce("authorization-server", "dpop_signing_alg_values_supported", []string{"RS256"})}, false},
		"the server takes bearer tokens":  {oauthtest.Rules{DPoP: true, Challenge: challenge("Bearer")}, false},
		"the challenge: other algorithms": {oauthtest.Rules{DPoP: true, Challenge: challenge(`DPoP algs="RS256 PS256"`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, row.rules)
			a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
			requireOK(t, a)
			require.Equal(t, row.bound, a.dpop != nil)
		})
	}
	t.Run("the metadata of the MCP server says it", func(t *testing.T) {
		s := newAuthServer(t, oauthtest.Rules{DPoP: true, Challenge: challenge("Bearer"),
			Document: announce("protected-resource", "dpop_bound_access_tokens_required", true)})
		a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
		requireOK(t, a)
		require.NotNil(t, a.dpop)
	})
}

// The token endpoint may demand a nonce once for each request, and not again and again.
func TestDPoP_nonceOfTokenEndpoint(t *testing.T) {
	var asked, proofs atomic.Int32
	var endless atomic.Bool
	s := newAuthServer(t, oauthtest.Rules{DPoP: true, DPoPNonce: "first", Token: func(w http.ResponseWriter, r *http.Request) bool {
		proofs.Add(int32(len(r.Header.Values("DPoP"))))
		if n := asked.Add(1); endless.Load() {
			w.Header().Set("DPoP-Nonce", strings.Repeat("n", int(n)))
			answerWith(w, http.StatusBadRequest, `{"error":"use_dpop_nonce"}`)
			return true
		}
		return false
	}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	a.serverNonce = "first" // the MCP server demands it, too
	requireOK(t, a)
	require.EqualValues(t, 2, asked.Load())
	s.Revoke(false, false)
	requireOK(t, a)
	require.EqualValues(t, 3, asked.Load(), "the nonce is remembered")
	s.Revoke(false, false)
	endless.Store(true)
	requireAuthRequired(t, a, "")
	require.LessOrEqual(t, asked.Load(), int32(3+2+2), "two requests for the refresh token, and two for the code")
	require.Equal(t, asked.Load(), proofs.Load())
}

// Neither a proof nor the key is in an error, whatever part of it the server repeats.
func TestDPoP_redaction(t *testing.T) {
	var proof string
	s := newAuthServer(t, oauthtest.Rules{DPoP: true, Token: func(w http.ResponseWriter, r *http.Request) bool {
		proof = r.Header.Get("DPoP")
		answerWith(w, http.StatusBadRequest, `{"error":"invalid_dpop_proof","error_description":"bad `+proof+`, `+url.QueryEscape(proof)+`"}`)
		return true
	}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	err := requireAuthRequired(t, a, "")
	require.NotEmpty(t, proof)
	for _, part := range strings.Split(proof, ".") {
		require.NotContains(t, err.Error()+err.Err.Error(), part[:len(part)/2])
	}
	require.ErrorContains(t, err, "invalid_dpop_proof")
	s.Set(oauthtest.Rules{DPoP: true})
	endPause(a)
	requireOK(t, a)
	require.NotContains(t, a.Redact("the key is "+a.dpop.Text()), a.dpop.Text())
	c := a.credentialOf("token")
	again, err2 := c.key.Proof(http.MethodPost, a.http.Server(), "token", "", nil)
	require.NoError(t, err2)
	require.Equal(t, "a ***, *** b", a.Redact("a "+again+", "+proof+" b"))
	require.NotContains(t, (&Authorization{DPoPKey: "canary"}).String(), "canary")
}

package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

func TestAssertionGrant(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Assertion: "signed by the platform", Scopes: []string{"read"}})
	var asked AssertionRequest
	a := newAuthorizer(t, s, Config{Grant: GrantJWTBearer, ClientID: "workload",
		FetchAssertion: func(_ context.Context, wanted AssertionRequest) (string, error) {
			asked = wanted
			return "signed by the platform", nil
		}})
	requireOK(t, a)
	require.Equal(t, AssertionRequest{Issuer: s.Issuer, Resource: s.URL, ClientID: "workload", Scopes: []string{"read"}}, asked)
	require.Equal(t, 1, s.Counts().AssertionGrants)
	require.Equal(t, s.URL, s.Counts().LastToken.Get("resource"))
	require.NotContains(t, a.Redact("x signed by the platform y"), "platform")

	s.Revoke(true, true)
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().AssertionGrants, "each token request has an assertion of its own")
}

// The platform renews the file of an assertion, and another process that of an ID token, so
// each token request reads it again. A file that cannot be read is a temporary failure.
func TestAssertionGrant_files(t *testing.T) {
	presented := ""
	endpoint := provider(t, func(w http.ResponseWriter, form url.Values) {
		presented = form.Get("subject_token")
		answerWith(w, http.StatusOK, `{"access_token": "first", "token_type": "N_A", "issued_token_type": "`+tokenTypeIDJAG+`"}`)
	})
	path := filepath.Join(t.TempDir(), "token")
	for name, config := range map[string]Config{
		"assertion": {Grant: GrantJWTBearer, ClientID: "me", AssertionFile: path},
		"ID token": {Grant: GrantJWTBearer, ClientID: "me",
			Enterprise: &Enterprise{TokenEndpoint: endpoint, ClientID: "us", IDTokenFile: path}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{Assertion: "first"})
			requireUnavailable(t, newAuthorizer(t, s, config))
			require.NoError(t, os.WriteFile(path, []byte("first\n"), 0o600))
			a := newWorking(t, s, config)
			require.NoError(t, os.WriteFile(path, []byte(" second\n"), 0o600))
			s.Set(oauthtest.Rules{Assertion: map[bool]string{true: "second", false: "first"}[config.Enterprise == nil]})
			s.Revoke(true, true)
			requireOK(t, a)
			if config.Enterprise != nil {
				require.Equal(t, "second", presented)
			}
			require.NoError(t, os.Remove(path))
		})
	}
}

// A refused assertion is not presented again, and no other grant is tried.
func TestAssertionGrant_refused(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Assertion: "another"})
	a := newAuthorizer(t, s, Config{Grant: GrantJWTBearer, FetchAuthorizationCode: approve,
		FetchAssertion: func(context.Context, AssertionRequest) (string, error) { return "mine", nil }})
	required := requireAuthRequired(t, a, "")
	require.ErrorContains(t, required, "invalid_grant")
	require.Equal(t, 1, s.Counts().AssertionGrants)
	require.Zero(t, s.Counts().Authorizations+s.Counts().ClientGrants+s.Counts().Registrations)
}

func TestAssertionGrant_host_fails(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Assertion: "x"})
	for _, supply := range map[string]AssertionFunc{
		"an error": func(context.Context, AssertionRequest) (string, error) {
			return "", errors.New("the vault is sealed")
		},
		"nothing": func(context.Context, AssertionRequest) (string, error) { return "", nil },
	} {
		a := newAuthorizer(t, s, Config{Grant: GrantJWTBearer, FetchAssertion: supply})
		requireUnavailable(t, a)
	}
	fromHost := &mcpvisor.AuthRequired{URL: "https://login.example/"}
	a := newAuthorizer(t, s, Config{Grant: GrantJWTBearer,
		FetchAssertion: func(context.Context, AssertionRequest) (string, error) { return "", fromHost }})
	required := requireAuthRequired(t, a, "")
	require.Equal(t, "https://login.example/", required.URL, "the URL of the host is kept")
	require.NotSame(t, fromHost, required, "the host's error is copied before secrets are removed")
}

// provider is an identity provider of an enterprise.
func provider(t *testing.T, answer func(w http.ResponseWriter, form url.Values)) (endpoint string) {
	t.Helper()
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		answer(w, r.PostForm)
	}))
	t.Cleanup(p.Close)
	return p.URL
}

func TestEnterprise(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Assertion: "the-providers-word"})
	var form url.Values
	endpoint := provider(t, func(w http.ResponseWriter, f url.Values) {
		form = f
		answerWith(w, http.StatusOK, `{"access_token": "the-providers-word", "token_type": "N_A", "issued_token_type": "`+tokenTypeIDJAG+`"}`)
	})
	a := newAuthorizer(t, s, Config{Grant: GrantJWTBearer, ClientID: "host", Scopes: []string{"files"},
		Enterprise: &Enterprise{TokenEndpoint: endpoint, ClientID: "host-at-idp", ClientSecret: "idp-secret",
			FetchIDToken: func(context.Context) (string, error) { return "the login", nil }}})
	requireOK(t, a)
	require.Equal(t, url.Values{"grant_type": {grantTokenExchange}, "requested_token_type": {tokenTypeIDJAG},
		"audience": {s.Issuer}, "resource": {s.URL}, "subject_token": {"the login"}, "subject_token_type": {tokenTypeIDToken},
		"scope": {"files"}, "client_id": {"host-at-idp"}, "client_secret": {"idp-secret"}}, form)
	require.Equal(t, "host", s.Counts().LastToken.Get("client_id"))
	require.Empty(t, s.Counts().LastToken.Get("client_secret"), "each party gets its own secret")
	for _, secret := range []string{"idp-secret", "the login", "the-providers-word"} {
		require.NotContains(t, a.Redact("so: "+secret), secret)
	}
}

func TestEnterprise_refused(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	for _, c := range []struct {
		status     int
		body, says string
		temporary  bool
	}{
		{http.StatusBadRequest, `{"error": "access_denied", "error_description": "not for you"}`, "not for you", false},
		{http.StatusOK, `{}`, "without a token", false},
		{http.StatusOK, `{"access_token": "x", "token_type": "DPoP"}`, "only Bearer", false},
		{http.StatusOK, `{"access_token": "x", "token_type": "N_A"}`, "only Bearer", false},
		{http.StatusServiceUnavailable, ``, "503", true},
	} {
		endpoint := provider(t, func(w http.ResponseWriter, _ url.Values) { answerWith(w, c.status, c.body) })
		a := newAuthorizer(t, s, Config{Grant: GrantJWTBearer, ClientID: "host", TokenWait: 10 * time.Second,
			Enterprise: &Enterprise{TokenEndpoint: endpoint, ClientID: "idp", FetchIDToken: func(context.Context) (string, error) { return "login", nil }}})
		_, err := sendRequest(t.Context(), a, "")
		require.ErrorContains(t, err, c.says)
		var unavailable *mcpvisor.AuthUnavailable
		require.Equal(t, c.temporary, errors.As(err, &unavailable), "%v", err)
	}
	require.Zero(t, s.Counts().AssertionGrants)
}

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
	a := newWorking(t, s, service())
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
			a := newWorking(t, s, o)
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
	a := newWorking(t, s, service())
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
	a := newWorking(t, s, service())
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
	a := newWorking(t, s, o)
	kept, err := o.Store.Load(t.Context(), a.key)
	require.NoError(t, err)
	require.Nil(t, kept)
}

// A scope that was requested and not granted is not requested again by each call.
func TestClientCredentials_scope_not_granted(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"write": "write"},
		Token: func(_ http.ResponseWriter, r *http.Request) bool { r.PostForm.Set("scope", "read"); return false }})
	s.AddClient("service", "service-secret")
	a := newWorking(t, s, service())
	for range 3 {
		endPause(a)
		requireAuthRequired(t, a, "write")
	}
	require.Equal(t, 2, s.Counts().ClientGrants, "one request for the scope")
	requireOK(t, a)
}

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
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	key := stored(t, store, a.key).DPoPKey
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
	require.Equal(t, key, stored(t, store, a.key).DPoPKey)
}

// Tokens that have lost their key are not used; the user authorizes again, with the same
// registration.
func TestDPoP_keyIsLost(t *testing.T) {
	for name, key := range map[string]string{"damaged": "no key", "empty scalar": "AA", "removed by another version": ""} {
		t.Run(name, func(t *testing.T) {
			s, store := newServerWithTokens(t, oauthtest.Rules{DPoP: true})
			a := newDetached(t, s, Config{Store: store})
			old := stored(t, store, a.key)
			old.DPoPKey = key
			require.NoError(t, store.Save(t.Context(), a.key, encode(t, old)))
			a.Attach(t.Context())
			defer a.Detach(0)
			requireAuthRequired(t, a, "")
			require.Equal(t, key == "", s.Counts().Refreshes > 0, "tokens whose key is damaged are not sent")
			require.NoError(t, a.Authorize(t.Context(), openBrowser))
			requireOK(t, a)
			now := stored(t, store, a.key)
			require.Equal(t, old.ClientID, now.ClientID)
			require.NotEqual(t, key, now.DPoPKey)
		})
	}
}

// A grant without a user keeps its key in memory.
func TestDPoP_clientCredentials(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{DPoP: true})
	s.AddClient("me", "very-secret")
	a := newWorking(t, s, Config{Grant: GrantClientCredentials, ClientID: "me", ClientSecret: "very-secret"})
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
		"the metadata of the MCP server says it": {oauthtest.Rules{DPoP: true, Challenge: challenge("Bearer"),
			Document: announce("protected-resource", "dpop_bound_access_tokens_required", true)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, a := newApproved(t, row.rules)
			requireOK(t, a)
			require.Equal(t, row.bound, a.dpop != nil)
		})
	}
}

// The token endpoint may demand a nonce once for each request, and not again and again.
func TestDPoP_nonceOfTokenEndpoint(t *testing.T) {
	var asked, proofs atomic.Int32
	var endless atomic.Bool
	s, a := newApproved(t, oauthtest.Rules{DPoP: true, DPoPNonce: "first", Token: func(w http.ResponseWriter, r *http.Request) bool {
		proofs.Add(int32(len(r.Header.Values("DPoP"))))
		if n := asked.Add(1); endless.Load() {
			w.Header().Set("DPoP-Nonce", strings.Repeat("n", int(n)))
			answerWith(w, http.StatusBadRequest, `{"error":"use_dpop_nonce"}`)
			return true
		}
		return false
	}})
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
	s, a := newApproved(t, oauthtest.Rules{DPoP: true, Token: func(w http.ResponseWriter, r *http.Request) bool {
		proof = r.Header.Get("DPoP")
		answerWith(w, http.StatusBadRequest, `{"error":"invalid_dpop_proof","error_description":"bad `+proof+`, `+url.QueryEscape(proof)+`"}`)
		return true
	}})
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
}

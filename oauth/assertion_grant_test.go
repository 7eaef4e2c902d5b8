package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
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
			_, err := sendRequest(t.Context(), newAuthorizer(t, s, config), "")
			var unavailable *mcpvisor.AuthUnavailable
			require.ErrorAs(t, err, &unavailable)
			require.NoError(t, os.WriteFile(path, []byte("first\n"), 0o600))
			a := newAuthorizer(t, s, config)
			requireOK(t, a)
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
	for name, supply := range map[string]AssertionFunc{
		"an error": func(context.Context, AssertionRequest) (string, error) {
			return "", errors.New("the vault is sealed")
		},
		"nothing": func(context.Context, AssertionRequest) (string, error) { return "", nil },
	} {
		a := newAuthorizer(t, s, Config{Grant: GrantJWTBearer, FetchAssertion: supply})
		_, err := sendRequest(t.Context(), a, "")
		var unavailable *mcpvisor.AuthUnavailable
		require.ErrorAs(t, err, &unavailable, name)
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

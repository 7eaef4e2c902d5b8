package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
)

func TestCodeGrant_parameters(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Scopes: []string{"extra"}})
	requireOK(t, a)
	v, f := s.Counts().LastAuthorization, s.Counts().LastToken
	require.Equal(t, "code", v.Get("response_type"))
	require.Equal(t, s.URL, v.Get("resource"))
	require.Equal(t, s.URL, f.Get("resource"))
	require.Equal(t, "S256", v.Get("code_challenge_method"))
	require.GreaterOrEqual(t, len(f.Get("code_verifier")), 43, "RFC 7636, section 4.1")
	require.Equal(t, "extra read", v.Get("scope"))
	require.Equal(t, v.Get("redirect_uri"), f.Get("redirect_uri"))
	first := v.Get("state")
	s.Revoke(true, false)
	requireOK(t, a)
	require.NotEqual(t, first, s.Counts().LastAuthorization.Get("state"))
	require.NotEqual(t, f.Get("code_verifier"), s.Counts().LastToken.Get("code_verifier"))
}

func TestExchangeCode_checks_redirect(t *testing.T) {
	advertised := func(path string, d map[string]any) int {
		if strings.Contains(path, "oauth-authorization-server") {
			d["authorization_response_iss_parameter_supported"] = true
		}
		return 0
	}
	iss := func(value string) func(url.Values) { return func(q url.Values) { q.Set("iss", value) } }
	for name, c := range map[string]struct {
		document func(string, map[string]any) int
		redirect func(url.Values)
		says     string // empty: the redirect is accepted
	}{
		"wrong_state":      {nil, func(q url.Values) { q.Set("state", "another") }, "its state differs"},
		"no state":         {nil, func(q url.Values) { q.Del("state") }, "its state differs"},
		"no code":          {nil, func(q url.Values) { q.Del("code") }, "no code parameter"},
		"denied":           {nil, func(q url.Values) { q.Set("error", "access_denied"); q.Set("error_description", "no way") }, "access_denied (no way)"},
		"foreign_issuer":   {nil, iss("https://evil.example"), "another authorization server"},
		"slash at the end": {nil, func(q url.Values) { q.Set("iss", "SELF/") }, "another authorization server"},
		"own issuer":       {nil, func(q url.Values) { q.Set("iss", "SELF") }, ""},
		"issuer missing":   {advertised, nil, "has no iss parameter"},
		"issuer there":     {advertised, func(q url.Values) { q.Set("iss", "SELF") }, ""},
		"error_of_foreign_issuer": {nil, func(q url.Values) {
			q.Set("iss", "https://evil.example")
			q.Set("error", "click_here")
		}, "another authorization server"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *oauthtest.Server
			redirect := func(q url.Values) {
				if c.redirect != nil {
					c.redirect(q)
				}
				if text := q.Get("iss"); text != "" {
					q.Set("iss", strings.Replace(text, "SELF", s.Issuer, 1))
				}
			}
			s = newAuthServer(t, oauthtest.Rules{Document: c.document, Redirect: redirect})
			a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
			_, err := sendRequest(t.Context(), a, "")
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "click_here")
			require.Zero(t, s.Counts().CodeExchanges, "the code is not exchanged")
		})
	}
}

func TestAuthRequired_without_waiting_for_the_user(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}})
	a := newAuthorizer(t, s, Config{})
	required := requireAuthRequired(t, a, "")
	require.Equal(t, s.Issuer, required.Issuer)
	require.Equal(t, s.URL, required.Resource)
	require.Equal(t, []string{"read"}, required.Scopes)
	require.NotContains(t, required.Error(), "state=")

	redirect, err := approve(t.Context(), required.URL)
	require.NoError(t, err)
	require.ErrorContains(t, a.Finish(t.Context(), redirect+"x&state=unknown"), "no authorization request waits")
	require.NoError(t, a.Finish(t.Context(), redirect))
	requireOK(t, a)
	require.ErrorContains(t, a.Finish(t.Context(), redirect), "no authorization request waits", "a redirect is accepted once")
}

func TestCodeGrant_registers_once(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	store := NewMemoryStore()
	for range 3 {
		a := newAuthorizer(t, s, Config{Store: store})
		requireAuthRequired(t, a, "")
		requireAuthRequired(t, a, "")
	}
	require.Equal(t, 1, s.Counts().Registrations)
}

func TestAuthorize(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}})
	a := newDetached(t, s, Config{}) // no challenge was received yet
	require.NoError(t, a.Authorize(t.Context(), func(url string) error {
		go func() {
			redirect, err := approve(context.Background(), url)
			if err == nil {
				_, _ = approve(context.Background(), strings.Replace(redirect, "state=", "state=foreign", 1)) // is refused
				_, _ = approve(context.Background(), redirect)
			}
		}()
		return nil
	}))
	require.Equal(t, "read", s.Counts().LastAuthorization.Get("scope"), "the scope is that of the challenge")
	requireOK(t, a)

	failed := errors.New("no browser")
	require.ErrorIs(t, a.Authorize(t.Context(), func(string) error { return failed }), failed)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, a.Authorize(ctx, func(string) error { cancel(); return nil }), context.Canceled)
}

func TestStepUp(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"tools/call": "write", "root": "root"}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	requireOK(t, a)
	status, err := sendRequest(t.Context(), a, "tools/call")
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, "read write", s.Counts().LastAuthorization.Get("scope"), "the granted scope is requested again")
	require.Equal(t, 1, s.Counts().Registrations)

	s = newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"tools/call": "write"}})
	store := NewMemoryStore()
	a = newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	requireOK(t, a)
	alone := newAuthorizer(t, s, Config{Store: store})
	required := requireAuthRequired(t, alone, "tools/call")
	require.Contains(t, required.URL, "scope=read+write")
	requireOK(t, alone) // other requests succeed
}

// A discovery that takes longer than a call may wait completes anyway.
func TestSlowDiscovery_completes_in_background(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Document: func(string, map[string]any) int { time.Sleep(100 * time.Millisecond); return 0 }})
	a := newAuthorizer(t, s, Config{TokenWait: 50 * time.Millisecond})
	_, err := sendRequest(t.Context(), a, "")
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)
	var required *mcpvisor.AuthRequired
	require.Eventually(t, func() bool { _, err := sendRequest(t.Context(), a, ""); return errors.As(err, &required) }, testTimeout, 10*time.Millisecond)
	require.NotEmpty(t, required.URL)
}

// A new consent does not help if the server asks for a scope that the token has.
func TestStepUp_for_granted_scope(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"tools/call": "write"}, Challenge: func(h http.Header) {
		h.Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="read"`)
	}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Scopes: []string{"read"}})
	requireOK(t, a)
	for range 3 {
		require.Contains(t, requireAuthRequired(t, a, "tools/call").Reason, "scopes that the token already has")
	}
	require.Equal(t, 1, s.Counts().Authorizations)
}

func TestCodeGrant_offline_access(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Document: func(path string, d map[string]any) int {
		if strings.Contains(path, "oauth-authorization-server") {
			d["scopes_supported"] = []string{"offline_access", "other"}
		}
		return 0
	}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	requireOK(t, a)
	require.Equal(t, "offline_access", s.Counts().LastAuthorization.Get("scope"))
	require.Equal(t, "consent", s.Counts().LastAuthorization.Get("prompt"))
}

func TestCodeGrant_requires_PKCE(t *testing.T) {
	for _, methods := range [][]string{nil, {"plain"}} {
		s := newAuthServer(t, oauthtest.Rules{Document: func(_ string, d map[string]any) int {
			delete(d, "code_challenge_methods_supported")
			if methods != nil && d["issuer"] != nil {
				d["code_challenge_methods_supported"] = methods
			}
			return 0
		}})
		a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
		_, err := sendRequest(t.Context(), a, "")
		require.ErrorContains(t, err, "PKCE")
		require.Zero(t, s.Counts().Authorizations)
	}
}

// A renewal that ends late does not replace the tokens of a consent meanwhile.
func TestFinish_during_renewal(t *testing.T) {
	rule, asked, free := hangGrant(t, "refresh_token")
	s := newAuthServer(t, oauthtest.Rules{Rotate: true, Token: rule})
	unlocked := struct{ TokenStore }{NewMemoryStore()}
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Store: unlocked})
	requireOK(t, a)
	n, err := a.newAuthRequest(t.Context(), metadata.Challenge{}, nil, false)
	require.NoError(t, err)
	redirect, err := approve(t.Context(), n.url)
	require.NoError(t, err)
	setExpiry(t, a, 0, time.Hour)
	late := make(chan error, 1)
	go func() { _, err := sendRequest(context.Background(), a, ""); late <- err }()
	<-asked
	finished := make(chan error, 1)
	go func() { finished <- a.Finish(context.Background(), redirect) }()
	select {
	case <-finished:
		require.FailNow(t, "Finish did not wait for the token lock")
	case <-time.After(50 * time.Millisecond):
	}
	free()
	require.NoError(t, <-late)
	require.NoError(t, <-finished)
	requireOK(t, a)
	s.Revoke(false, false)
	requireOK(t, a)
	require.Equal(t, 1, s.Counts().Authorizations-1, "the refresh token of the consent is kept")
}

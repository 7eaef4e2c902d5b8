package oauth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

func TestDiscovery(t *testing.T) {
	hide := func(paths ...string) func(string, map[string]any) int {
		return func(path string, _ map[string]any) int {
			for _, p := range paths {
				if strings.Contains(path, p) {
					return http.StatusNotFound
				}
			}
			return 0
		}
	}
	for name, c := range map[string]struct {
		document func(path string, d map[string]any) int
		says     string // empty: it succeeds
	}{
		"as it should be": {nil, ""},
		"other_resource": {func(path string, d map[string]any) int {
			d["resource"] = "https://evil.example/mcp"
			return 0
		}, "which is not this server"},
		"no authorization server": {func(_ string, d map[string]any) int { delete(d, "authorization_servers"); return 0 }, "names no authorization server"},
		"other_issuer": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["issuer"] = "https://evil.example"
			}
			return 0
		}, "says that its issuer is"},
		"issuer of another tenant": {func(path string, d map[string]any) int {
			if text, ok := d["issuer"].(string); ok {
				d["issuer"] = text + "/tenant"
			}
			return 0
		}, "says that its issuer is"},
		"token endpoint elsewhere without TLS": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["token_endpoint"] = "http://elsewhere.example/token"
			}
			return 0
		}, "is not https"},
		"authorization endpoint elsewhere without TLS": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["authorization_endpoint"] = "http://elsewhere.example/authorize"
			}
			return 0
		}, "the authorization endpoint of"},
		"authorization endpoint that is a script": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["authorization_endpoint"] = "javascript:alert(1)"
			}
			return 0
		}, "the authorization endpoint of"},
		"no authorization endpoint": {func(_ string, d map[string]any) int { delete(d, "authorization_endpoint"); return 0 }, "names no endpoints"},
		"no token endpoint":         {func(_ string, d map[string]any) int { delete(d, "token_endpoint"); return 0 }, "names no endpoints"},
		"server down":               {func(path string, _ map[string]any) int { return http.StatusBadGateway }, "502"},
		"issuer without metadata":   {hide("oauth-authorization-server", "openid"), "publishes no metadata"},
		"no metadata at all (2025)": {hide("well-known"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{Document: c.document})
			a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
			_, err := sendRequest(t.Context(), a, "")
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.Zero(t, s.Counts().Authorizations)
		})
	}
}

func TestDiscovery_temporary_error(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Document: func(string, map[string]any) int { return http.StatusBadGateway }})
	a := newAuthorizer(t, s, Config{})
	_, err := sendRequest(t.Context(), a, "")
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable, "the next attempt may succeed")
}

func TestTokenRequest_redirected(t *testing.T) {
	asked := make(chan struct{}, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer elsewhere.Close()
	s := newAuthServer(t, oauthtest.Rules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		return true
	}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	_, err := sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "redirect")
	require.Empty(t, asked)
}

// Of several authorization servers the one of Config.Issuer is used.
func TestDiscovery_configured_issuer(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	s.Set(oauthtest.Rules{Document: func(_ string, d map[string]any) int {
		if d["authorization_servers"] != nil {
			d["authorization_servers"] = []string{"https://another.example", s.Issuer}
		}
		return 0
	}})
	s.AddClient("me", "my-secret")
	requireOK(t, newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, ClientID: "me", ClientSecret: "my-secret", Issuer: s.Issuer}))
}

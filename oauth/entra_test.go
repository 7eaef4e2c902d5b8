package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// entra behaves as Microsoft Entra ID does by its documents, and is the MCP server, too: the
// issuer has the tenant in its path, the metadata is that of OpenID Connect and does not announce
// PKCE, which is checked; resource beside scope is refused (AADSTS9010010), as is a request without
// scope where client and resource are one app (AADSTS90009). Answers name no offline_access, and
// a renewal without it gets no refresh token. It is an http.RoundTripper, so that its clock may be
// that of a bubble.
type entra struct {
	base       string
	mu         sync.Mutex           // guards the fields below
	challenges map[string]string    // by code
	valid      map[string]time.Time // access tokens
	refresh    string               // the current refresh token
	renewals   int
	asked      url.Values // the last token request
}

const entraScope = "api://case/access"

func (s *entra) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

func (s *entra) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, v map[string]any) {
		text, _ := json.Marshal(v)
		answerWith(w, status, string(text))
	}
	refuse := func(format string, args ...any) {
		answer(http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": fmt.Sprintf(format, args...)})
	}
	issuer := s.base + "/11111111-2222/v2.0"
	_ = r.ParseForm()
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		answer(http.StatusOK, map[string]any{"resource": s.base + "/mcp", "authorization_servers": []string{issuer}, "scopes_supported": []string{entraScope}})
	case "/11111111-2222/v2.0/.well-known/openid-configuration":
		answer(http.StatusOK, map[string]any{"issuer": issuer, "authorization_endpoint": s.base + "/11111111-2222/oauth2/v2.0/authorize",
			"token_endpoint": s.base + "/11111111-2222/oauth2/v2.0/token", "scopes_supported": []string{"openid", "profile", "email", "offline_access"}})
	case "/11111111-2222/oauth2/v2.0/authorize":
		q := r.URL.Query()
		if q.Has("resource") {
			refuse("AADSTS9010010: The resource parameter provided in the request doesn't match with the requested scopes.")
			return
		}
		s.challenges["code"] = q.Get("code_challenge")
		w.Header().Set("Location", q.Get("redirect_uri")+"?"+url.Values{"code": {"code"}, "state": {q.Get("state")}}.Encode())
		w.WriteHeader(http.StatusFound)
	case "/11111111-2222/oauth2/v2.0/token":
		s.asked = r.PostForm
		scopes := strings.Fields(r.PostForm.Get("scope"))
		kind := r.PostForm.Get("grant_type")
		renewal := kind == "refresh_token"
		switch {
		case r.PostForm.Has("resource"):
			refuse("AADSTS9010010: The resource parameter provided in the request doesn't match with the requested scopes.")
			return
		case renewal && !slices.Contains(scopes, entraScope):
			refuse("AADSTS90009: Application is requesting a token for itself. This scenario is supported only if resource is specified using the GUID based App Identifier.")
			return
		case renewal && r.PostForm.Get("refresh_token") != s.refresh, kind == "authorization_code" && (s.challenges["code"] == "" || r.PostForm.Get("code_verifier") == ""):
			answer(http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "AADSTS70008"})
			return
		case kind == "client_credentials" && !slices.Contains(scopes, "api://case/.default"):
			refuse("AADSTS1002012: The provided value for scope is not valid. Client credential flows must have a scope value with /.default suffixed to the resource identifier.")
			return
		}
		s.renewals++
		token := fmt.Sprintf("access-token-%d", s.renewals)
		s.valid[token] = time.Now().Add(time.Hour)
		a := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": entraScope}
		if slices.Contains(scopes, "offline_access") || kind == "authorization_code" {
			s.refresh = fmt.Sprintf("refresh-token-%d", s.renewals)
			a["refresh_token"] = s.refresh
		} else if renewal {
			s.refresh = "" // used up
		}
		answer(http.StatusOK, a)
	case "/mcp":
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !time.Now().Before(s.valid[token]) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.base+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// send sends one request with the authorizer's tokens, as the transport does.
func (s *entra) send(ctx context.Context, a *authorizer) (int, error) {
	c, err := a.Credential(ctx)
	for {
		if err != nil {
			return 0, err
		}
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, s.base+"/mcp", nil)
		if err := c.SetHeaders(req.Header, req.Method, req.URL, nil); err != nil {
			return 0, err
		}
		resp, _ := s.RoundTrip(req)
		next, err := a.Answered(ctx, c, resp.StatusCode, resp.Header)
		if next == nil || err != nil {
			return resp.StatusCode, err
		}
		c = next
	}
}

// A service without a user keeps its access to a server behind Entra ID while its tokens expire.
func TestEntra_service_without_user(t *testing.T) {
	for name, o := range map[string]Config{
		"of_a_user": {ClientID: "app", OmitResource: true, AssumePKCE: true},
		"of_an_app": {ClientID: "app", ClientSecret: "a-secret-of-the-app", OmitResource: true, Grant: GrantClientCredentials, Scopes: []string{"api://case/.default"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &entra{base: "http://127.0.0.1:1", challenges: map[string]string{}, valid: map[string]time.Time{}}
				start := func(o Config) (*authorizer, func()) {
					a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: s.base + "/mcp", Client: &http.Client{Transport: s}, Auth: &o}, func(text string) { t.Error("warning:", text) })
					require.NoError(t, err)
					a.Attach(t.Context())
					return a, func() { a.Detach(time.Second) }
				}
				requireAccess := func(a *authorizer) {
					status, err := s.send(t.Context(), a)
					require.NoError(t, err)
					require.Equal(t, http.StatusNoContent, status)
				}
				o.Store = NewMemoryStore()
				first := o
				if o.Grant == "" { // the user consents once
					first.FetchAuthorizationCode = func(_ context.Context, address string) (string, error) {
						resp, _ := s.RoundTrip(httptest.NewRequest(http.MethodGet, address, nil))
						return resp.Header.Get("Location"), nil
					}
				}
				a, stop := start(first)
				requireAccess(a)
				stop()
				for expiry := range 20 {
					if expiry%10 == 0 { // the service restarts
						stop()
						a, stop = start(o)
					}
					time.Sleep(time.Hour + time.Second) // of the bubble
					requireAccess(a)
					s.mu.Lock()
					require.False(t, s.asked.Has("resource"))
					s.mu.Unlock()
				}
				stop()
				require.GreaterOrEqual(t, s.renewals, 20)
			})
		})
	}
}

// Without the two settings such a server is refused, with the setting that helps.
func TestEntra_refused_by_default(t *testing.T) {
	s := &entra{base: "http://127.0.0.1:1", challenges: map[string]string{}, valid: map[string]time.Time{}}
	a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: s.base + "/mcp", Client: &http.Client{Transport: s}, Auth: &Config{ClientID: "app", Store: NewMemoryStore()}}, func(string) {})
	require.NoError(t, err)
	_, err = s.send(t.Context(), a)
	require.ErrorContains(t, err, "set AssumePKCE")
}

// AssumePKCE does not accept a server that says that it has another PKCE.
func TestAssumePKCE(t *testing.T) {
	for _, methods := range [][]string{nil, {"plain"}} {
		s, a := newServed(t, oauthtest.Rules{Document: func(_ string, d map[string]any) int {
			if delete(d, "code_challenge_methods_supported"); methods != nil && d["issuer"] != nil {
				d["code_challenge_methods_supported"] = methods
			}
			return 0
		}}, Config{FetchAuthorizationCode: approve, AssumePKCE: true})
		if methods == nil {
			requireOK(t, a)
			require.Equal(t, "S256", s.Counts().LastAuthorization.Get("code_challenge_method"))
			continue
		}
		require.ErrorContains(t, requireAuthRequired(t, a, ""), "PKCE")
	}
}

// Resource replaces the published identifier in each request, and not the server that tokens are for.
func TestConfig_resource(t *testing.T) {
	var asked []string
	s := newAuthServer(t, oauthtest.Rules{Token: func(_ http.ResponseWriter, r *http.Request) bool {
		asked = append(asked, r.PostForm.Get("resource"))
		r.PostForm.Set("resource", strings.TrimPrefix(r.PostForm.Get("resource"), "api:"))
		return false
	}})
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Resource: "api:" + s.URL})
	setExpiry(t, a, 0, time.Hour)
	requireOK(t, a)
	require.Equal(t, "api:"+s.URL, s.Counts().LastAuthorization.Get("resource"))
	require.Equal(t, []string{"api:" + s.URL, "api:" + s.URL}, asked)
	require.Equal(t, s.URL, a.tokens.Resource)
}

package oauth

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestIsResource(t *testing.T) {
	for identifier, want := range map[string]bool{
		"https://mcp.example/a/mcp":        true,
		"https://mcp.example/a/mcp/":       true,
		"https://MCP.example:443/a/mcp":    true,
		"https://mcp.example/a":            true,
		"https://mcp.example":              true,
		"https://mcp.example/":             true,
		"https://mcp.example/a/mc":         false,
		"https://mcp.example/a/mcp/deeper": false,
		"https://mcp.example/b/mcp":        false,
		"https://evil.example/a/mcp":       false,
		"http://mcp.example/a/mcp":         false,
		"https://mcp.example:8443/a/mcp":   false,
		"https://mcp.example/a/mcp#x":      false,
		"https://mcp.example/a/mcp?x":      false,
		"":                                 false,
		"mcp.example":                      false,
	} {
		server, err := url.Parse("https://mcp.example/a/mcp")
		require.NoError(t, err)
		require.Equal(t, want, isResource(identifier, server), identifier)
	}
}

func TestMetadataAddresses(t *testing.T) {
	require.Equal(t, []string{"https://a.example/.well-known/oauth-authorization-server", "https://a.example/.well-known/openid-configuration"},
		metadataAddresses("https://a.example/"))
	require.Equal(t, []string{"https://a.example/.well-known/oauth-authorization-server/t/1", "https://a.example/.well-known/openid-configuration/t/1",
		"https://a.example/t/1/.well-known/openid-configuration"}, metadataAddresses("https://a.example/t/1"))
}

// Nobody out there may point at what listens on this machine or speaks no TLS.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		server, address string
		want            bool
	}{
		{"https://mcp.example/mcp", "https://auth.example/x", true},
		{"https://mcp.example/mcp", "http://auth.example/x", false},
		{"https://mcp.example/mcp", "http://mcp.example/x", false},
		{"https://mcp.example/mcp", "http://127.0.0.1:8080/x", false},
		{"https://mcp.example/mcp", "http://169.254.169.254/latest", false},
		{"https://mcp.example/mcp", "javascript:alert(1)", false},
		{"https://mcp.example/mcp", "https://user@auth.example/", false},
		{"https://mcp.example/mcp", "file:///etc/passwd", false},
		{"http://mcp.internal/mcp", "http://mcp.internal:9000/x", true},
		{"http://mcp.internal/mcp", "http://127.0.0.1/x", false},
		{"http://localhost:1/mcp", "http://127.0.0.1:2/x", true},
		{"http://[::1]:1/mcp", "http://localhost/x", true},
	} {
		server, err := url.Parse(c.server)
		require.NoError(t, err)
		address, err := url.Parse(c.address)
		require.NoError(t, err)
		require.Equal(t, c.want, newWeb(server, &mcpvisor.HTTP{}).allowed(address) == nil, "%s names %s", c.server, c.address)
	}
}

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
		says     string // "": it works out
	}{
		"as it should be": {nil, ""},
		"resource of somebody else": {func(path string, d map[string]any) int {
			d["resource"] = "https://evil.example/mcp"
			return 0
		}, "which is not this server"},
		"no authorization server": {func(_ string, d map[string]any) int { delete(d, "authorization_servers"); return 0 }, "names no authorization server"},
		"issuer of somebody else": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["issuer"] = "https://evil.example"
			}
			return 0
		}, "says that it is"},
		"issuer of another tenant": {func(path string, d map[string]any) int {
			if text, ok := d["issuer"].(string); ok {
				d["issuer"] = text + "/tenant"
			}
			return 0
		}, "says that it is"},
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
			s := newAuthority(t, mcptest.AuthorityRules{Document: c.document})
			a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
			_, err := request(t.Context(), a, "")
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.Zero(t, s.Counts().Visits)
		})
	}
}

func TestFailureThatPassesIsNoVerdict(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Document: func(string, map[string]any) int { return http.StatusBadGateway }})
	a := newAuthorizer(t, s, mcpvisor.OAuth{})
	_, err := request(t.Context(), a, "")
	var passing *Unavailable
	require.ErrorAs(t, err, &passing, "when the server is back, it works by itself")
}

// Whatever happens on the way to a server may pass, unless it is about who it is.
func TestTransportErrorsPass(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	srv.EnableHTTP2 = true // whose errors are no net.Error
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	server, err := url.Parse(srv.URL)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		client  *http.Client
		address string
		passes  bool
	}{
		"reset stream":        {srv.Client(), srv.URL, true},
		"nobody listens":      {nil, "https://127.0.0.1:1/", true},
		"unknown certificate": {nil, srv.URL, false},
		"plain HTTP":          {nil, "http://mcp.example/", false},
	} {
		w := newWeb(server, &mcpvisor.HTTP{Client: c.client})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.address, strings.NewReader("x"))
		require.NoError(t, err)
		_, _, _, err = w.do(req)
		_, passes := mayPass(err)
		require.Equal(t, c.passes, passes, "%s: %v", name, err)
	}
}

// Secrets stay with the server's origin, over redirects too.
func TestHeadersOfTheSpecStayAtTheOrigin(t *testing.T) {
	seen := make(chan string, 4)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Key")
		answerWith(w, http.StatusOK, `{}`)
	}))
	defer stranger.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Key")
		http.Redirect(w, r, stranger.URL, http.StatusFound)
	}))
	defer own.Close()
	server, err := url.Parse(own.URL)
	require.NoError(t, err)
	w := newWeb(server, &mcpvisor.HTTP{Headers: map[string]string{"X-Key": "secret-key"}})
	var d map[string]any
	require.NoError(t, w.document(t.Context(), own.URL, &d))
	require.Equal(t, "secret-key", <-seen)
	require.Empty(t, <-seen)
}

func TestTokenRequestIsNotRedirected(t *testing.T) {
	asked := make(chan struct{}, 1)
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer stranger.Close()
	s := newAuthority(t, mcptest.AuthorityRules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
		return true
	}})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	_, err := request(t.Context(), a, "")
	require.ErrorContains(t, err, "redirect")
	require.Empty(t, asked)
}

func TestChallenge(t *testing.T) {
	for header, want := range map[string]challenge{
		`Bearer resource_metadata="https://x/y", scope="a b"`:            {heard: true, metadata: "https://x/y", scopes: []string{"a", "b"}},
		`Basic realm="x", Bearer error="insufficient_scope", scope="w"`:  {heard: true, code: insufficientScope, scopes: []string{"w"}},
		`bearer error=invalid_token, error_description="it said \"no\""`: {heard: true, code: "invalid_token", text: `it said "no"`},
		`Negotiate`:                {heard: true},
		`Bearer scope="unfinished`: {heard: true},
	} {
		require.Equal(t, want, challengeIn(http.Header{"Www-Authenticate": {header}}), header)
	}
	require.Equal(t, challenge{heard: true, code: "x"}, challengeIn(http.Header{"Www-Authenticate": {`Bearer scope="unfinished`, `Bearer error="x"`}}),
		"one bad header does not spoil the other")
}

// Many sites answer whatever is asked with a page for people.
func TestPageForPeopleIsNoMetadata(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>Welcome</html>"))
	}))
	defer site.Close()
	server, err := url.Parse(site.URL + "/mcp")
	require.NoError(t, err)
	p, err := newWeb(server, &mcpvisor.HTTP{}).discover(t.Context(), "", "")
	require.NoError(t, err)
	require.True(t, p.guessed)
	require.Equal(t, site.URL+"/token", p.server.TokenEndpoint)
}

// A server of 2025-03-26 names no issuer that its metadata could be held
// against; it has to be of the same origin all the same.
func TestGuessedIssuerIsOfTheServersOrigin(t *testing.T) {
	for _, c := range []struct {
		issuer string // $: the server's origin
		says   string
	}{
		{"$", ""},
		{"$/", ""},
		{"$/oauth", ""},
		{"https://evil.example", "says that it is"},
		{"http://127.0.0.1:1", "says that it is"},
		{"$evil", "says that it is"},
		{"", "says that it is"},
	} {
		var issuer string
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/.well-known/oauth-authorization-server" {
				http.NotFound(w, r)
				return
			}
			answerWith(w, http.StatusOK, `{"issuer": "`+issuer+`", "token_endpoint": "http://`+r.Host+`/t"}`)
		}))
		issuer = strings.ReplaceAll(c.issuer, "$", site.URL)
		server, err := url.Parse(site.URL + "/mcp")
		require.NoError(t, err)
		p, err := newWeb(server, &mcpvisor.HTTP{}).discover(t.Context(), "", "")
		site.Close()
		if c.says != "" {
			require.ErrorContains(t, err, c.says, c.issuer)
			continue
		}
		require.NoError(t, err, c.issuer)
		require.False(t, p.guessed)
		require.Equal(t, issuer, p.server.Issuer)
	}
}

func TestRedirectsAreBounded(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }))
	defer site.Close()
	server, err := url.Parse(site.URL + "/mcp")
	require.NoError(t, err)
	var d map[string]any
	err = newWeb(server, &mcpvisor.HTTP{}).document(t.Context(), site.URL, &d)
	require.ErrorContains(t, err, "more than 5 redirects")
	_, passes := mayPass(err)
	require.False(t, passes)
}

// Of several authorization servers that a server names, it is the one that the
// client belongs to, whichever is named first.
func TestOneOfSeveralIssuers(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	s.Set(mcptest.AuthorityRules{Document: func(_ string, d map[string]any) int {
		if d["authorization_servers"] != nil {
			d["authorization_servers"] = []string{"https://another.example", s.Issuer}
		}
		return 0
	}})
	s.AddClient("me", "my-secret")
	requireOK(t, newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, ClientID: "me", ClientSecret: "my-secret", Issuer: s.Issuer}))
}

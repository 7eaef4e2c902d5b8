package metadata

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

func TestParseChallenge(t *testing.T) {
	for header, want := range map[string]Challenge{
		`Bearer resource_metadata="https://x/y", scope="a b"`:            {Received: true, MetadataURL: "https://x/y", Scopes: []string{"a", "b"}},
		`Basic realm="x", Bearer error="insufficient_scope", scope="w"`:  {Received: true, Code: CodeInsufficientScope, Scopes: []string{"w"}},
		`bearer error=invalid_token, error_description="it said \"no\""`: {Received: true, Code: "invalid_token", Description: `it said "no"`},
		`Negotiate`:                {Received: true},
		`Bearer scope="unfinished`: {Received: true},
	} {
		require.Equal(t, want, ParseChallenge(http.Header{"Www-Authenticate": {header}}), header)
	}
	require.Equal(t, Challenge{Received: true, Code: "x"}, ParseChallenge(http.Header{"Www-Authenticate": {`Bearer scope="unfinished`, `Bearer error="x"`}}),
		"a header that cannot be parsed does not hide the next one")
}

// oversizeChallenges are headers that take seconds to minutes to parse without
// a bound.
var oversizeChallenges = map[string]string{
	"commas":          "Bearer " + strings.Repeat(",", 1<<20-10) + "a=",
	"parameters":      "Bearer " + strings.Repeat(`a=b,`, 1<<18),
	"challenges":      strings.Repeat("Bearer, ", 1<<17),
	"commas_at_bound": "Bearer " + strings.Repeat(",", 16<<10-10) + "a=",
}

// Without the bounds, the first ones of these would take hours: the time to parse a header grows
// with the product of its bytes and its parts.
func TestParseChallenge_oversize(t *testing.T) {
	for name, header := range oversizeChallenges {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Www-Authenticate": {header, `Bearer resource_metadata="https://x/y", scope="a"`}}
			require.Equal(t, Challenge{Received: true, MetadataURL: "https://x/y", Scopes: []string{"a"}}, ParseChallenge(h), "the next header is read")
		})
	}
	t.Run("many_values", func(t *testing.T) {
		values := append(slices.Repeat([]string{"Bearer a=b"}, maxChallengeParts), `Bearer scope="a"`)
		require.Equal(t, Challenge{Received: true}, ParseChallenge(http.Header{"Www-Authenticate": values}), "the last one is not read")
		require.Equal(t, []string{"a"}, ParseChallenge(http.Header{"Www-Authenticate": values[1:]}).Scopes, "the last one that fits is read")
	})
}

func TestScopes_bounds(t *testing.T) {
	many := make([]string, 200_000)
	for i := range many {
		many[i] = "s" + strconv.Itoa(i)
	}
	all := UnionScopes(many, many[100_000:], []string{"last"})
	require.Equal(t, many[:maxScopes], all)
	require.Equal(t, many[:maxScopes], ParseScopes(strings.Join(many, " ")))
	require.Empty(t, UnionScopes([]string{strings.Repeat("x", maxScopeBytes)}))
	require.True(t, CoverScopes(many, many))
	require.False(t, CoverScopes(many, []string{"s5", "other"}))
}

// newClient returns a client for the MCP endpoint server.
func newClient(t *testing.T, server string) *safehttp.Client {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	return safehttp.New(u, &mcpvisor.HTTP{})
}

func TestIsResourceOf(t *testing.T) {
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
		require.Equal(t, want, IsResourceOf(identifier, server), identifier)
	}
}

func TestWellKnownURLs(t *testing.T) {
	require.Equal(t, []string{"https://a.example/.well-known/oauth-authorization-server", "https://a.example/.well-known/openid-configuration"},
		wellKnownURLs("https://a.example/"))
	require.Equal(t, []string{"https://a.example/.well-known/oauth-authorization-server/t/1", "https://a.example/.well-known/openid-configuration/t/1",
		"https://a.example/t/1/.well-known/openid-configuration"}, wellKnownURLs("https://a.example/t/1"))
}

// Many sites answer every path with an HTML page.
func TestDiscover_html_page_instead_of_metadata(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>Welcome</html>"))
	}))
	defer site.Close()
	d, err := Discover(t.Context(), newClient(t, site.URL+"/mcp"), "", "")
	require.NoError(t, err)
	require.True(t, d.Guessed)
	require.Equal(t, site.URL+"/token", d.Server.TokenEndpoint)
}

// A server of 2025-03-26 names no issuer to compare with. The issuer of its metadata
// must have the same origin.
func TestDiscover_issuer_of_2025_03_26(t *testing.T) {
	for _, c := range []struct {
		issuer string // $: the server's origin
		says   string
	}{
		{"$", ""},
		{"$/", ""},
		{"$/oauth", ""},
		{"https://evil.example", "says that its issuer is"},
		{"http://127.0.0.1:1", "says that its issuer is"},
		{"$evil", "says that its issuer is"},
		{"", "says that its issuer is"},
	} {
		var issuer string
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/.well-known/oauth-authorization-server" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"issuer": "` + issuer + `", "token_endpoint": "http://` + r.Host + `/t"}`))
		}))
		issuer = strings.ReplaceAll(c.issuer, "$", site.URL)
		d, err := Discover(t.Context(), newClient(t, site.URL+"/mcp"), "", "")
		site.Close()
		if c.says != "" {
			require.ErrorContains(t, err, c.says, c.issuer)
			continue
		}
		require.NoError(t, err, c.issuer)
		require.False(t, d.Guessed)
		require.Equal(t, issuer, d.Server.Issuer)
	}
}

// The authorization endpoint is opened by the user's browser, so its address is
// checked here.
func TestCheckEndpoints(t *testing.T) {
	c := newClient(t, "https://93.184.216.34/mcp")
	m := oauthex.AuthServerMeta{Issuer: "https://as.example", AuthorizationEndpoint: "https://192.168.0.1/reboot"}
	require.ErrorContains(t, (&Discovery{Server: &m}).checkEndpoints(t.Context(), c), "a private address")
	m.AuthorizationEndpoint = "https://as.example/authorize"
	require.NoError(t, (&Discovery{Server: &m}).checkEndpoints(t.Context(), c))
}

// A relative resource_metadata is resolved against the URL of the server.
func TestDiscover_relative_metadata_address(t *testing.T) {
	var site *httptest.Server
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/own/metadata":
			_, _ = w.Write([]byte(`{"resource":"` + site.URL + `/own/mcp","authorization_servers":["` + site.URL + `/as"]}`))
		case "/.well-known/oauth-authorization-server/as":
			_, _ = w.Write([]byte(`{"issuer":"` + site.URL + `/as","authorization_endpoint":"` + site.URL + `/as/a","token_endpoint":"` + site.URL + `/as/t","code_challenge_methods_supported":["S256"],"response_types_supported":["code"]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer site.Close()
	for _, address := range []string{"/own/metadata", "metadata", site.URL + "/own/metadata"} {
		d, err := Discover(t.Context(), newClient(t, site.URL+"/own/mcp"), address, "")
		require.NoError(t, err, address)
		require.Equal(t, site.URL+"/as/t", d.Server.TokenEndpoint, address)
	}
	d, err := Discover(t.Context(), newClient(t, site.URL+"/own/mcp"), "/missing", "")
	require.NoError(t, err)
	require.True(t, d.Guessed, "a 404 there falls back")
	_, err = Discover(t.Context(), newClient(t, site.URL+"/own/mcp"), "//169.254.0.1/metadata", "")
	require.Error(t, err, "another host is checked like an absolute address")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

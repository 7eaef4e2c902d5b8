package metadata

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

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
	require.ErrorContains(t, checkEndpoints(t.Context(), c, &m), "a private address")
	m.AuthorizationEndpoint = "https://as.example/authorize"
	require.NoError(t, checkEndpoints(t.Context(), c, &m))
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

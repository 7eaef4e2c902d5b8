package safehttp

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
)

// A server on the internet cannot name an address of this machine or one without TLS.
func TestCheckScheme(t *testing.T) {
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
		require.Equal(t, c.want, New(server, &mcpvisor.HTTP{}).checkScheme(address) == nil, "%s names %s", c.server, c.address)
	}
}

// An error on the way to a server is temporary, unless it is about the identity of the
// server.
func TestDo_temporary_errors(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	srv.EnableHTTP2 = true // its errors are not of type net.Error
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	server, err := url.Parse(srv.URL)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		client    *http.Client
		address   string
		temporary bool
	}{
		"stream_reset":        {srv.Client(), srv.URL, true},
		"connection_refused":  {nil, "https://127.0.0.1:1/", true},
		"unknown_certificate": {nil, srv.URL, false},
		"plain_HTTP":          {nil, "http://mcp.example/", false},
	} {
		client := New(server, &mcpvisor.HTTP{Client: c.client})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.address, strings.NewReader("x"))
		require.NoError(t, err)
		_, _, _, err = client.Do(req)
		_, temporary := IsTemporary(err)
		require.Equal(t, c.temporary, temporary, "%s: %v", name, err)
	}
}

// The headers of the spec are sent to the server's own origin only, also after a
// redirect.
func TestGetJSON_headers_of_the_spec(t *testing.T) {
	seen := make(chan string, 4)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Key")
		answerEmpty(w, r)
	}))
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Key")
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer own.Close()
	server, err := url.Parse(own.URL)
	require.NoError(t, err)
	c := New(server, &mcpvisor.HTTP{Headers: map[string]string{"X-Key": "secret-key"}})
	var d map[string]any
	require.NoError(t, c.GetJSON(t.Context(), own.URL, &d))
	require.Equal(t, "secret-key", <-seen)
	require.Empty(t, <-seen)
}

func TestGetJSON_endless_redirects(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }))
	defer site.Close()
	server, err := url.Parse(site.URL + "/mcp")
	require.NoError(t, err)
	var d map[string]any
	err = New(server, &mcpvisor.HTTP{}).GetJSON(t.Context(), site.URL, &d)
	require.ErrorContains(t, err, "more than 5 redirects")
	_, temporary := IsTemporary(err)
	require.False(t, temporary)
}

// roundTripper is a RoundTripper that the host supplies.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answerWith(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

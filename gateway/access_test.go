package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// An origin is a whole site, as browsers send it; only its port may be any.
func TestParseOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"http://localhost:6274": "http://localhost:6274", "HTTP://Localhost:6274/": "http://localhost:6274", "http://a.example:80": "http://a.example",
		"https://a.example:443": "https://a.example", "https://a.example:80": "https://a.example:80", "http://[::1]:1": "http://[::1]:1",
		"http://localhost:*": "http://localhost:*", "vscode-webview://0abc": "vscode-webview://0abc", "app://obsidian.md": "app://obsidian.md",
	} {
		got, err := settings.ParseOrigin(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.True(t, settings.HasOrigin([]string{got}, strings.Replace(want, "*", "1234", 1)))
	}
	for _, text := range []string{"*", "null", "", "localhost", "localhost:6274", "http://", "http://*", "http://*:80", "https://*.example.com", "*://a.example", "http://a.example/x", "http://a.example?x", "http://a.example#x",
		"http://u@a.example", "http://a.example:1:*", "http://a.example, http://b.example", "http://a b", "http://bücher.example", "http://a.example:x", "http://:*/"} {
		_, err := settings.ParseOrigin(text)
		require.Error(t, err, "%q", text)
		require.Panics(t, func() { WithOrigins(text)(&options{}) })
		require.Error(t, new(SettingsVar).Set(Settings{Origins: []string{text}}))
	}
	for _, origin := range []string{"http://localhost:", "http://localhost:1x", "http://localhost.evil.example:1", "http://localhost:1@evil.example", "https://localhost:1", "null", "", "http://localhost:*", "http://localhost1"} {
		require.False(t, settings.HasOrigin([]string{"http://localhost:*", "http://a.example"}, origin), origin)
	}
	for _, text := range []string{"*", "*.example.com", "", "http://a", "a/b", "a b", "a,b", ":80"} {
		_, err := settings.ParseHost(text)
		require.Error(t, err, "%q", text)
		require.Panics(t, func() { WithHosts(text)(&options{}) })
		require.Error(t, new(SettingsVar).Set(Settings{Hosts: []string{text}}))
	}
}

// A refused request says which name or site to allow, and where. Following that, by option or while the gateway serves,
// lets it in; other names and sites stay out.
func TestHandler_refusals_say_how(t *testing.T) {
	c := newClient(t)
	const site, name = "http://localhost:6274", "host.docker.internal"
	changed := new(SettingsVar)
	_, url := serveHTTP(t, c, WithSettings(changed))
	for _, row := range []struct {
		header, value, bad string
		says               []string
		settings           Settings
		option             Option
	}{
		{"Origin", site, "http://evil.example", []string{"--mcp-origin " + site + ",", `"origins": ["` + site + `"]`, `gateway.WithOrigins("` + site + `")`}, Settings{Origins: []string{site}}, WithOrigins(site)},
		{"Origin", site, "https://localhost:6274", []string{"--mcp-origin " + site}, Settings{Origins: []string{"http://localhost:*"}}, WithOrigins("http://localhost:*")},
		{"Host", name + ":7788", "evil.example", []string{"--mcp-host " + name + ",", `"hosts": ["` + name + `"]`, `gateway.WithHosts("` + name + `")`}, Settings{Hosts: []string{name}}, WithHosts(name + ":1")},
	} {
		require.NoError(t, changed.Set(Settings{}))
		status, answer := newPeer(t, url).post(pingRequest, row.header, row.value)
		require.Equal(t, http.StatusForbidden, status)
		for _, text := range row.says {
			require.Contains(t, answer, text)
		}
		require.NoError(t, changed.Set(row.settings))
		_, option := serveHTTP(t, c, row.option)
		for _, url := range []string{url, option} {
			status, answer = newPeer(t, url).post(pingRequest, row.header, row.value)
			require.Equal(t, http.StatusBadRequest, status, answer) // there is no session
			status, _ = newPeer(t, url).post(pingRequest, row.header, row.bad)
			require.Equal(t, http.StatusForbidden, status)
		}
	}
	status, answer := newPeer(t, url).post(pingRequest, "X-Forwarded-For", "10.0.0.1")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, answer, "--mcp-tokens FILE")
	status, answer = newPeer(t, url).post(pingRequest, "Origin", strings.Repeat("x", 10_000))
	require.Equal(t, http.StatusForbidden, status)
	require.Less(t, len(answer), 2_000)

	_, limited := serveHTTP(t, c, WithTokens(Token{Principal: "p", Profile: "gone", SHA256: HashToken("secret")}))
	status, answer = newPeer(t, limited).post(pingRequest, "Authorization", "Bearer secret")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, answer, `"gone"; add it to "profiles"`)
}

// An allowed page can read each answer, also that it has no token; no other page can.
func TestHandler_answers_for_pages(t *testing.T) {
	const site = "http://localhost:6274"
	_, url := serveHTTP(t, newClient(t), WithOrigins(site), WithTokens(Token{Principal: "p", SHA256: HashToken("secret")}))
	for _, origin := range []string{site, "http://evil.example", url} {
		for status, header := range map[int][]string{
			http.StatusUnauthorized: nil,
			http.StatusNotFound:     {"Authorization", "Bearer secret", sessionHeader, "1"},
			http.StatusBadRequest:   {"Authorization", "Bearer secret"},
		} {
			response := newPeer(t, url).do(t.Context(), http.MethodPost, pingRequest, append(header, "Origin", origin)...)
			require.Equal(t, map[bool]string{true: site}[origin == site], response.Header.Get("Access-Control-Allow-Origin"))
			if origin != site {
				continue
			}
			require.Equal(t, status, response.StatusCode)
			require.Equal(t, []string{"Origin"}, response.Header.Values("Vary"))
			for _, name := range []string{sessionHeader, "WWW-Authenticate", "Retry-After"} {
				require.Contains(t, response.Header.Get("Access-Control-Expose-Headers"), name)
			}
		}
	}
	preflight := newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", site, "Access-Control-Request-Private-Network", "true")
	require.Equal(t, "true", preflight.Header.Get("Access-Control-Allow-Private-Network"))
	require.Equal(t, site, preflight.Header.Get("Access-Control-Allow-Origin"))
	preflight = newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", site)
	require.Empty(t, preflight.Header.Get("Access-Control-Allow-Private-Network"))
	require.Equal(t, "Origin", newPeer(t, url).do(t.Context(), http.MethodPost, pingRequest).Header.Get("Vary"), "a cache may have it for a page")
}

// principalKey is where the middleware of the test keeps the principal of a request.
type principalKey struct{}

// A host that has authenticated the client says who it is. What it does not say is never anonymous.
func TestWithOwnAuthentication(t *testing.T) {
	handler := Handler(newClient(t, fixture("a", mcptest.Script{})), WithSettings(settingsOf(Settings{Profiles: map[string]Profile{"none": {Tools: Filter{Deny: []string{"*"}}}}})),
		WithTokens(Token{Principal: "p", SHA256: HashToken("secret")}),
		WithOwnAuthentication(func(r *http.Request) (Identity, error) {
			who, _ := r.Context().Value(principalKey{}).(string)
			if who == "stranger" {
				return Identity{Principal: "ignored"}, errors.New("log in first")
			}
			name, profile, _ := strings.Cut(who, "@")
			return Identity{Principal: name, Profile: profile, Expiry: time.Now().Add(time.Hour)}, nil
		}))
	t.Cleanup(handler.Close)
	as := func(who, session, body string) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), principalKey{}, who), http.MethodPost, "http://tools.example.com/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer secret")
		if session != "" {
			r.Header.Set(sessionHeader, session)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for who, want := range map[string]int{"": http.StatusInternalServerError, "@none": http.StatusInternalServerError, "a\x00b": http.StatusInternalServerError, "stranger": http.StatusUnauthorized, "ann": http.StatusOK, "ann@gone": http.StatusForbidden} {
		require.Equal(t, want, as(who, "", initializeRequest("2025-11-25")).Code, "%q", who)
	}
	require.Contains(t, as("stranger", "", pingRequest).Body.String(), "log in first")
	session := as("ann", "", initializeRequest("2025-11-25")).Header().Get(sessionHeader)
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	require.Contains(t, as("ann", session, list).Body.String(), `"a__echo"`)
	for _, other := range []string{"bob", "ann@none"} {
		require.Equal(t, http.StatusNotFound, as(other, session, list).Code)
	}
	limited := as("ann@none", "", initializeRequest("2025-11-25")).Header().Get(sessionHeader)
	require.NotContains(t, as("ann@none", limited, list).Body.String(), "a__echo")
	require.Panics(t, func() { WithOwnAuthentication(nil) })
	last := newOptions([]Option{WithOwnAuthentication(func(*http.Request) (Identity, error) { return Identity{}, nil }), WithTokens()})
	require.True(t, last.identify == nil && last.verify != nil, "the last one counts")
}

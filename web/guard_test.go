package web_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func TestHost_foreign_names_get_421(t *testing.T) {
	c := newClient(t)
	plain, named := serve(t, c), serve(t, c, web.WithHosts("Ops.Example.com"))
	status := func(s *site, host string) int {
		response, _ := s.do(http.MethodGet, "/api/status", "", func(r *http.Request) { r.Host = host })
		return response.StatusCode
	}
	for _, host := range []string{"localhost", "LOCALHOST:99", "127.0.0.1", "127.9.9.9:80", "[::1]:7777", "::1", "page.localhost", "localhost."} {
		require.Equal(t, http.StatusOK, status(plain, host), host)
	}
	for _, host := range []string{"evil.example", "127.0.0.1.evil.example", "10.0.0.1", "ops.example.com", "localhost.evil.example", "0.0.0.0"} {
		require.Equal(t, http.StatusMisdirectedRequest, status(plain, host), host)
	}
	require.Equal(t, http.StatusOK, status(named, "ops.example.com:443"))
	require.Equal(t, http.StatusMisdirectedRequest, status(named, "other.example.com"))
}

func TestPost_from_other_sites_gets_403(t *testing.T) {
	_, s := serveOne(t, "s", web.WithControls())
	status := func(header, value string) int {
		response, _ := s.do(http.MethodPost, "/api/servers/s/restart", "", func(r *http.Request) { r.Header.Set(header, value) })
		return response.StatusCode
	}
	require.Equal(t, http.StatusForbidden, status("Sec-Fetch-Site", "cross-site"))
	require.Equal(t, http.StatusForbidden, status("Sec-Fetch-Site", "same-site"), "another port of this machine")
	require.Equal(t, http.StatusForbidden, status("Origin", "http://evil.example"))
	require.Equal(t, http.StatusForbidden, status("Origin", "null"))
	require.Equal(t, http.StatusAccepted, status("Sec-Fetch-Site", "same-origin"))
	require.Equal(t, http.StatusAccepted, status("Origin", s.URL))
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		require.Equal(t, http.StatusUnsupportedMediaType, status("Content-Type", kind), kind)
	}
}

func TestToken(t *testing.T) {
	const token = "a-long-secret-token"
	_, s := serveOne(t, "s", web.WithToken(token), web.WithControls())
	for _, path := range []string{"/", "/app.js", "/api/status", "/api/servers/s", "/api/servers/s/tools", "/api/servers/s/stderr", "/api/calls",
		"/api/tools", "/api/search?q=x", "/api/usage", "/api/events", "/api/events/stream", "/metrics", "/api/status?token=" + token, "/?token=wrong"} {
		response, body := s.do(http.MethodGet, path, "", nil)
		require.Equal(t, http.StatusUnauthorized, response.StatusCode, path)
		require.Contains(t, response.Header.Get("WWW-Authenticate"), "Bearer", path)
		require.NotContains(t, body, token)
	}
	status, _ := s.post("/api/servers/s/restart", "")
	require.Equal(t, http.StatusUnauthorized, status)

	bearer := func(value string) int {
		response, _ := s.do(http.MethodGet, "/api/status", "", func(r *http.Request) { r.Header.Set("Authorization", value) })
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, bearer("Bearer "+token))
	require.Equal(t, http.StatusOK, bearer("bearer "+token))
	for _, wrong := range []string{"Bearer", "Bearer ", "Bearer " + token + "x", "Bearer " + token[1:], "Basic " + token, token} {
		require.Equal(t, http.StatusUnauthorized, bearer(wrong), wrong)
	}

	response, _ := s.do(http.MethodGet, "/?token="+token+"&x=1", "", nil)
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
	require.Equal(t, "./?x=1", response.Header.Get("Location"), "the token leaves the address")
	require.Len(t, response.Cookies(), 1)
	cookie := response.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, cookie.SameSite, "the redirect after a link of another site gets it; test/browser follows one")
	security, err := os.ReadFile("../SECURITY.md")
	require.NoError(t, err)
	require.Contains(t, string(security), "cookie of the token is `SameSite=Lax`")
	require.Equal(t, "/", cookie.Path)
	require.NotContains(t, cookie.Value, token)
	for _, path := range []string{"/", "/api/status"} {
		response, _ = s.do(http.MethodGet, path, "", func(r *http.Request) { r.AddCookie(cookie) })
		require.Equal(t, http.StatusOK, response.StatusCode, path)
	}
	response, _ = s.do(http.MethodGet, "/", "", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: token}) })
	require.Equal(t, http.StatusUnauthorized, response.StatusCode, "the cookie is not the token")
}

// The cookie belongs to the prefix under which the page is mounted.
func TestToken_under_a_prefix(t *testing.T) {
	h, err := web.New(newClient(t), web.WithToken("secret-secret"))
	require.NoError(t, err)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/ops/mcp/?token=secret-secret", nil)
	r.Host = "localhost"
	http.StripPrefix("/ops/mcp", h).ServeHTTP(w, r)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "./", w.Header().Get("Location"))
	require.Equal(t, "/ops/mcp/", w.Result().Cookies()[0].Path)
}

// Beyond loopback a token is required, or the word of the host that it authenticates.
func TestAddress_beyond_loopback_needs_a_token(t *testing.T) {
	c := newClient(t)
	ask := func(h http.Handler, local net.Addr, path string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		r = r.WithContext(contextWithLocal(t, local))
		r.Header.Set("Authorization", "Bearer secret-secret")
		h.ServeHTTP(w, r)
		return w.Code
	}
	withoutToken, err := web.New(c)
	require.NoError(t, err)
	require.Equal(t, 403, ask(withoutToken, nil, "/api/status"), "an address that is not known, as under FastCGI")
	outside, loopback, unix := &net.TCPAddr{IP: net.ParseIP("192.0.2.7")}, &net.TCPAddr{IP: net.ParseIP("::1")}, &net.UnixAddr{Name: "s"}
	for name, want := range map[string][3]int{"plain": {403, 200, 200}, "token": {200, 200, 200}, "own": {200, 200, 200}} {
		opts := map[string][]web.Option{"token": {web.WithToken("secret-secret")}, "own": {web.WithOwnAuthentication()}}[name]
		h, err := web.New(c, opts...)
		require.NoError(t, err)
		require.Equal(t, want, [3]int{ask(h, outside, "/api/status"), ask(h, loopback, "/api/status"), ask(h, unix, "/api/status")}, name)
		require.Equal(t, 200, ask(h, outside, "/healthz"), name)
	}
}

// A proxy on this machine connects from loopback, for users of all machines.
func TestProxy_needs_a_token(t *testing.T) {
	c := newClient(t)
	ask := func(header string, opts ...web.Option) int {
		response, _ := serve(t, c, opts...).do(http.MethodGet, "/api/status", "", func(r *http.Request) {
			r.Header.Set(header, "192.0.2.7")
			r.Header.Set("Authorization", "Bearer secret-secret")
		})
		return response.StatusCode
	}
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"} {
		require.Equal(t, 403, ask(header), header)
		require.Equal(t, 200, ask(header, web.WithToken("secret-secret")), header)
		require.Equal(t, 200, ask(header, web.WithOwnAuthentication()), header)
	}
}

// What cannot be read of a query could be the filter that matters.
func TestQuery_that_is_malformed_gets_400(t *testing.T) {
	c := newClient(t)
	register(t, c, "up")
	registerBroken(t, c, "down")
	s := serve(t, c, web.WithRequired("up"))
	for _, path := range []string{"/readyz?server=down;x", "/readyz?server=down&x=%zz", "/api/calls?after=5;x", "/api/events?kind=ready;x", "/api/status?server=up;x"} {
		status, body := s.get(path)
		require.Equal(t, 400, status, path)
		require.Contains(t, body, "query of the address")
	}
}

func TestHeaders_of_every_answer(t *testing.T) {
	_, s := serveOne(t, "s")
	for _, path := range []string{"/", "/app.js", "/style.css", "/api/status", "/api/none", "/none", "/healthz", "/readyz", "/api/servers/none"} {
		response, _ := s.do(http.MethodGet, path, "", nil)
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "+
			"form-action 'self'; frame-ancestors 'none'", response.Header.Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", response.Header.Get("Referrer-Policy"), path)
		require.Equal(t, "same-origin", response.Header.Get("Cross-Origin-Resource-Policy"), path)
		require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"), path)
		if strings.HasPrefix(path, "/api/") {
			require.Equal(t, "no-store", response.Header.Get("Cache-Control"), path)
		}
	}
}

func TestErrors_are_JSON(t *testing.T) {
	_, s := serveOne(t, "files", web.WithControls())
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, "/none", "", 404},
		{http.MethodGet, "/api/none", "", 404},
		{http.MethodGet, "/api/../api/status", "", 404},
		{http.MethodGet, "//evil.example/", "", 404},
		{http.MethodPost, "/api/status", "{}", 405},
		{http.MethodGet, "/api/servers/file", "", 404},
		{http.MethodGet, "/api/servers/file/tools", "", 404},
		{http.MethodGet, "/api/servers/file/stderr", "", 404},
		{http.MethodGet, "/api/calls?after=x", "", 400},
		{http.MethodGet, "/api/events?after=-1", "", 400},
		{http.MethodGet, "/api/events/stream?after=x", "", 400},
		{http.MethodPost, "/api/servers/file/restart", "", 404},
		{http.MethodPost, "/api/call", "no JSON", 400},
		{http.MethodPost, "/api/call", `{"tool":"files/none"}`, 404},
		{http.MethodPost, "/api/call", `{"tool":"files/echo","arguments":[]}`, 400},
		{http.MethodPost, "/api/call", `{"tool":"` + strings.Repeat("x", 9<<20) + `"}`, 413},
	} {
		response, body := s.do(x.method, x.path, x.body, nil)
		require.Equal(t, x.status, response.StatusCode, "%s %.80s: %s", x.method, x.path, body)
		var answer api.ErrorAnswer
		require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
		require.NotEmpty(t, answer.Error.Message)
		if strings.HasPrefix(x.path, "/api/servers/file") && x.method == http.MethodGet {
			require.Equal(t, []string{"files"}, answer.Error.Similar)
		}
	}
}

func TestNew_options_that_contradict(t *testing.T) {
	c := newClient(t)
	for _, x := range []struct {
		text string
		opt  web.Option
	}{
		{"token is empty", web.WithToken("")},
		{"any web page", web.WithHosts("*")},
		{"any web page", web.WithHosts("*:7777")},
		{"any web page", web.WithHosts("*.")},
		{"any web page", web.WithHosts("[*]")},
		{"not a host name", web.WithHosts("*.example.com")},
		{"not a host name", web.WithHosts("http://x/")},
	} {
		_, err := web.New(c, x.opt)
		require.ErrorContains(t, err, x.text)
	}
	_, err := web.New(nil)
	require.ErrorContains(t, err, "nil")
	_, err = web.New(c, nil, web.WithHosts("*"), web.WithToken("x"), web.WithTitle(" "))
	require.NoError(t, err)
}

// html makes a request one of a browser for a page.
func html(r *http.Request) { r.Header.Set("Accept", "text/html,*/*;q=0.8") }

// form makes a request one that a form of the page has sent.
func form(r *http.Request) {
	html(r)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
}

// A browser without the token gets a form, whose cookie stands for the token.
func TestLogin(t *testing.T) {
	s := serve(t, newClient(t), web.WithToken("a secret & more"))
	response, body := s.do(http.MethodGet, "/", "", html)
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.Contains(t, body, `action="login"`)
	require.NotContains(t, body, "secret")
	for _, path := range []string{"/style.css", "/icon.svg"} {
		response, _ = s.do(http.MethodGet, path, "", nil)
		require.Equal(t, http.StatusOK, response.StatusCode, path)
	}
	for _, path := range []string{"/app.js", "/api/status", "/login", "/"} { // not for a page
		response, body = s.do(http.MethodGet, path, "", nil)
		require.Equal(t, http.StatusUnauthorized, response.StatusCode, path)
		require.Contains(t, body, `"error"`, path)
	}

	response, body = s.do(http.MethodPost, "/login", "token=wrong", form)
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.Contains(t, body, "not the token")
	require.Empty(t, response.Cookies())

	right := url.Values{"token": {"a secret & more"}}.Encode()
	response, _ = s.do(http.MethodPost, "/login", right, func(r *http.Request) {
		form(r)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Origin", "http://evil.example")
	})
	require.Equal(t, http.StatusForbidden, response.StatusCode, "another site cannot log a reader in")
	require.Empty(t, response.Cookies())
	response, _ = s.do(http.MethodPost, "/login?token=a+secret+%26+more", "", form)
	require.Equal(t, http.StatusUnauthorized, response.StatusCode, "the address is in logs")

	response, _ = s.do(http.MethodPost, "/login", right, form)
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
	require.Equal(t, "./", response.Header.Get("Location"))
	require.Len(t, response.Cookies(), 1)
	cookie := response.Cookies()[0]
	require.Equal(t, "/", cookie.Path)
	require.True(t, cookie.HttpOnly)
	require.NotContains(t, cookie.Value, "secret")
	response, _ = s.do(http.MethodGet, "/api/status", "", func(r *http.Request) { r.AddCookie(cookie) })
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// Attempts are bounded, for the right token too: who guesses does not learn that it was right.
// The header still works.
func TestLogin_is_bounded(t *testing.T) {
	s := serve(t, newClient(t), web.WithToken("secret-secret"))
	refused := 0
	for range 30 {
		response, _ := s.do(http.MethodPost, "/login", "token=wrong", form)
		if response.StatusCode == http.StatusTooManyRequests {
			require.NotEmpty(t, response.Header.Get("Retry-After"))
			refused++
		}
	}
	require.GreaterOrEqual(t, refused, 10)
	response, _ := s.do(http.MethodPost, "/login", "token="+strings.Repeat("x", 1<<20), form)
	require.NotEqual(t, http.StatusSeeOther, response.StatusCode)
	response, _ = s.do(http.MethodGet, "/api/status", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret-secret") })
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// Without a token there is no form.
func TestLogin_without_a_token(t *testing.T) {
	s := serve(t, newClient(t))
	response, _ := s.do(http.MethodPost, "/login", "token=", form)
	require.NotEqual(t, http.StatusSeeOther, response.StatusCode)
	require.Empty(t, response.Cookies())
}

func TestPost_without_Controls_gets_403(t *testing.T) {
	c, s := serveOne(t, "s")
	for _, path := range []string{"/api/servers/s/restart", "/api/call", "/", "/api/status"} {
		status, body := s.post(path, "{}")
		require.Equal(t, http.StatusForbidden, status, path)
		require.Contains(t, body, "read only")
	}
	st, _ := c.ServerStatus("s")
	require.Equal(t, 0, st.Restarts)
}

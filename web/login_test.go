package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
)

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

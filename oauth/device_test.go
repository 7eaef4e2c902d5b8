package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// deviceServer answers a login by code from a script, without a network, so that its clock may be
// that of a bubble.
type deviceServer struct {
	login string   // the answer of the device authorization endpoint
	polls []string // the errors of polls, one after the other; after the last one a token is issued
	at    []time.Time
}

func (s *deviceServer) RoundTrip(r *http.Request) (*http.Response, error) {
	const base = "http://127.0.0.1:1"
	w := httptest.NewRecorder()
	_ = r.ParseForm()
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		answerWith(w, http.StatusOK, `{"issuer":"`+base+`","token_endpoint":"`+base+`/token","device_authorization_endpoint":"`+base+`/device"}`)
	case "/device":
		answerWith(w, http.StatusOK, s.login)
	case "/token":
		s.at = append(s.at, time.Now())
		switch n := len(s.at); {
		case r.PostForm.Get("device_code") != "device-code-0123" || r.PostForm.Get("client_id") != "me" || r.PostForm.Get("grant_type") != grantDevice:
			answerWith(w, http.StatusBadRequest, `{"error":"invalid_grant"}`)
		case n > len(s.polls):
			answerWith(w, http.StatusOK, `{"access_token":"access-token-0123","token_type":"Bearer"}`)
		case s.polls[n-1] == "down":
			w.WriteHeader(http.StatusBadGateway)
		default:
			answerWith(w, http.StatusBadRequest, `{"error":"`+s.polls[n-1]+`"}`)
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

func (s *deviceServer) authorize(ctx context.Context, t *testing.T, show func(mcpvisor.DeviceLogin) error) (*authorizer, error) {
	t.Helper()
	spec := &mcpvisor.HTTP{URL: "http://127.0.0.1:1/mcp", Client: &http.Client{Transport: s}, Auth: &Config{ClientID: "me", Store: NewMemoryStore()}}
	a, err := newTestAuthorizer(spec, func(text string) { t.Log("warning:", text) })
	require.NoError(t, err)
	return a, a.AuthorizeDevice(ctx, show)
}

func login(extra string) string {
	return `{"device_code":"device-code-0123","user_code":"ABCD-EFGH","verification_uri":"http://127.0.0.1:1/page"` + extra + `}`
}

// The pauses between polls are those of RFC 8628, section 3.5.
func TestAuthorizeDevice_polls(t *testing.T) {
	for name, c := range map[string]struct {
		login  string
		polls  []string
		says   string // empty: it succeeds
		pauses []time.Duration
	}{
		"pending":       {login(`,"interval":3`), []string{"authorization_pending", "authorization_pending"}, "", []time.Duration{3, 3, 3}},
		"slow_down":     {login(`,"interval":3`), []string{"slow_down", "authorization_pending", "slow_down"}, "", []time.Duration{3, 8, 8, 13}},
		"down":          {login(`,"interval":3`), []string{"down", "down"}, "", []time.Duration{3, 6, 12}},
		"no_interval":   {login(``), nil, "", []time.Duration{5}},
		"tiny_interval": {login(`,"interval":0.001`), []string{"authorization_pending"}, "", []time.Duration{1, 1}},
		"huge_interval": {login(`,"interval":1e300`), nil, "", []time.Duration{60}},
		"denied":        {login(``), []string{"access_denied"}, "the authorization was refused", []time.Duration{5}},
		"expired":       {login(``), []string{"expired_token"}, "the code has expired", []time.Duration{5}},
		"expires":       {login(`,"interval":3,"expires_in":8`), []string{"authorization_pending", "authorization_pending", "authorization_pending"}, "the code has expired", []time.Duration{3, 3}},
		"other_error":   {login(``), []string{"invalid_grant"}, "exchanging the code for a token: invalid_grant", []time.Duration{5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &deviceServer{login: c.login, polls: c.polls}
				began := time.Now()
				var shown mcpvisor.DeviceLogin
				a, err := s.authorize(t.Context(), t, func(l mcpvisor.DeviceLogin) error { shown = l; return nil })
				if c.says == "" {
					require.NoError(t, err)
					require.Equal(t, "access-token-0123", a.accessToken())
				} else {
					require.ErrorContains(t, err, c.says)
					require.Empty(t, a.accessToken())
				}
				require.Equal(t, "ABCD-EFGH at http://127.0.0.1:1/page", shown.Code+" at "+shown.URL)
				var pauses []time.Duration
				for _, at := range s.at {
					pauses = append(pauses, at.Sub(began)/time.Second)
					began = at
				}
				require.Equal(t, c.pauses, pauses)
			})
		})
	}
}

// What the server says to show is bounded, and no secret.
func TestAuthorizeDevice_login_refused(t *testing.T) {
	for text, says := range map[string]string{
		`{}`:                              "without a code",
		`{"error":"unauthorized_client"}`: "unauthorized_client",
		`<html>`:                          "cannot be parsed",
		`{"device_code":"d","user_code":"` + strings.Repeat("A", 65) + `","verification_uri":"http://127.0.0.1:1/"}`: "without a code",
		`{"device_code":"d","user_code":"A\u001b[2J","verification_uri":"http://127.0.0.1:1/"}`:                      "without a code",
		`{"device_code":"d","user_code":"A","verification_uri":"javascript:alert(1)"}`:                               "the page for the code",
		`{"device_code":"d","user_code":"A"}`:                                                                        "the page for the code is missing",
	} {
		s := &deviceServer{login: text}
		_, err := s.authorize(t.Context(), t, func(mcpvisor.DeviceLogin) error { t.Error("shown"); return nil })
		require.ErrorContains(t, err, says, text)
		require.Empty(t, s.at)
	}
	s := &deviceServer{login: login(`,"verification_uri_complete":"file:///etc/passwd"`)}
	_, err := s.authorize(t.Context(), t, func(l mcpvisor.DeviceLogin) error {
		require.Empty(t, l.CompleteURL)
		return errors.New("no terminal")
	})
	require.ErrorContains(t, err, "no terminal")
	require.Empty(t, s.at)
}

// The context ends the wait for the user.
func TestAuthorizeDevice_canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &deviceServer{login: login(``)}
	_, err := s.authorize(ctx, t, func(mcpvisor.DeviceLogin) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// The client registers for this grant, and the tokens are renewed like others.
func TestAuthorizeDevice(t *testing.T) {
	s, a := newServed(t, oauthtest.Rules{Device: true, Rotate: true}, Config{Scopes: []string{"read"}})
	for _, query := range []string{"", "&deny"} {
		err := a.AuthorizeDevice(t.Context(), func(l mcpvisor.DeviceLogin) error {
			resp, err := http.Get(l.CompleteURL + query)
			if err == nil {
				_ = resp.Body.Close()
				http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			}
			return err
		})
		if query != "" {
			require.ErrorContains(t, err, "the authorization was refused: access_denied")
			continue
		}
		require.NoError(t, err)
		requireOK(t, a)
		setExpiry(t, a, 0, time.Hour)
		requireOK(t, a)
	}
	require.Equal(t, []int{1, 1, 0}, []int{s.Counts().Registrations, s.Counts().Refreshes, s.Counts().Authorizations})
	s.Set(oauthtest.Rules{})
	require.ErrorContains(t, a.AuthorizeDevice(t.Context(), nil), "offers no login by code", fmt.Sprint(s.Counts()))
}

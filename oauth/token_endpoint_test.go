package oauth

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

func TestParseTokenResponse(t *testing.T) {
	a := newDetached(t, newAuthServer(t, oauthtest.Rules{}), Config{})
	for _, c := range []struct {
		status     int
		body, says string // empty: the answer holds a token
		temporary  bool
	}{
		{http.StatusOK, `{"access_token": "of-an-answer", "token_type": "bearer"}`, "", false},
		{http.StatusCreated, `{"access_token": "of-an-answer"}`, "", false},
		{http.StatusBadRequest, `{"error": "invalid_grant"}`, "invalid_grant", false},
		{http.StatusBadRequest, `{"error": "server_error", "error_description": "later"}`, "server_error (later)", true},
		{http.StatusBadRequest, `{"error": "temporarily_unavailable"}`, "temporarily_unavailable", true},
		{http.StatusOK, `{"error": "invalid_scope", "access_token": "of-an-answer"}`, "invalid_scope", false},
		{http.StatusForbidden, `{"access_token": "of-an-answer"}`, "HTTP 403", false},
		{http.StatusOK, `<html>`, "cannot be parsed", false},
		{http.StatusOK, `{"token_type": "Bearer"}`, "without a token", false},
		{http.StatusOK, `{"access_token": "of-an-answer", "token_type": "DPoP"}`, "only Bearer", false},
		{http.StatusOK, `{"access_token": "of-an\r\nX-Key: answer"}`, "not allowed in a header", false},
		{http.StatusOK, `{"access_token": "of an answer"}`, "not allowed in a header", false},
	} {
		got, err := a.parseTokenResponse(c.status, []byte(c.body), nil)
		if c.says == "" {
			require.NoError(t, err, c.body)
			require.Equal(t, "of-an-answer", got.accessToken)
			continue
		}
		require.ErrorContains(t, err, c.says, c.body)
		_, temporary := safehttp.IsTemporary(err)
		require.Equal(t, c.temporary, temporary, c.body)
	}
}

// expires_in is read in the forms that servers use, and bounded.
func TestParseTokenResponse_expires_in(t *testing.T) {
	a := newDetached(t, newAuthServer(t, oauthtest.Rules{}), Config{})
	for text, want := range map[string]time.Duration{"3600": time.Hour, `"3600"`: time.Hour, "1.5": 1500 * time.Millisecond,
		"1e300": maxTokenLifetime, "0": 0, "-1": 0, "null": 0, `"testTimeout"`: 0,
		"0.0001": minTokenLifetime, `"0.5"`: minTokenLifetime, `"-3600"`: 0, "-1e300": 0, "1e400": 0, "true": 0, "[3600]": 0, `"Inf"`: 0, `"NaN"`: 0} {
		got, err := a.parseTokenResponse(http.StatusOK, []byte(`{"access_token": "of-an-answer", "expires_in": `+text+`}`), nil)
		require.NoError(t, err)
		if want == 0 {
			require.True(t, got.expires.IsZero(), text)
			continue
		}
		require.False(t, got.expires.Before(time.Now().Add(want-time.Minute)) || got.expires.Before(time.Now().Add(want/2)), text)
		require.WithinDuration(t, time.Now().Add(want), got.expires, time.Minute, text)
		require.True(t, got.expires.After(time.Now().Add(want-time.Minute)), text)
	}
}

// A token that expires while a request is on its way counts as expired.
func TestIsExpired(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		left, life time.Duration
		ended      bool
	}{
		{6 * time.Second, time.Hour, false},
		{5 * time.Second, time.Hour, true},
		{-time.Second, time.Hour, true},
		{2 * time.Second, 10 * time.Second, false}, // the margin is a tenth of a short lifetime
		{time.Second, 10 * time.Second, true},
	} {
		h := &Authorization{Expires: now.Add(c.left), Obtained: now.Add(c.left - c.life)}
		require.Equal(t, c.ended, isExpired(h, now), "%v of %v", c.left, c.life)
	}
	require.False(t, isExpired(&Authorization{}, now), "without an expiry")
}

// A failed renewal ahead is repeated after Retry-After, without a call.
func TestRenewalAhead_retries(t *testing.T) {
	asked := make(chan time.Time, 64)
	rule, broken := rejectGrant("refresh_token", http.StatusServiceUnavailable, "")
	broken.Store(true)
	s := newAuthServer(t, oauthtest.Rules{TokenLifetime: 1500 * time.Millisecond, Token: func(w http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") != "refresh_token" {
			return false
		}
		asked <- time.Now()
		w.Header().Set("Retry-After", "2")
		rejected := rule(w, r)
		broken.Store(false) // for the first only
		return rejected
	}})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	requireOK(t, a)
	first := a.accessToken()
	rejected := <-asked
	require.GreaterOrEqual(t, (<-asked).Sub(rejected), 2*time.Second)
	require.Eventually(t, func() bool { return a.accessToken() != first }, testTimeout, 5*time.Millisecond)
}

func TestErrorResponse_oversize(t *testing.T) {
	a := &authorizer{}
	secret := "a-long-secret-of-ours"
	a.redactor.addPermanent(secret)
	r := a.newErrorResponse(strings.Repeat("c", 1<<20), strings.Repeat("d", display.MaxQuoteBytes-5)+secret)
	require.Less(t, len(r.Error()), 3*display.MaxQuoteBytes)
	require.NotContains(t, r.Error(), secret[:5], "no part of a secret is shown")
	require.Equal(t, "access_denied (no way)", a.newErrorResponse("access_denied", "no way").Error())
	a.redactor.addPermanent(strings.Repeat("x", 600))
	require.Equal(t, "e (***)", a.newErrorResponse("e", strings.Repeat("x", 600)).Error())
}

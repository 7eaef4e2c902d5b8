package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
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
		h := &authorization{Expires: now.Add(c.left), Obtained: now.Add(c.left - c.life)}
		require.Equal(t, c.ended, isExpired(h, now), "%v of %v", c.left, c.life)
	}
	require.False(t, isExpired(&authorization{}, now), "without an expiry")
}

// A failed renewal ahead is repeated after Retry-After, without a call.
func TestRenewalAhead_retries(t *testing.T) {
	asked := make(chan time.Time, 64)
	rule, broken := rejectGrant("refresh_token", http.StatusServiceUnavailable, "")
	broken.Store(true)
	_, a := newApproved(t, oauthtest.Rules{TokenLifetime: 1500 * time.Millisecond, Token: func(w http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") != "refresh_token" {
			return false
		}
		asked <- time.Now()
		w.Header().Set("Retry-After", "2")
		rejected := rule(w, r)
		broken.Store(false) // for the first only
		return rejected
	}})
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

// TokenWait bounds the steps before FetchAuthorizationCode.
func TestTokenWait_before_FetchAuthorizationCode(t *testing.T) {
	rule, _, _ := hangGrant(t, "refresh_token")
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s), FetchAuthorizationCode: approve, TokenWait: 200 * time.Millisecond})
	s.Set(oauthtest.Rules{Token: rule})
	s.Revoke(false, false)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	_, err := sendRequest(ctx, a, "")
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)
}

// TokenWait does not bound FetchAuthorizationCode itself.
func TestTokenWait_during_FetchAuthorizationCode(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	var a *authorizer
	waited := make(chan error, 1)
	a = newAuthorizer(t, s, Config{FetchAuthorizationCode: func(ctx context.Context, url string) (string, error) {
		a.mu.Lock()
		r := a.renewal
		a.mu.Unlock()
		go func() { waited <- a.awaitRenewal(t.Context(), r, time.Now()) }() // the wait of another caller is over
		select {
		case err := <-waited:
			return "", fmt.Errorf("the other caller did not wait: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
		return approve(ctx, url)
	}})
	requireOK(t, a)
	require.NoError(t, <-waited)
}

// TokenWait bounds a renewal as a whole, not each of its steps.
func TestTokenWait_whole_renewal(t *testing.T) {
	rule, _, _ := hangGrant(t, "refresh_token")
	s, store := newServerWithTokens(t, oauthtest.Rules{})
	s.Set(oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{Store: store, TokenWait: 3 * time.Second})
	s.Revoke(false, false)
	unlock, err := store.(TokenLocker).Lock(t.Context(), a.key)
	require.NoError(t, err)
	began := time.Now()
	timer := time.AfterFunc(2900*time.Millisecond, unlock)
	defer timer.Stop()
	requireUnavailable(t, a)
	require.Less(t, time.Since(began), 5500*time.Millisecond, "the second step does not extend the wait")
}

// The pause after a failed renewal doubles up to a bound, is at least Retry-After, and
// is reset by a success.
func TestRecordOutcome_pauses(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newDetached(t, s, Config{})
	fail := func(after time.Duration) time.Duration {
		a.mu.Lock()
		defer a.mu.Unlock()
		var unavailable *mcpvisor.AuthUnavailable
		require.ErrorAs(t, a.recordOutcome(&renewal{}, &safehttp.Temporary{Err: errors.New("slow down"), RetryAfter: after}), &unavailable)
		return unavailable.RetryAfter
	}
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		require.Equal(t, time.Duration(seconds)*time.Second, fail(0))
	}
	require.Equal(t, 5*time.Minute, fail(5*time.Minute))
	a.mu.Lock()
	require.NoError(t, a.recordOutcome(&renewal{}, nil))
	a.mu.Unlock()
	require.Equal(t, time.Second, fail(0))
}

package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

func TestRenew_concurrent_rejections(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	unlocked := struct{ TokenStore }{NewMemoryStore()} // without the lock of the store
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Store: unlocked})
	for _, err := range requestConcurrently(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().Authorizations)
	require.Equal(t, 1, s.Counts().CodeExchanges)

	s.Revoke(false, false) // during the session
	for _, err := range requestConcurrently(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().Authorizations, "the refresh token is still valid")
	require.Equal(t, 1, s.Counts().Refreshes)
}

func TestToken_endpoint_hangs(t *testing.T) {
	rule, asked, _ := hangGrant(t, "refresh_token")
	s := newAuthServer(t, oauthtest.Rules{Token: rule})
	a := newWorking(t, s, Config{Store: authorizedStore(t, s), TokenWait: 200 * time.Millisecond})
	setExpiry(t, a, 4*time.Minute, time.Hour) // the renewal ahead is due
	<-asked
	for range 20 { // no call waits while the token is valid
		_, err := a.token(t.Context())
		require.NoError(t, err)
	}

	setExpiry(t, a, 0, 8*time.Second)
	for range 3 { // after the expiry each call fails within TokenWait
		began := time.Now()
		requireUnavailable(t, a)
		require.Less(t, time.Since(began), testTimeout/2, "far less than the renewal takes")
	}
	require.Equal(t, 1, s.Counts().Refreshes, "all calls wait for one renewal")
}

func TestRenew_caller_canceled(t *testing.T) {
	rule, asked, free := hangGrant(t, "authorization_code")
	s, a := newApproved(t, oauthtest.Rules{Token: rule})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := sendRequest(ctx, a, ""); left <- err }()
	<-asked
	stays := make(chan error, 1)
	go func() { _, err := sendRequest(t.Context(), a, ""); stays <- err }()
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	free()
	require.NoError(t, <-stays)
	require.Equal(t, 1, s.Counts().Authorizations)
	requireOK(t, a)
}

func TestRenewalAhead(t *testing.T) {
	s, a := newApproved(t, oauthtest.Rules{TokenLifetime: 1500 * time.Millisecond, Rotate: true})
	requireOK(t, a)
	first := a.accessToken()
	require.Eventually(t, func() bool { return a.accessToken() != first }, testTimeout, 5*time.Millisecond, "without a call")
	requireOK(t, a)
	require.Equal(t, 1, s.Counts().Authorizations)
}

func TestToken_expired(t *testing.T) {
	s, a := newApproved(t, oauthtest.Rules{})
	requireOK(t, a)
	setExpiry(t, a, 0, time.Hour)
	before := s.Counts().Refused
	for _, err := range requestConcurrently(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, before, s.Counts().Refused, "an expired token is not sent")
}

// A rotated refresh token is stored before its access token is used, so that a process
// that ends at any moment leaves a valid one.
func TestRefreshToken_rotation_across_restarts(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	store, err := NewFileStore(t.TempDir())
	require.NoError(t, err)
	a := newDetached(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	a.Attach(t.Context())
	requireOK(t, a)
	s.Revoke(false, false)
	requireOK(t, a) // rotates
	a.Detach(0)

	for life := range 3 {
		next := newDetached(t, s, Config{Store: store}) // no user is available
		next.Attach(t.Context())
		requireOK(t, next)
		s.Revoke(false, false)
		requireOK(t, next)
		next.Detach(0)
		require.Equal(t, 2+life, s.Counts().Refreshes)
	}
	require.Equal(t, 1, s.Counts().Authorizations)
}

// The new access token is not visible before the store has the new refresh token.
func TestRenew_stores_before_use(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	store := &slowStore{TokenStore: NewMemoryStore(), entered: make(chan struct{}, 8), free: make(chan struct{}, 8)}
	store.free <- struct{}{} // the registration
	store.free <- struct{}{} // the first tokens
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	old := a.accessToken()
	s.Revoke(false, false)
	done := make(chan error, 1)
	go func() { _, err := sendRequest(context.Background(), a, ""); done <- err }()
	for range 3 {
		<-store.entered
	}
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, old, a.accessToken(), "the new token is not used before it is stored")
	store.free <- struct{}{}
	require.NoError(t, <-done)
	require.NotEqual(t, old, a.accessToken())
}

type slowStore struct {
	TokenStore
	entered, free chan struct{}
}

func (s *slowStore) Save(ctx context.Context, key TokenKey, data []byte) error {
	s.entered <- struct{}{}
	<-s.free
	return s.TokenStore.Save(ctx, key, data)
}

// Several processes with one store refresh a token once.
func TestRenew_shared_store(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	dir := t.TempDir()
	processes := make([]*authorizer, 4)
	for i := range processes {
		store, err := NewFileStore(dir)
		require.NoError(t, err)
		processes[i] = newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Store: store})
		requireOK(t, processes[i])
	}
	require.Equal(t, 1, s.Counts().Authorizations)
	for range 3 {
		s.Revoke(false, false)
		errs := make(chan error, len(processes))
		for _, a := range processes {
			go func() { _, err := sendRequest(context.Background(), a, ""); errs <- err }()
		}
		for range processes {
			require.NoError(t, <-errs)
		}
	}
	require.Equal(t, 1, s.Counts().Authorizations)
	require.Equal(t, 3, s.Counts().Refreshes)
}

func TestRenew_refresh_token_revoked(t *testing.T) {
	s, a := newApproved(t, oauthtest.Rules{})
	requireOK(t, a)
	s.Revoke(true, false)
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().Authorizations)
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, 1, s.Counts().Registrations)
	s.Revoke(true, true) // the server has deleted the registration, too
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().Registrations)
}

// After an error that is not in the form of RFC 6749 the user is needed, and the refresh
// token is kept.
func TestRefresh_nonstandard_error(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"plain 400":    {http.StatusBadRequest, "refresh token expired"},
		"nested error": {http.StatusBadRequest, `{"error":{"code":"expired"}}`},
		"not found":    {http.StatusNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rule, refuse := rejectGrant("refresh_token", c.status, c.body)
			s := newAuthServer(t, oauthtest.Rules{Token: rule})
			a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
			s.Revoke(false, false)
			setExpiry(t, a, 0, time.Hour)
			refuse.Store(true)
			required := requireAuthRequired(t, a, "")
			require.NotEmpty(t, required.URL)
			require.ErrorContains(t, required, "renewing the token: the token endpoint answered HTTP")
			refuse.Store(false)
			a = newAuthorizer(t, s, Config{Store: a.store}) // the next process
			requireOK(t, a)
		})
	}
}

// A token endpoint that is gone is looked up once, at the same issuer.
func TestRefresh_endpoint_moved(t *testing.T) {
	rule, gone := rejectGrant("refresh_token", http.StatusNotFound, "")
	s := newAuthServer(t, oauthtest.Rules{Rotate: true, Token: rule})
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerWith(w, http.StatusOK, `{"access_token":"of-the-new-endpoint"}`)
	}))
	defer next.Close()
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
	gone.Store(true)
	s.Set(oauthtest.Rules{Token: rule, Document: func(_ string, d map[string]any) int {
		if d["token_endpoint"] != nil {
			d["token_endpoint"] = next.URL
		}
		return 0
	}})
	setExpiry(t, a, 0, time.Hour)
	token, err := a.token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "of-the-new-endpoint", token)
}

// A wrong client secret does not drop the refresh token.
func TestRefresh_wrong_secret(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	s.AddClient("me", "secret-of-me")
	store := NewMemoryStore()
	requireOK(t, newAuthorizer(t, s, Config{ClientID: "me", ClientSecret: "secret-of-me", Store: store, FetchAuthorizationCode: approve}))
	s.Revoke(false, false)
	wrong := newAuthorizer(t, s, Config{ClientID: "me", ClientSecret: "a-typing-error", Store: store})
	require.ErrorContains(t, requireAuthRequired(t, wrong, ""), "invalid_client")
	requireOK(t, newAuthorizer(t, s, Config{ClientID: "me", ClientSecret: "secret-of-me", Store: store}))
}

// If the server rejects every token, the authorization is not repeated.
func TestRenew_server_rejects_every_token(t *testing.T) {
	s, a := newApproved(t, oauthtest.Rules{TokenLifetime: time.Nanosecond, Token: func(w http.ResponseWriter, _ *http.Request) bool {
		answerWith(w, http.StatusOK, `{"access_token":"always-rejected","token_type":"Bearer"}`)
		return true
	}})
	for range 5 {
		require.Contains(t, requireAuthRequired(t, a, "").Reason, "rejects the token")
	}
	require.Equal(t, 1, s.Counts().Authorizations)
}

func TestRenew_temporary_failure(t *testing.T) {
	broken := true
	s, a := newApproved(t, oauthtest.Rules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") == "refresh_token" && broken {
			answerWith(w, http.StatusServiceUnavailable, "")
			return true
		}
		return false
	}})
	requireOK(t, a)
	s.Revoke(false, false)
	for range 5 {
		unavailable := requireUnavailable(t, a)
		require.Positive(t, unavailable.RetryAfter)
		require.Contains(t, unavailable.Error(), "503")
	}
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, 1, s.Counts().Authorizations, "the refresh token may still be valid")
}

// hangingSession returns an authorizer with one session, which waits for a token endpoint
// that does not answer.
func hangingSession(t *testing.T) (a *authorizer, done chan error) {
	t.Helper()
	rule, asked, _ := hangGrant(t, "authorization_code")
	s := newAuthServer(t, oauthtest.Rules{Token: rule})
	a = newDetached(t, s, Config{FetchAuthorizationCode: approve})
	a.Attach(t.Context())
	done = make(chan error, 1)
	go func() { _, err := sendRequest(context.Background(), a, ""); done <- err }()
	<-asked
	return a, done
}

// Detach waits for a token request no longer than its grace.
func TestDetach_endpoint_hangs(t *testing.T) {
	a, done := hangingSession(t)
	began := time.Now()
	a.Detach(50 * time.Millisecond)
	require.Less(t, time.Since(began), testTimeout/2)
	require.Error(t, <-done)
}

func answerWith(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// Tokens with hardly any lifetime do not cost a token request for each call.
func TestRenewals_tinyLifetime(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Token: func(w http.ResponseWriter, _ *http.Request) bool {
		answerWith(w, http.StatusOK, `{"access_token":"token","token_type":"Bearer","expires_in":0.0001}`)
		return true
	}})
	s.AddClient("me", "very-secret")
	a := newAuthorizer(t, s, Config{Grant: GrantClientCredentials, ClientID: "me", ClientSecret: "very-secret"})
	require.NoError(t, a.renewRefused(t.Context(), "", false, http.StatusUnauthorized, http.Header{}))
	for range 50 {
		setExpiry(t, a, -time.Hour, time.Second) // as if each call came much later
		token, err := a.token(t.Context())
		require.NoError(t, err)
		require.Equal(t, "token", token, "without a new token the old one is sent: the server decides")
	}
	require.LessOrEqual(t, s.Counts().ClientGrants, renewalBurst)
}

// A server that rejects each token, or asks for more and more scopes, is answered with a bounded
// number of token requests for all calls together. The error says what to do.
func TestRenewals_bounded(t *testing.T) {
	var n atomic.Int32
	for name, rules := range map[string]oauthtest.Rules{
		"each token is good for one request": {},
		"ever more scopes": {RequiredScopes: map[string]string{"": "never"}, Challenge: func(h http.Header) {
			h.Set("WWW-Authenticate", strings.ReplaceAll(h.Get("WWW-Authenticate"), `scope="never"`, fmt.Sprintf(`scope="scope-%d"`, n.Add(1))))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := newServed(t, rules, Config{FetchAuthorizationCode: approve})
			var last error
			for range 3 * renewalBurst {
				_, last = sendRequest(t.Context(), a, "")
				s.Revoke(false, false)
			}
			var unavailable *mcpvisor.AuthUnavailable
			require.ErrorAs(t, last, &unavailable)
			require.Positive(t, unavailable.RetryAfter)
			require.LessOrEqual(t, unavailable.RetryAfter, renewalInterval)
			require.ErrorContains(t, last, "check the lifetime and the scopes")
			c := s.Counts()
			require.LessOrEqual(t, c.Authorizations+c.Refreshes, 2*renewalBurst, "a renewal may take both")
			for _, err := range requestConcurrently(t.Context(), a, 8) {
				require.ErrorAs(t, err, &unavailable)
			}
			require.Equal(t, c.Authorizations+c.Refreshes, s.Counts().Authorizations+s.Counts().Refreshes)
		})
	}
}

// After some time there is another renewal, and never more than renewalBurst at once, even
// if the clock jumps.
func TestTakeRenewal(t *testing.T) {
	a := &authorizer{renewalsLeft: renewalBurst}
	now := time.Now()
	take := func(want int) {
		t.Helper()
		n := 0
		for ; a.takeRenewal(now) == 0; n++ {
			require.LessOrEqual(t, n, want)
		}
		require.Equal(t, want, n)
	}
	take(renewalBurst)
	require.InDelta(t, renewalInterval, a.takeRenewal(now), float64(time.Millisecond))
	now = now.Add(renewalInterval + time.Millisecond)
	take(1)
	now = now.Add(-time.Hour)
	take(0)
	now = now.Add(1000 * time.Hour)
	take(renewalBurst)
}

// A refresh token is sent to no other issuer, even if its token endpoint is gone and the
// server names another one.
func TestRefresh_other_issuer(t *testing.T) {
	rule, gone := rejectGrant("refresh_token", http.StatusNotFound, "")
	s, other := newAuthServer(t, oauthtest.Rules{Token: rule}), newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
	gone.Store(true)
	s.Revoke(false, false)
	s.Set(oauthtest.Rules{Token: rule, Document: guardedBy(other.Issuer)})
	require.Equal(t, other.Issuer, requireAuthRequired(t, a, "").Issuer)
	require.Zero(t, other.Counts().Refreshes)
}

// If the server rejects a token that was renewed for the same request, the user is
// needed and nothing is renewed again.
func TestRenew_rejects_renewed_token(t *testing.T) {
	rule, useless := rejectGrant("refresh_token", http.StatusOK, `{"access_token": "always-rejected"}`)
	s := newAuthServer(t, oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
	s.Revoke(false, false)
	useless.Store(true)
	require.NotEmpty(t, requireAuthRequired(t, a, "").URL)
	require.Equal(t, 1, s.Counts().Refreshes)
}

// A renewal ahead that is rejected keeps the access token that is still valid.
func TestRenewalAhead_rejected(t *testing.T) {
	rule, refuse := rejectGrant("refresh_token", http.StatusBadRequest, `{"error": "invalid_grant"}`)
	s, store := newServerWithTokens(t, oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{Store: store})
	token := a.accessToken()
	refuse.Store(true)
	a.mu.Lock()
	f, err := a.joinRenewal(reason{trigger: triggerAhead}, token)
	a.mu.Unlock()
	require.NoError(t, err)
	<-f.done
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, token, a.accessToken())
	requireOK(t, a)
	requireOK(t, newAuthorizer(t, s, Config{Store: store}))
}

// An Authorize without a redirect keeps a registration that has a refresh token.
func TestAuthorize_canceled_keeps_tokens(t *testing.T) {
	s, store := newServerWithTokens(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: store})
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, a.Authorize(ctx, func(string) error { cancel(); return nil }), context.Canceled)
	s.Revoke(false, false)
	requireOK(t, newAuthorizer(t, s, Config{Store: store}))
	require.Equal(t, 1, s.Counts().Registrations)
	require.Equal(t, 1, s.Counts().Refreshes)
}

// afterSuspend returns what time.Now returns after the machine was suspended for d: the
// wall clock advanced, and the monotonic clock did not.
func afterSuspend(now time.Time, d time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	wall := (*uint64)(unsafe.Pointer(&now)) // 33 bits of seconds, 30 of nanoseconds
	if *wall&hasMonotonic == 0 {
		panic("no monotonic reading")
	}
	*wall += uint64(d/time.Second) << 30
	return now
}

func TestIsExpired_after_suspend(t *testing.T) {
	_, a := newApproved(t, oauthtest.Rules{})
	requireOK(t, a)
	a.mu.Lock()
	h := a.tokens.clone()
	a.mu.Unlock()
	now := time.Now()
	h.Obtained, h.Expires = now, now.Add(time.Hour)
	require.False(t, isExpired(h, now.Add(59*time.Minute)))
	require.True(t, isExpired(h, now.Add(time.Hour)))
	later := afterSuspend(now.Add(time.Second), 2*time.Hour)
	require.Less(t, later.Sub(now), time.Minute, "the monotonic clock did not advance")
	require.True(t, isExpired(h, later), "the token expired while the machine was suspended")
	require.True(t, isExpired(h, afterSuspend(now.Add(2*time.Hour), -2*time.Hour)), "setting the wall clock back does not extend a lifetime")
	require.False(t, isExpired(h, afterSuspend(now.Add(time.Second), 30*time.Minute)))
}

func TestTakePending_after_suspend(t *testing.T) {
	a := &authorizer{pending: map[string]*authRequest{"s": {state: "s", created: afterSuspend(time.Now(), -authRequestLifetime-time.Minute)}}}
	require.Nil(t, a.takePending("s"), "the request is older than 15 minutes")
	a.pending["s"] = &authRequest{state: "s", created: time.Now()}
	require.NotNil(t, a.takePending("s"))
}

func TestElapsed(t *testing.T) {
	now := time.Now()
	require.Equal(t, time.Minute, elapsed(now, now.Add(time.Minute)))
	require.Equal(t, time.Hour, elapsed(now, afterSuspend(now, time.Hour)), "by the wall clock")
	require.Equal(t, time.Hour, elapsed(now, afterSuspend(now.Add(time.Hour), -time.Hour)), "by the monotonic clock")
}

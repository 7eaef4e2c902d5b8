package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// testTimeout bounds the wait for an event that must happen.
const testTimeout = time.Minute

// newAuthServer starts an authorization server and an MCP endpoint behind it.
func newAuthServer(t *testing.T, rules oauthtest.Rules) *oauthtest.Server {
	t.Helper()
	s := oauthtest.NewServer("")
	s.Set(rules)
	t.Cleanup(s.Close)
	return s
}

// newAuthorizer returns an authorizer with one session attached.
func newAuthorizer(t *testing.T, s *oauthtest.Server, o Config) *authorizer {
	t.Helper()
	a := newDetached(t, s, o)
	a.Attach(t.Context())
	t.Cleanup(func() { a.Detach(0) })
	return a
}

// newServed starts an authorization server, and returns an authorizer with one session attached.
func newServed(t *testing.T, rules oauthtest.Rules, o Config) (*oauthtest.Server, *authorizer) {
	t.Helper()
	s := newAuthServer(t, rules)
	return s, newAuthorizer(t, s, o)
}

// newWorking is newAuthorizer after a request that has succeeded.
func newWorking(t *testing.T, s *oauthtest.Server, o Config) *authorizer {
	t.Helper()
	a := newAuthorizer(t, s, o)
	requireOK(t, a)
	return a
}

// newDetached returns an authorizer without a session. It stores tokens in memory.
func newDetached(t *testing.T, s *oauthtest.Server, o Config) *authorizer {
	t.Helper()
	if o.Store == nil {
		o.Store = NewMemoryStore()
	}
	a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: s.URL, Auth: &o}, func(text string) { t.Log("warning:", text) })
	require.NoError(t, err)
	return a
}

// newTestAuthorizer makes the authorizer of a server whose Auth is a Config.
func newTestAuthorizer(spec *mcpvisor.HTTP, warn func(string)) (*authorizer, error) {
	return spec.Auth.(*Config).newAuthorizer(spec, warn)
}

// approve opens an authorization URL like a browser whose user consents, and returns the
// URL of the redirect.
func approve(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		return "", errors.New("not redirected: " + resp.Status)
	}
	return resp.Header.Get("Location"), nil
}

// consent is approve for an authorization that must be granted.
func consent(t *testing.T, url string) (redirect string) {
	t.Helper()
	redirect, err := approve(t.Context(), url)
	require.NoError(t, err)
	return redirect
}

// sendRequest sends a request and repeats it with a new token, as the transport does. It
// returns the last status, or the error of the authorizer.
func sendRequest(ctx context.Context, a *authorizer, method string) (int, error) {
	c, err := a.Credential(ctx)
	if err != nil {
		return 0, err
	}
	for {
		resp, err := sendOnce(ctx, a, c, method)
		if err != nil {
			return 0, err
		}
		next, err := a.Answered(ctx, c, resp.StatusCode, resp.Header)
		if err != nil || next == nil {
			return resp.StatusCode, err
		}
		c = next
	}
}

// sendOnce sends one request for a JSON-RPC method; "" means none.
func sendOnce(ctx context.Context, a *authorizer, c mcpvisor.Credential, method string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.http.Server().String(), http.NoBody)
	if method != "" {
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, a.http.Server().String(), strings.NewReader(`{"method":"`+method+`"}`))
	}
	if err != nil {
		return nil, err
	}
	if err := c.SetHeaders(req.Header, req.Method, req.URL, nil); err != nil {
		return nil, err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

// requireOK sends a request that must succeed.
func requireOK(t *testing.T, a *authorizer) {
	t.Helper()
	status, err := sendRequest(t.Context(), a, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, status)
}

// requireAuthRequired sends a request that must fail because the user is needed.
func requireAuthRequired(t *testing.T, a *authorizer, method string) *mcpvisor.AuthRequired {
	t.Helper()
	_, err := sendRequest(t.Context(), a, method)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, err, &required)
	return required
}

// requireUnavailable sends a request that must fail for a while.
func requireUnavailable(t *testing.T, a *authorizer) *mcpvisor.AuthUnavailable {
	t.Helper()
	_, err := sendRequest(t.Context(), a, "")
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)
	return unavailable
}

// newApproved starts an authorization server, and returns an authorizer whose user consents.
func newApproved(t *testing.T, rules oauthtest.Rules) (*oauthtest.Server, *authorizer) {
	t.Helper()
	return newServed(t, rules, Config{FetchAuthorizationCode: approve})
}

// guardedBy makes the MCP server name these authorization servers.
func guardedBy(issuers ...string) func(string, map[string]any) int {
	return func(_ string, d map[string]any) int {
		if d["authorization_servers"] != nil {
			d["authorization_servers"] = issuers
		}
		return 0
	}
}

// authorizedStore returns a store with the tokens of a completed authorization.
func authorizedStore(t *testing.T, s *oauthtest.Server, scopes ...string) TokenStore {
	t.Helper()
	store := NewMemoryStore()
	first := newDetached(t, s, Config{FetchAuthorizationCode: approve, Store: store, Scopes: scopes})
	first.Attach(t.Context())
	requireOK(t, first)
	first.Detach(time.Second)
	return store
}

// newServerWithTokens starts an authorization server, and returns a store with the tokens of an authorization there.
func newServerWithTokens(t *testing.T, rules oauthtest.Rules, scopes ...string) (*oauthtest.Server, TokenStore) {
	t.Helper()
	s := newAuthServer(t, rules)
	return s, authorizedStore(t, s, scopes...)
}

// openBrowser opens a URL like a browser whose user consents, and follows the redirect to
// the callback server.
func openBrowser(url string) error {
	go func() {
		if redirect, err := approve(context.Background(), url); err == nil {
			_, _ = approve(context.Background(), redirect)
		}
	}()
	return nil
}

// rejectGrant returns a rule of the token endpoint that answers a grant with status and
// body while now is true.
func rejectGrant(kind string, status int, body string) (rule func(http.ResponseWriter, *http.Request) bool, now *atomic.Bool) {
	now = new(atomic.Bool)
	return func(w http.ResponseWriter, r *http.Request) bool {
		refused := now.Load() && r.PostForm.Get("grant_type") == kind
		if refused {
			answerWith(w, status, body)
		}
		return refused
	}, now
}

// requestConcurrently sends n requests at once and returns their errors.
func requestConcurrently(ctx context.Context, a *authorizer, n int) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range errs {
		wg.Go(func() {
			<-start
			_, errs[i] = sendRequest(ctx, a, "")
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// hangGrant returns a rule by which the token endpoint does not answer a grant until free
// is called or the test ends. asked delivers each request that hangs.
func hangGrant(t *testing.T, kind string) (rule func(http.ResponseWriter, *http.Request) bool, asked <-chan struct{}, free func()) {
	t.Helper()
	quit, seen := make(chan struct{}), make(chan struct{}, 64)
	free = sync.OnceFunc(func() { close(quit) })
	t.Cleanup(free)
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") != kind {
			return false
		}
		seen <- struct{}{}
		select {
		case <-quit:
		case <-r.Context().Done():
		}
		return false
	}, seen, free
}

// setExpiry changes the lifetime of the current token and how much of it is left, in
// memory and in the store.
func setExpiry(t *testing.T, a *authorizer, left, life time.Duration) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = a.tokens.clone()
	a.tokens.Expires = time.Now().Add(left)
	a.tokens.Obtained = a.tokens.Expires.Add(-life)
	if a.store != nil {
		require.NoError(t, a.store.Save(t.Context(), a.key, encode(t, a.tokens)))
	}
	a.scheduleRenewal()
}

// encode returns an authorization as stores hold it.
func encode(t *testing.T, a *authorization) []byte {
	t.Helper()
	data, err := json.Marshal(a)
	require.NoError(t, err)
	return data
}

// stored returns what a store holds for a key.
func stored(t *testing.T, store TokenStore, key TokenKey) (a *authorization) {
	t.Helper()
	data, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	if data != nil {
		require.NoError(t, json.Unmarshal(data, &a))
	}
	return a
}

// endPause ends the pause after a failed renewal, as time would.
func endPause(a *authorizer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lastFailure != nil {
		a.lastFailure.until = time.Time{}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

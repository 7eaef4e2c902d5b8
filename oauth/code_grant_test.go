package oauth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
)

func TestCodeGrant_parameters(t *testing.T) {
	s, a := newServed(t, oauthtest.Rules{Scopes: []string{"read"}}, Config{FetchAuthorizationCode: approve, Scopes: []string{"extra"}})
	requireOK(t, a)
	v, f := s.Counts().LastAuthorization, s.Counts().LastToken
	require.Equal(t, "code", v.Get("response_type"))
	require.Equal(t, s.URL, v.Get("resource"))
	require.Equal(t, s.URL, f.Get("resource"))
	require.Equal(t, "S256", v.Get("code_challenge_method"))
	require.GreaterOrEqual(t, len(f.Get("code_verifier")), 43, "RFC 7636, section 4.1")
	require.Equal(t, "extra read", v.Get("scope"))
	require.Equal(t, v.Get("redirect_uri"), f.Get("redirect_uri"))
	first := v.Get("state")
	s.Revoke(true, false)
	requireOK(t, a)
	require.NotEqual(t, first, s.Counts().LastAuthorization.Get("state"))
	require.NotEqual(t, f.Get("code_verifier"), s.Counts().LastToken.Get("code_verifier"))
}

func TestExchangeCode_checks_redirect(t *testing.T) {
	advertised := func(path string, d map[string]any) int {
		if strings.Contains(path, "oauth-authorization-server") {
			d["authorization_response_iss_parameter_supported"] = true
		}
		return 0
	}
	iss := func(value string) func(url.Values) { return func(q url.Values) { q.Set("iss", value) } }
	for name, c := range map[string]struct {
		document func(string, map[string]any) int
		redirect func(url.Values)
		says     string // empty: the redirect is accepted
	}{
		"wrong_state":      {nil, func(q url.Values) { q.Set("state", "another") }, "its state differs"},
		"no state":         {nil, func(q url.Values) { q.Del("state") }, "its state differs"},
		"no code":          {nil, func(q url.Values) { q.Del("code") }, "no code parameter"},
		"denied":           {nil, func(q url.Values) { q.Set("error", "access_denied"); q.Set("error_description", "no way") }, "access_denied (no way)"},
		"foreign_issuer":   {nil, iss("https://evil.example"), "another authorization server"},
		"slash at the end": {nil, func(q url.Values) { q.Set("iss", "SELF/") }, "another authorization server"},
		"own issuer":       {nil, func(q url.Values) { q.Set("iss", "SELF") }, ""},
		"issuer missing":   {advertised, nil, "has no iss parameter"},
		"issuer there":     {advertised, func(q url.Values) { q.Set("iss", "SELF") }, ""},
		"error_of_foreign_issuer": {nil, func(q url.Values) {
			q.Set("iss", "https://evil.example")
			q.Set("error", "click_here")
		}, "another authorization server"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *oauthtest.Server
			redirect := func(q url.Values) {
				if c.redirect != nil {
					c.redirect(q)
				}
				if text := q.Get("iss"); text != "" {
					q.Set("iss", strings.Replace(text, "SELF", s.Issuer, 1))
				}
			}
			s = newAuthServer(t, oauthtest.Rules{Document: c.document, Redirect: redirect})
			a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
			_, err := sendRequest(t.Context(), a, "")
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "click_here")
			require.Zero(t, s.Counts().CodeExchanges, "the code is not exchanged")
		})
	}
}

func TestAuthRequired_without_waiting_for_the_user(t *testing.T) {
	s, a := newServed(t, oauthtest.Rules{Scopes: []string{"read"}}, Config{})
	required := requireAuthRequired(t, a, "")
	require.Equal(t, s.Issuer, required.Issuer)
	require.Equal(t, s.URL, required.Resource)
	require.Equal(t, []string{"read"}, required.Scopes)
	require.NotContains(t, required.Error(), "state=")

	redirect := consent(t, required.URL)
	require.ErrorContains(t, a.Finish(t.Context(), redirect+"x&state=unknown"), "no authorization request waits")
	require.NoError(t, a.Finish(t.Context(), redirect))
	requireOK(t, a)
	require.ErrorContains(t, a.Finish(t.Context(), redirect), "no authorization request waits", "a redirect is accepted once")
}

func TestCodeGrant_registers_once(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	store := NewMemoryStore()
	for range 3 {
		a := newAuthorizer(t, s, Config{Store: store})
		requireAuthRequired(t, a, "")
		requireAuthRequired(t, a, "")
	}
	require.Equal(t, 1, s.Counts().Registrations)
}

func TestAuthorize(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}})
	a := newDetached(t, s, Config{}) // no challenge was received yet
	require.NoError(t, a.Authorize(t.Context(), func(url string) error {
		go func() {
			redirect, err := approve(context.Background(), url)
			if err == nil {
				_, _ = approve(context.Background(), strings.Replace(redirect, "state=", "state=foreign", 1)) // is refused
				_, _ = approve(context.Background(), redirect)
			}
		}()
		return nil
	}))
	require.Equal(t, "read", s.Counts().LastAuthorization.Get("scope"), "the scope is that of the challenge")
	requireOK(t, a)

	failed := errors.New("no browser")
	require.ErrorIs(t, a.Authorize(t.Context(), func(string) error { return failed }), failed)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, a.Authorize(ctx, func(string) error { cancel(); return nil }), context.Canceled)
}

func TestStepUp(t *testing.T) {
	s, a := newApproved(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"tools/call": "write", "root": "root"}})
	requireOK(t, a)
	status, err := sendRequest(t.Context(), a, "tools/call")
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, "read write", s.Counts().LastAuthorization.Get("scope"), "the granted scope is requested again")
	require.Equal(t, 1, s.Counts().Registrations)

	s = newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"tools/call": "write"}})
	store := NewMemoryStore()
	newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	alone := newAuthorizer(t, s, Config{Store: store})
	required := requireAuthRequired(t, alone, "tools/call")
	require.Contains(t, required.URL, "scope=read+write")
	requireOK(t, alone) // other requests succeed
}

// A discovery that takes longer than a call may wait completes anyway.
func TestSlowDiscovery_completes_in_background(t *testing.T) {
	_, a := newServed(t, oauthtest.Rules{Document: func(string, map[string]any) int { time.Sleep(100 * time.Millisecond); return 0 }}, Config{TokenWait: 50 * time.Millisecond})
	requireUnavailable(t, a)
	var required *mcpvisor.AuthRequired
	require.Eventually(t, func() bool { _, err := sendRequest(t.Context(), a, ""); return errors.As(err, &required) }, testTimeout, 10*time.Millisecond)
	require.NotEmpty(t, required.URL)
}

// A new consent does not help if the server asks for a scope that the token has.
func TestStepUp_for_granted_scope(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"tools/call": "write"}, Challenge: func(h http.Header) {
		h.Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="read"`)
	}})
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Scopes: []string{"read"}})
	for range 3 {
		require.Contains(t, requireAuthRequired(t, a, "tools/call").Reason, "scopes that the token already has")
	}
	require.Equal(t, 1, s.Counts().Authorizations)
}

func TestCodeGrant_offline_access(t *testing.T) {
	s, a := newApproved(t, oauthtest.Rules{Document: func(path string, d map[string]any) int {
		if strings.Contains(path, "oauth-authorization-server") {
			d["scopes_supported"] = []string{"offline_access", "other"}
		}
		return 0
	}})
	requireOK(t, a)
	require.Equal(t, "offline_access", s.Counts().LastAuthorization.Get("scope"))
	require.Equal(t, "consent", s.Counts().LastAuthorization.Get("prompt"))
}

func TestCodeGrant_requires_PKCE(t *testing.T) {
	for _, methods := range [][]string{nil, {"plain"}} {
		s, a := newApproved(t, oauthtest.Rules{Document: func(_ string, d map[string]any) int {
			delete(d, "code_challenge_methods_supported")
			if methods != nil && d["issuer"] != nil {
				d["code_challenge_methods_supported"] = methods
			}
			return 0
		}})
		_, err := sendRequest(t.Context(), a, "")
		require.ErrorContains(t, err, "PKCE")
		require.Zero(t, s.Counts().Authorizations)
	}
}

// A renewal that ends late does not replace the tokens of a consent meanwhile.
func TestFinish_during_renewal(t *testing.T) {
	rule, asked, free := hangGrant(t, "refresh_token")
	s := newAuthServer(t, oauthtest.Rules{Rotate: true, Token: rule})
	unlocked := struct{ TokenStore }{NewMemoryStore()}
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: unlocked})
	n, err := a.newAuthRequest(t.Context(), metadata.Challenge{}, nil, false)
	require.NoError(t, err)
	redirect := consent(t, n.url)
	setExpiry(t, a, 0, time.Hour)
	late := make(chan error, 1)
	go func() { _, err := sendRequest(context.Background(), a, ""); late <- err }()
	<-asked
	finished := make(chan error, 1)
	go func() { finished <- a.Finish(context.Background(), redirect) }()
	select {
	case <-finished:
		require.FailNow(t, "Finish did not wait for the token lock")
	case <-time.After(50 * time.Millisecond):
	}
	free()
	require.NoError(t, <-late)
	require.NoError(t, <-finished)
	requireOK(t, a)
	s.Revoke(false, false)
	requireOK(t, a)
	require.Equal(t, 1, s.Counts().Authorizations-1, "the refresh token of the consent is kept")
}

// pendingWithCallback makes a pending request with a callback server of its own.
func pendingWithCallback(t *testing.T, a *authorizer) *authRequest {
	t.Helper()
	server, err := a.listenForRedirect(nil)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	r, err := a.newAuthRequest(t.Context(), metadata.Challenge{}, server, false)
	require.NoError(t, err)
	return r
}

// redirectOf returns a redirect for a request, with a code that is not valid.
func redirectOf(r *authRequest) string {
	return r.redirectURI + "?" + url.Values{"state": {r.state}, "code": {"none"}}.Encode()
}

// A new request drops the oldest one when too many are pending.
func TestPendingRequests_bound(t *testing.T) {
	_, a := newServed(t, oauthtest.Rules{}, Config{})
	first := pendingWithCallback(t, a)
	first.created = first.created.Add(-time.Second) // independent of the resolution of the clock
	second := pendingWithCallback(t, a)
	for range maxAuthRequests - 1 {
		pendingWithCallback(t, a)
	}
	require.Len(t, a.pending, maxAuthRequests)
	require.ErrorIs(t, a.Finish(t.Context(), redirectOf(first)), errNotPending)
	require.NotErrorIs(t, a.Finish(t.Context(), redirectOf(second)), errNotPending)
}

// The redirect of a request that is too old is refused.
func TestPendingRequests_expire(t *testing.T) {
	_, a := newServed(t, oauthtest.Rules{}, Config{})
	old := pendingWithCallback(t, a)
	old.created = old.created.Add(-authRequestLifetime - time.Second)
	pendingWithCallback(t, a)
	require.NotContains(t, a.pending, old.state, "a new request drops the old one")

	late := pendingWithCallback(t, a)
	late.created = late.created.Add(-authRequestLifetime - time.Second)
	require.ErrorIs(t, a.Finish(t.Context(), redirectOf(late)), errNotPending)
}

// Callers with the same challenge get the same URL for a while. A request with a
// callback server is never shared.
func TestNewAuthRequest_reuses_pending(t *testing.T) {
	s, a := newServed(t, oauthtest.Rules{}, Config{})
	pendingWithCallback(t, a)
	request := func(c metadata.Challenge) *authRequest {
		r, err := a.newAuthRequest(t.Context(), c, nil, false)
		require.NoError(t, err)
		return r
	}
	shared := request(metadata.Challenge{})
	require.False(t, shared.hasCallback)
	require.Same(t, shared, request(metadata.Challenge{}))
	require.NotSame(t, shared, request(metadata.Challenge{Scopes: []string{"more"}}))
	require.NotSame(t, shared, request(metadata.Challenge{MetadataURL: s.Issuer + "/.well-known/oauth-protected-resource/mcp"}))
	require.NotSame(t, shared, pendingWithCallback(t, a), "a callback server takes one redirect")
	shared.created = shared.created.Add(-authRequestReuse - time.Second)
	require.NotSame(t, shared, request(metadata.Challenge{}), "it may expire before the user consents")
}

// Pending requests are taken over by the next registration with the same account,
// client and issuer, and by no other.
func TestInherit_pending_requests(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	s.AddClient("me", "my-secret")
	same := Config{ClientID: "me", ClientSecret: "my-secret"}
	last := newAuthorizer(t, s, same)
	n := pendingWithCallback(t, last)
	for name, change := range map[string]func(o *Config){
		"account":      func(o *Config) { o.Account = "another" },
		"client":       func(o *Config) { o.ClientID = "another" },
		"secret":       func(o *Config) { o.ClientSecret = "another" },
		"issuer":       func(o *Config) { o.Issuer = "https://auth.example" },
		"redirect_URL": func(o *Config) { o.RedirectURL = "http://127.0.0.1:9/callback" },
		"grant":        func(o *Config) { o.Grant = GrantClientCredentials },
	} {
		o := same
		change(&o)
		next := newDetached(t, s, o)
		next.Inherit(last)
		require.ErrorIs(t, next.Finish(t.Context(), redirectOf(n)), errNotPending, name)
	}
	next := newDetached(t, s, same)
	next.Inherit(last)
	require.NotErrorIs(t, next.Finish(t.Context(), redirectOf(n)), errNotPending)
}

// An authorization code is exchanged once, even if both FetchAuthorizationCode and
// Finish bring it.
func TestFinish_of_fetched_code(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	finished := make(chan error, 1)
	var a *authorizer
	a = newAuthorizer(t, s, Config{FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		redirect, err := approve(ctx, u)
		go func() { finished <- a.Finish(context.Background(), redirect) }()
		require.Eventually(t, func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.pending) == 0 }, testTimeout, time.Millisecond)
		return redirect, err
	}})
	require.ErrorContains(t, requireAuthRequired(t, a, ""), errNotPending.Error())
	require.NoError(t, <-finished)
	require.Equal(t, 1, s.Counts().CodeExchanges)
}

// A request that was pending at Forget does not bring the tokens back.
func TestForget_drops_pending_requests(t *testing.T) {
	s, store := newServerWithTokens(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: store})
	open := pendingWithCallback(t, a)
	require.NoError(t, a.Forget(t.Context()))
	redirect := consent(t, open.url)
	require.ErrorIs(t, a.Finish(t.Context(), redirect), errNotPending)
	requireForgotten(t, a, store)
}

// Forget drops the tokens of a code exchange that completes meanwhile.
func TestForget_during_code_exchange(t *testing.T) {
	s, store := newServerWithTokens(t, oauthtest.Rules{})
	rule, asked, free := hangGrant(t, "authorization_code")
	s.Set(oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{Store: store})
	redirect := consent(t, pendingWithCallback(t, a).url)
	finished, forgotten := make(chan error, 1), make(chan error, 1)
	go func() { finished <- a.Finish(context.Background(), redirect) }()
	<-asked
	go func() { forgotten <- a.Forget(context.Background()) }()
	require.Eventually(t, func() bool { return a.accessToken() == "" }, testTimeout, time.Millisecond, "Forget clears the memory at once")
	free()
	require.NoError(t, <-finished)
	require.NoError(t, <-forgotten)
	requireForgotten(t, a, store)
}

// The requested scopes are those requested, granted and missing before at the same
// issuer, those of the spec and those of the challenge. Only if there are none they are
// those of the metadata.
func TestScopes(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	d := &metadata.Discovery{ResourceScopes: []string{"s"}, Server: &oauthex.AuthServerMeta{Issuer: "https://auth.example"}}
	tokens := &authorization{Issuer: "https://auth.example", RequestedScopes: []string{"a"}, Scopes: []string{"b"}, StepUpScopes: []string{"c"}}
	a := newDetached(t, s, Config{Scopes: []string{"d"}})
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, a.scopes(metadata.Challenge{Scopes: []string{"e", "a"}}, d, tokens))
	tokens.Issuer = "https://another.example"
	require.Equal(t, []string{"d", "e"}, a.scopes(metadata.Challenge{Scopes: []string{"e"}}, d, tokens))
	require.Equal(t, []string{"s"}, newDetached(t, s, Config{}).scopes(metadata.Challenge{}, d, nil))
}

// Another process may use the port that was registered.
func TestListenForRedirect_port_taken(t *testing.T) {
	s, a := newServed(t, oauthtest.Rules{}, Config{})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	taken := "http://" + l.Addr().String() + "/callback"
	server, err := a.listenForRedirect(&authorization{RedirectURL: taken})
	require.NoError(t, err)
	server.Close()
	require.NotEqual(t, taken, server.RedirectURI())

	a = newAuthorizer(t, s, Config{RedirectURL: taken}) // no other port is allowed
	_, err = a.listenForRedirect(nil)
	require.ErrorContains(t, err, "free the port")
}

// A server that names thousands of scopes does not make the authorization URL endless.
func TestAuthorizationURL_many_scopes(t *testing.T) {
	_, a := newServed(t, oauthtest.Rules{}, Config{})
	many := make([]string, 1500)
	for i := range many {
		many[i] = "s" + strconv.Itoa(i)
	}
	h := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="` + strings.Join(many, " ") + `"`}}
	err := a.renewRefused(t.Context(), "", false, http.StatusUnauthorized, h)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, err, &required)
	require.LessOrEqual(t, len(required.Scopes), 1000)
	require.Less(t, len(required.URL), 64<<10)
}

// An authorization code that is used twice revokes its tokens (RFC 6749, section 4.1.2).
func TestFinish_twice(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	store := NewMemoryStore()
	a := newAuthorizer(t, s, Config{Store: store})
	redirect := consent(t, requireAuthRequired(t, a, "").URL)
	unlock, err := store.(TokenLocker).Lock(t.Context(), a.key) // another process renews
	require.NoError(t, err)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- a.Finish(context.Background(), redirect) }()
	}
	require.ErrorContains(t, <-errs, "no authorization request waits", "while the other waits for the lock")
	unlock()
	require.NoError(t, <-errs)
	require.Equal(t, 1, s.Counts().CodeExchanges)
	requireOK(t, a)
}

// A browser that disconnects during the code exchange loses no token.
func TestFinish_canceled_during_exchange(t *testing.T) {
	rule, asked, free := hangGrant(t, "authorization_code")
	_, a := newServed(t, oauthtest.Rules{Token: rule}, Config{})
	redirect := consent(t, requireAuthRequired(t, a, "").URL)
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan error, 1)
	go func() { finished <- a.Finish(ctx, redirect) }()
	<-asked
	cancel()
	require.ErrorIs(t, <-finished, context.Canceled)
	free()
	require.Eventually(t, func() bool { return a.accessToken() != "" }, testTimeout, 5*time.Millisecond)
}

// A registration that the authorization server has deleted is dropped when no redirect
// comes, or when the server rejects the client.
func TestAuthorize_forgotten_registration(t *testing.T) {
	s, store := newServerWithTokens(t, oauthtest.Rules{NoRefresh: true})
	s.Revoke(true, true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, newAuthorizer(t, s, Config{Store: store}).Authorize(ctx, openBrowser), context.DeadlineExceeded)
	a := newAuthorizer(t, s, Config{Store: store})
	require.NoError(t, a.Authorize(t.Context(), openBrowser))
	require.Equal(t, 2, s.Counts().Registrations)
	requireOK(t, a)

	for _, code := range []string{"unauthorized_client", "invalid_client"} {
		rule, refuse := rejectGrant("refresh_token", http.StatusUnauthorized, `{"error":"`+code+`"}`)
		s = newAuthServer(t, oauthtest.Rules{Token: rule})
		a = newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
		s.Revoke(true, true)
		refuse.Store(true)
		_, err := approve(t.Context(), requireAuthRequired(t, a, "").URL)
		require.NoError(t, err, "the authorization server knows the new client")
	}
}

// The request for the challenge follows a redirect within the origin, such as to a path
// with a slash at the end, and no other.
func TestCurrentChallenge_endpoint_redirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer elsewhere.Close()
	to := "/mcp/"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer scope="read"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer srv.Close()
	a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: srv.URL + "/mcp", Auth: &Config{Store: NewMemoryStore()}}, func(string) {})
	require.NoError(t, err)
	c, err := a.currentChallenge(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"read"}, c.Scopes)
	to = elsewhere.URL
	_, err = a.currentChallenge(t.Context())
	require.ErrorContains(t, err, "is a redirect, which is not followed")
}

// The outcome of a step-up is not that of a request whose token was rejected meanwhile.
func TestRenew_during_step_up(t *testing.T) {
	var slow atomic.Bool
	resume := make(chan struct{})
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}, Document: func(string, map[string]any) int {
		if slow.Load() {
			<-resume
		}
		return 0
	}})
	a := newWorking(t, s, Config{Store: authorizedStore(t, s, "read")})
	slow.Store(true)
	stepUp, plain := make(chan error, 1), make(chan error, 1)
	go func() { _, err := sendRequest(context.Background(), a, "write"); stepUp <- err }()
	require.Eventually(t, func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.renewal != nil }, testTimeout, time.Millisecond)
	s.Revoke(false, false) // the refresh token is still valid
	go func() { _, err := sendRequest(context.Background(), a, ""); plain <- err }()
	require.Never(t, func() bool { return len(plain) > 0 }, 100*time.Millisecond, 10*time.Millisecond, "it waits for the step-up")
	close(resume)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, <-stepUp, &required)
	require.NoError(t, <-plain, "the refresh token is enough")
}

// Every call gets the URL that the user may have open.
func TestStepUp_same_URL(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s, "read")})
	shown := requireAuthRequired(t, a, "write").URL
	for range maxAuthRequests {
		endPause(a)
		require.Equal(t, shown, requireAuthRequired(t, a, "write").URL)
	}
	redirect := consent(t, shown)
	require.NoError(t, a.Finish(t.Context(), redirect))
	_, err := sendRequest(t.Context(), a, "write")
	require.NoError(t, err)
}

// The user may consent in another process, which knows only what is stored.
func TestStepUp_in_another_process(t *testing.T) {
	s, store := newServerWithTokens(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}}, "read")
	host := newAuthorizer(t, s, Config{Store: store})
	requireAuthRequired(t, host, "write")
	requireOK(t, host)
	other := newAuthorizer(t, s, Config{Store: store})
	require.NoError(t, other.Authorize(t.Context(), openBrowser))
	require.Equal(t, "read write", s.Counts().LastAuthorization.Get("scope"))
	host.Attach(t.Context()) // the next session
	defer host.Detach(0)
	_, err := sendRequest(t.Context(), host, "write")
	require.NoError(t, err)
}

// Missing scopes are requested until the authorization server refuses them.
func TestStepUp_refused(t *testing.T) {
	s, store := newServerWithTokens(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}}, "read")
	host := newAuthorizer(t, s, Config{Store: store})
	redirect := consent(t, requireAuthRequired(t, host, "write").URL)
	require.ErrorContains(t, host.Finish(t.Context(), redirect+"&error=invalid_scope"), "invalid_scope")
	other := newAuthorizer(t, s, Config{Store: store})
	require.NoError(t, other.Authorize(t.Context(), openBrowser))
	require.Equal(t, "read", s.Counts().LastAuthorization.Get("scope"))
}

// A scope that the user did not grant is not requested again by each call.
func TestStepUp_scope_not_granted(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	a := newAuthorizer(t, s, Config{Scopes: []string{"read"}, FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		return approve(ctx, strings.ReplaceAll(u, "scope=read+write", "scope=read")) // the user unticks a scope
	}})
	requireOK(t, a)
	for range 3 {
		endPause(a)
		require.Contains(t, requireAuthRequired(t, a, "write").Reason, "not granted")
	}
	require.Equal(t, 2, s.Counts().Authorizations)
}

// A failed FetchAuthorizationCode keeps the token, even after a new registration.
func TestStepUp_fails(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	var absent atomic.Bool
	a := newAuthorizer(t, s, Config{Scopes: []string{"read"}, FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		if absent.Load() {
			return "", errors.New("no browser")
		}
		return approve(ctx, u)
	}})
	requireOK(t, a)
	a.mu.Lock()
	a.tokens = a.tokens.clone()
	a.tokens.ClientSecretExpires = time.Now().Add(-time.Second)
	a.mu.Unlock()
	absent.Store(true)
	requireAuthRequired(t, a, "write")
	require.Equal(t, 2, s.Counts().Registrations)
	requireOK(t, a)
}

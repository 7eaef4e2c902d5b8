package oauth

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
)

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
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{})
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
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{})
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
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{})
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
	s := newAuthServer(t, oauthtest.Rules{})
	store := authorizedStore(t, s)
	a := newAuthorizer(t, s, Config{Store: store})
	open := pendingWithCallback(t, a)
	require.NoError(t, a.Forget(t.Context()))
	redirect, err := approve(t.Context(), open.url)
	require.NoError(t, err)
	require.ErrorIs(t, a.Finish(t.Context(), redirect), errNotPending)
	requireForgotten(t, a, store)
}

// Forget drops the tokens of a code exchange that completes meanwhile.
func TestForget_during_code_exchange(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	store := authorizedStore(t, s)
	rule, asked, free := hangGrant(t, "authorization_code")
	s.Set(oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{Store: store})
	redirect, err := approve(t.Context(), pendingWithCallback(t, a).url)
	require.NoError(t, err)
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
	tokens := &Authorization{Issuer: "https://auth.example", RequestedScopes: []string{"a"}, Scopes: []string{"b"}, StepUpScopes: []string{"c"}}
	a := newDetached(t, s, Config{Scopes: []string{"d"}})
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, a.scopes(metadata.Challenge{Scopes: []string{"e", "a"}}, d, tokens))
	tokens.Issuer = "https://another.example"
	require.Equal(t, []string{"d", "e"}, a.scopes(metadata.Challenge{Scopes: []string{"e"}}, d, tokens))
	require.Equal(t, []string{"s"}, newDetached(t, s, Config{}).scopes(metadata.Challenge{}, d, nil))
}

// Another process may use the port that was registered.
func TestListenForRedirect_port_taken(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	taken := "http://" + l.Addr().String() + "/callback"
	server, err := a.listenForRedirect(&Authorization{RedirectURL: taken})
	require.NoError(t, err)
	server.Close()
	require.NotEqual(t, taken, server.RedirectURI())

	a = newAuthorizer(t, s, Config{RedirectURL: taken}) // no other port is allowed
	_, err = a.listenForRedirect(nil)
	require.ErrorContains(t, err, "free the port")
}

// A server that names thousands of scopes does not make the authorization URL endless.
func TestAuthorizationURL_many_scopes(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{})
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

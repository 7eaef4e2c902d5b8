package oauth

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// begun begins a consent as somebody does who listens at a door of his own.
func begun(t *testing.T, a *Authorizer, port int) *consent {
	t.Helper()
	n, err := a.begin(t.Context(), challenge{}, &door{redirect: fmt.Sprintf("http://127.0.0.1:%d/callback", port)}, false)
	require.NoError(t, err)
	return n
}

// back is where a person comes back to from a consent.
func back(n *consent) string {
	return n.redirect + "?" + url.Values{"state": {n.state}, "code": {"none"}}.Encode()
}

// So many consents wait at once that nobody can fill the memory with them; the
// oldest gives way.
func TestConsentsAreBounded(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{})
	first := begun(t, a, 1)
	first.began = first.began.Add(-time.Second) // whatever the clock's grain is
	second := begun(t, a, 2)
	for i := range consentsKept - 1 {
		begun(t, a, 3+i)
	}
	require.Len(t, a.pending, consentsKept)
	require.ErrorIs(t, a.Finish(t.Context(), back(first)), errTaken)
	require.NotErrorIs(t, a.Finish(t.Context(), back(second)), errTaken)
}

// A person who comes back after a long time is not known any more.
func TestConsentsEnd(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{})
	old := begun(t, a, 1)
	old.began = old.began.Add(-consentLife - time.Second)
	begun(t, a, 2)
	require.NotContains(t, a.pending, old.state, "a new one takes the place of the old")

	late := begun(t, a, 3)
	late.began = late.began.Add(-consentLife - time.Second)
	require.ErrorIs(t, a.Finish(t.Context(), back(late)), errTaken)
}

// Who asks for the same gets the same URL for a while, and none that leads to
// somebody else's door or was made for another challenge.
func TestConsentIsShared(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{})
	begun(t, a, 1)
	begin := func(c challenge) *consent {
		n, err := a.begin(t.Context(), c, nil, false)
		require.NoError(t, err)
		return n
	}
	shared := begin(challenge{})
	require.False(t, shared.door)
	require.Same(t, shared, begin(challenge{}))
	require.NotSame(t, shared, begin(challenge{scopes: []string{"more"}}))
	require.NotSame(t, shared, begin(challenge{metadata: s.Issuer + "/.well-known/oauth-protected-resource/mcp"}))
	require.NotSame(t, shared, begun(t, a, 2), "a door leads to its own owner")
	shared.began = shared.began.Add(-consentFresh - time.Second)
	require.NotSame(t, shared, begin(challenge{}), "it may end while the person reads")
}

// What a person may still consent to goes over to the next registration of the
// same, and to no other account, client or issuer.
func TestConsentsAreInherited(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	s.AddClient("me", "my-secret")
	same := mcpvisor.OAuth{ClientID: "me", ClientSecret: "my-secret"}
	last := newAuthorizer(t, s, same)
	n := begun(t, last, 1)
	for name, change := range map[string]func(o *mcpvisor.OAuth){
		"account":      func(o *mcpvisor.OAuth) { o.Account = "another" },
		"client":       func(o *mcpvisor.OAuth) { o.ClientID = "another" },
		"secret":       func(o *mcpvisor.OAuth) { o.ClientSecret = "another" },
		"issuer":       func(o *mcpvisor.OAuth) { o.Issuer = "https://auth.example" },
		"redirect URL": func(o *mcpvisor.OAuth) { o.RedirectURL = "http://127.0.0.1:9/callback" },
		"grant":        func(o *mcpvisor.OAuth) { o.Grant = mcpvisor.GrantClientCredentials },
	} {
		o := same
		change(&o)
		next := detached(t, s, o)
		next.Inherit(last)
		require.ErrorIs(t, next.Finish(t.Context(), back(n)), errTaken, name)
	}
	next := detached(t, s, same)
	next.Inherit(last)
	require.NotErrorIs(t, next.Finish(t.Context(), back(n)), errTaken)
}

// A code that is used twice revokes its tokens, also if it is used by the host's
// visit and by somebody else.
func TestVisitAndFinishAreOne(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	finished := make(chan error, 1)
	var a *Authorizer
	a = newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		redirect, err := visit(ctx, u)
		go func() { finished <- a.Finish(context.Background(), redirect) }()
		require.Eventually(t, func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.pending) == 0 }, soon, time.Millisecond)
		return redirect, err
	}})
	require.ErrorContains(t, requirePerson(t, a, ""), errTaken.Error())
	require.NoError(t, <-finished)
	require.Equal(t, 1, s.Counts().Exchanges)
}

// What was begun before the authorization was forgotten does not bring it back.
func TestForgetAndAConsent(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	store := authorizedStore(t, s)
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	open := begun(t, a, 1)
	require.NoError(t, a.Forget(t.Context()))
	redirect, err := visit(t.Context(), open.url)
	require.NoError(t, err)
	require.ErrorIs(t, a.Finish(t.Context(), redirect), errTaken)
	requireForgotten(t, a, store)
}

// What has come back while Forget waited for its turn is forgotten, too.
func TestForgetDuringAnExchange(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	store := authorizedStore(t, s)
	rule, asked, free := hanging(t, "authorization_code")
	s.Set(mcptest.AuthorityRules{Token: rule})
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	redirect, err := visit(t.Context(), begun(t, a, 1).url)
	require.NoError(t, err)
	finished, forgotten := make(chan error, 1), make(chan error, 1)
	go func() { finished <- a.Finish(context.Background(), redirect) }()
	<-asked
	go func() { forgotten <- a.Forget(context.Background()) }()
	require.Eventually(t, func() bool { return a.AccessToken() == "" }, soon, time.Millisecond, "at once")
	free()
	require.NoError(t, <-finished)
	require.NoError(t, <-forgotten)
	requireForgotten(t, a, store)
}

// A person is asked for what was asked for, given and found wanting at the same
// issuer, and for what the host and the challenge want; for what the server
// suggests only if nobody wants anything.
func TestScopesToAskFor(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	p := &place{suggested: []string{"s"}, server: &oauthex.AuthServerMeta{Issuer: "https://auth.example"}}
	held := &mcpvisor.Authorization{Issuer: "https://auth.example", RequestedScopes: []string{"a"}, Scopes: []string{"b"}, StepUpScopes: []string{"c"}}
	a := detached(t, s, mcpvisor.OAuth{Scopes: []string{"d"}})
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, a.scopes(challenge{scopes: []string{"e", "a"}}, p, held))
	held.Issuer = "https://another.example"
	require.Equal(t, []string{"d", "e"}, a.scopes(challenge{scopes: []string{"e"}}, p, held))
	require.Equal(t, []string{"s"}, detached(t, s, mcpvisor.OAuth{}).scopes(challenge{}, p, nil))
}

// The port that was registered last time may belong to somebody else by now.
func TestDoorAtAnotherPort(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{})
	l, err := listen("127.0.0.1", "0")
	require.NoError(t, err)
	defer l.Close()
	taken := "http://" + l.Addr().String() + "/callback"
	d, err := a.openDoor(&mcpvisor.Authorization{RedirectURL: taken})
	require.NoError(t, err)
	d.close()
	require.NotEqual(t, taken, d.redirect)

	a = newAuthorizer(t, s, mcpvisor.OAuth{RedirectURL: taken}) // that one and no other
	_, err = a.openDoor(nil)
	require.ErrorContains(t, err, "free the port")
}

package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// guarded is the scripted server behind an authorization server.
func guarded(t *testing.T, rules oauthtest.Rules) (*scripted, *oauthtest.Server) {
	t.Helper()
	s := newScripted(t)
	a := oauthtest.NewServer(s.URL)
	a.Set(rules)
	t.Cleanup(a.Close)
	return s, a
}

func authSpec(a *oauthtest.Server, o mcpvisor.OAuth) mcpvisor.ServerSpec {
	spec := httpSpec(a.URL)
	if o.Store == nil {
		o.Store = transport.NewTokenMemory()
	}
	spec.HTTP.Auth = &o
	return spec
}

// consentAtOnce visits an authorization URL of a server that asks nobody.
func consentAtOnce(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	return resp.Header.Get("Location"), nil
}

func TestHTTPAuthConcurrentRefusalsMakeOneRenewal(t *testing.T) {
	s, a := guarded(t, oauthtest.Rules{Rotate: true})
	session := openHTTP(t, authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce}))
	require.Equal(t, 1, a.Counts().Authorizations)
	a.Revoke(false, false)
	before := len(s.requests("tools/call"))
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = session.Request(transporttest.Context(t), transporttest.ToolCall) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, 1, a.Counts().Refreshes)
	require.Equal(t, 1, a.Counts().Authorizations)
	require.Len(t, s.requests("tools/call"), before+len(errs), "each call reached the server once")
}

func TestHTTPAuthPersonIsNeededAtStart(t *testing.T) {
	_, a := guarded(t, oauthtest.Rules{})
	cause := openFails(t, authSpec(a, mcpvisor.OAuth{}))
	require.Equal(t, supervisor.CauseAuth, cause.Kind)
	require.True(t, cause.Permanent)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, cause, &required)
	require.Contains(t, required.URL, a.Issuer+"/authorize?")
	require.NotContains(t, cause.Message, "state=")
	require.Contains(t, cause.Message, "authorize")
}

// Without a usable token a session ends; nobody waits for a person in a call.
func TestHTTPAuthPersonIsNeededLater(t *testing.T) {
	_, a := guarded(t, oauthtest.Rules{})
	store := transport.NewTokenMemory()
	first := openHTTP(t, authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce, Store: store}))
	requireServing(t, first)
	session := openHTTP(t, authSpec(a, mcpvisor.OAuth{Store: store}))
	requireServing(t, session)
	a.Revoke(true, false)
	e := callFails(t, session)
	require.Equal(t, mcpvisor.KindAuthRequired, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, e, &required)
	require.NotEmpty(t, required.URL)
	transporttest.RequireClosed(t, session.Dead(), "the session lives without a token")
	require.Equal(t, supervisor.CauseAuth, session.Cause().Kind)
	require.True(t, session.Cause().Permanent)
}

func TestHTTPAuthStepUpConcernsOneCall(t *testing.T) {
	s, a := guarded(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"tools/call": "write"}})
	store := transport.NewTokenMemory()
	session := openHTTP(t, authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce, Store: store, Scopes: []string{"read"}}))
	requireServing(t, session)
	require.Equal(t, "read write", a.Counts().LastAuthorization.Get("scope"))
	require.Len(t, s.requests("tools/call"), 1)

	a.Revoke(true, false)
	a.Set(oauthtest.Rules{RequiredScopes: map[string]string{"tools/call": "admin"}})
	visiting := openHTTP(t, authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce, Store: store}))
	alone := openHTTP(t, authSpec(a, mcpvisor.OAuth{Store: store}))
	e := callFails(t, alone)
	require.Equal(t, mcpvisor.KindAuthRequired, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	require.Nil(t, alone.Cause(), "what needs no more scopes goes on")
	_, err := alone.Request(transporttest.Context(t), transport.Request{Method: "ping"})
	require.NoError(t, err)
	requireServing(t, visiting)
}

// A call that wants more scopes ends the session for nobody whose token is merely
// to be refreshed.
func TestHTTPAuthRefusalDuringAStepUp(t *testing.T) {
	var slow atomic.Bool
	gate := make(chan struct{})
	_, a := guarded(t, oauthtest.Rules{RequiredScopes: map[string]string{"tools/call": "write"}, Document: func(string, map[string]any) int {
		if slow.Load() {
			<-gate
		}
		return 0
	}})
	store := transport.NewTokenMemory()
	openHTTP(t, authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce, Store: store, Scopes: []string{"read"}}))
	s := openHTTP(t, authSpec(a, mcpvisor.OAuth{Store: store}))
	slow.Store(true)
	before := a.Counts().Refused
	stepUp, ping := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Request(context.Background(), transporttest.ToolCall); stepUp <- err }()
	require.Eventually(t, func() bool { return a.Counts().Refused > before }, transporttest.Patience, transporttest.TimeStep)
	require.Never(t, func() bool { return len(stepUp) > 0 }, 100*time.Millisecond, transporttest.TimeStep)
	a.Revoke(false, false) // the refresh token is good
	go func() { _, err := s.Request(context.Background(), transport.Request{Method: "ping"}); ping <- err }()
	require.Never(t, func() bool { return len(ping) > 0 }, 100*time.Millisecond, transporttest.TimeStep)
	close(gate)
	require.Error(t, <-stepUp)
	require.NoError(t, <-ping)
	require.Nil(t, s.Cause())
}

// A client that is blocked has no session without a token.
func TestHTTPAuthClientIsRefusedLater(t *testing.T) {
	var refuse atomic.Bool
	_, a := guarded(t, oauthtest.Rules{TokenLifetime: 1500 * time.Millisecond, Token: func(w http.ResponseWriter, _ *http.Request) bool {
		if refuse.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
		}
		return refuse.Load()
	}})
	a.AddClient("me", "secret-of-me")
	s := openHTTP(t, authSpec(a, mcpvisor.OAuth{Grant: mcpvisor.GrantClientCredentials, ClientID: "me", ClientSecret: "secret-of-me"}))
	requireServing(t, s)
	refuse.Store(true)
	var e *mcpvisor.Error
	require.Eventually(t, func() bool {
		_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
		return errors.As(err, &e)
	}, transporttest.Patience, transporttest.TimeStep)
	require.Equal(t, mcpvisor.KindAuthRequired, e.Kind)
	transporttest.RequireClosed(t, s.Dead(), "every call fails for good, and the session goes on")
	require.Equal(t, supervisor.CauseAuth, s.Cause().Kind)
	require.True(t, s.Cause().Permanent)
}

// A token endpoint that hangs costs a call no more than OAuth.TokenWait, and the
// session nothing.
func TestHTTPAuthTokenEndpointHangs(t *testing.T) {
	quit := make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") == "refresh_token" {
			select {
			case <-quit:
			case <-r.Context().Done():
			}
		}
		return false
	}
	_, a := guarded(t, oauthtest.Rules{TokenLifetime: 3 * time.Second, Token: hang})
	spec := authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce, TokenWait: 100 * time.Millisecond})
	spec.Timeouts.Shutdown = 100 * time.Millisecond
	session := openHTTP(t, spec)
	for deadline := time.Now().Add(transporttest.Patience); ; {
		_, err := session.Request(transporttest.Context(t), transporttest.ToolCall)
		if err == nil && time.Now().Before(deadline) {
			continue
		}
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.KindUnavailable, e.Kind, "%v", e)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		require.Contains(t, e.Error(), "the authorization server does not answer")
		break
	}
	require.Nil(t, session.Cause())
	close(quit)
	require.Eventually(t, func() bool {
		_, err := session.Request(transporttest.Context(t), transporttest.ToolCall)
		return err == nil
	}, transporttest.Patience, transporttest.TimeStep, "the session goes on when the endpoint does")
}

// Whatever the server makes of a token: it is seen nowhere.
func TestHTTPAuthTokensStaySecret(t *testing.T) {
	s, a := guarded(t, oauthtest.Rules{})
	log := new(lockedBuffer)
	spec := authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce})
	d := NewDialer(spec.WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.New(log)}).(*httpDialer)
	session := d.NewSession().(*httpSession)
	transporttest.ReleaseAtEnd(t, session)
	require.NoError(t, session.Open(transporttest.Context(t)))
	token := d.auth.AccessToken()
	require.Contains(t, token, "access-")
	s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		sayError(w, id, -32000, "your token is "+token)
	})
	e := callFails(t, session)
	require.Contains(t, e.Error(), "your token is")
	require.NotContains(t, allTexts(e), token)
	s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		http.Error(w, "no: Bearer "+token, http.StatusInternalServerError)
	})
	require.NotContains(t, allTexts(callFails(t, session)), token)
	require.NotContains(t, log.String(), token)
}

func TestHTTPAuthTokenStaysAtTheOrigin(t *testing.T) {
	seen := make(chan string, 8)
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") }))
	defer stranger.Close()
	s, a := guarded(t, oauthtest.Rules{})
	session := openHTTP(t, authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce}))
	s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
	})
	callFails(t, session)
	require.Empty(t, seen)
}

// The registration of one dialer is authorized from outside.
func TestHTTPAuthorization(t *testing.T) {
	_, a := guarded(t, oauthtest.Rules{})
	d := httpDialerFor(authSpec(a, mcpvisor.OAuth{}))
	session := d.NewSession()
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, session.Open(transporttest.Context(t)), &required)
	transporttest.RequireClosed(t, session.Released(), "session is not released")
	redirect, err := consentAtOnce(transporttest.Context(t), required.URL)
	require.NoError(t, err)
	require.NoError(t, transport.Authorization(d).Finish(transporttest.Context(t), redirect))
	next := d.NewSession()
	transporttest.ReleaseAtEnd(t, next)
	require.NoError(t, next.Open(transporttest.Context(t)))
	require.Nil(t, transport.Authorization(httpDialerFor(httpSpec(a.URL))))
}

// Whoever has set no Auth is told that there could be one.
func TestHTTPAuthIsOffered(t *testing.T) {
	_, a := guarded(t, oauthtest.Rules{})
	cause := openFails(t, httpSpec(a.URL))
	require.Equal(t, supervisor.CauseAuth, cause.Kind)
	require.Contains(t, cause.Message, `"auth": {}`)
}

// The first refusal is the reason, whatever the older way of starting meets.
func TestHTTPAuthIsTheReasonOfARefusedStart(t *testing.T) {
	for name, initialize := range map[string]func(http.ResponseWriter, *http.Request, json.RawMessage){
		"an error": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			sayError(w, id, -32020, "header missing")
		},
		"a status":  func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(http.StatusNotFound) },
		"it starts": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s, a := guarded(t, oauthtest.Rules{})
			store := transport.NewTokenMemory()
			openHTTP(t, authSpec(a, mcpvisor.OAuth{FetchAuthorizationCode: consentAtOnce, Store: store}))
			a.Set(oauthtest.Rules{RequiredScopes: map[string]string{"server/discover": "admin"}})
			s.handle("initialize", initialize)
			spec := authSpec(a, mcpvisor.OAuth{Store: store})
			if initialize == nil {
				requireServing(t, openHTTP(t, spec))
				return
			}
			cause := openFails(t, spec)
			require.Equal(t, supervisor.CauseAuth, cause.Kind)
			require.True(t, cause.Permanent)
			require.Contains(t, cause.Message, "the server requires more scopes")
		})
	}
}

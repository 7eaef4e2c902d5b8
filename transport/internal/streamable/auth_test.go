package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// newProtectedServer returns an httpServer that requires access tokens, and the
// authorization server that issues them. Clients connect to the URL of the latter.
func newProtectedServer(t *testing.T, rules oauthtest.Rules) (*httpServer, *oauthtest.Server) {
	t.Helper()
	s := newHTTPServer(t)
	a := oauthtest.NewServer(s.URL)
	a.Set(rules)
	t.Cleanup(a.Close)
	return s, a
}

func authSpec(a *oauthtest.Server, o oauth.Config) mcpvisor.ServerSpec {
	spec := specFor(a.URL)
	if o.Store == nil {
		o.Store = oauth.NewMemoryStore()
	}
	spec.HTTP.Auth = &o
	return spec
}

// approveAtOnce is a FetchAuthorizationCode for an authorization server that approves
// without a dialog.
func approveAtOnce(ctx context.Context, url string) (string, error) {
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

// The body of a refusal may stall: the token is obtained nevertheless.
func TestAuth_refusalBodyStalls(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{})
	spec := authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce})
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	var refused atomic.Int32
	spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := own.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusUnauthorized {
			refused.Add(1)
			_ = resp.Body.Close()
			resp.Body, _ = io.Pipe() // a Read returns only after Close
		}
		return resp, err
	})}
	requireServing(t, openSession(t, spec))
	require.EqualValues(t, 1, refused.Load())
}

func TestAuth_concurrentRefusalsRenewOnce(t *testing.T) {
	s, a := newProtectedServer(t, oauthtest.Rules{Rotate: true})
	session := openSession(t, authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce}))
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

func TestAuth_userNeededAtStart(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{})
	cause := requireOpenFails(t, authSpec(a, oauth.Config{}))
	require.Equal(t, supervisor.CauseAuth, cause.Kind)
	require.True(t, cause.Permanent)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, cause, &required)
	require.Contains(t, required.URL, a.Issuer+"/authorize?")
	require.NotContains(t, cause.Message, "state=")
	require.Contains(t, cause.Message, "authorize")
}

// Without a valid token the session ends. No call waits for the user.
func TestAuth_userNeededLater(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{})
	store := oauth.NewMemoryStore()
	first := openSession(t, authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce, Store: store}))
	requireServing(t, first)
	session := openSession(t, authSpec(a, oauth.Config{Store: store}))
	requireServing(t, session)
	a.Revoke(true, false)
	e := requireCallFails(t, session)
	require.Equal(t, mcpvisor.KindAuthRequired, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, e, &required)
	require.NotEmpty(t, required.URL)
	transporttest.RequireClosed(t, session.Dead(), "the session is alive without a token")
	require.Equal(t, supervisor.CauseAuth, session.Cause().Kind)
	require.True(t, session.Cause().Permanent)
}

func TestAuth_stepUpFailsOneCall(t *testing.T) {
	s, a := newProtectedServer(t, oauthtest.Rules{Scopes: []string{"read"}, RequiredScopes: map[string]string{"tools/call": "write"}})
	store := oauth.NewMemoryStore()
	session := openSession(t, authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce, Store: store, Scopes: []string{"read"}}))
	requireServing(t, session)
	require.Equal(t, "read write", a.Counts().LastAuthorization.Get("scope"))
	require.Len(t, s.requests("tools/call"), 1)

	a.Revoke(true, false)
	a.Set(oauthtest.Rules{RequiredScopes: map[string]string{"tools/call": "admin"}})
	authorizing := openSession(t, authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce, Store: store}))
	unattended := openSession(t, authSpec(a, oauth.Config{Store: store}))
	e := requireCallFails(t, unattended)
	require.Equal(t, mcpvisor.KindAuthRequired, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	require.Nil(t, unattended.Cause(), "requests that need no more scopes continue")
	_, err := unattended.Request(transporttest.Context(t), transport.Request{Method: "ping"})
	require.NoError(t, err)
	requireServing(t, authorizing)
}

// While a call waits for another scope, a call whose token has to be refreshed succeeds,
// and the session continues.
func TestAuth_refusalDuringStepUp(t *testing.T) {
	var slow atomic.Bool
	resume := make(chan struct{})
	_, a := newProtectedServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"tools/call": "write"}, Document: func(string, map[string]any) int {
		if slow.Load() {
			<-resume
		}
		return 0
	}})
	store := oauth.NewMemoryStore()
	openSession(t, authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce, Store: store, Scopes: []string{"read"}}))
	s := openSession(t, authSpec(a, oauth.Config{Store: store}))
	slow.Store(true)
	before := a.Counts().Refused
	stepUp, ping := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Request(context.Background(), transporttest.ToolCall); stepUp <- err }()
	require.Eventually(t, func() bool { return a.Counts().Refused > before }, transporttest.Patience, transporttest.TimeStep)
	require.Never(t, func() bool { return len(stepUp) > 0 }, 100*time.Millisecond, transporttest.TimeStep)
	a.Revoke(false, false) // the refresh token stays valid
	go func() { _, err := s.Request(context.Background(), transport.Request{Method: "ping"}); ping <- err }()
	require.Never(t, func() bool { return len(ping) > 0 }, 100*time.Millisecond, transporttest.TimeStep)
	close(resume)
	require.Error(t, <-stepUp)
	require.NoError(t, <-ping)
	require.Nil(t, s.Cause())
}

// If the authorization server rejects the client, the session ends.
func TestAuth_clientRefusedLater(t *testing.T) {
	var refuse atomic.Bool
	_, a := newProtectedServer(t, oauthtest.Rules{TokenLifetime: 1500 * time.Millisecond, Token: func(w http.ResponseWriter, _ *http.Request) bool {
		if refuse.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
		}
		return refuse.Load()
	}})
	a.AddClient("me", "secret-of-me")
	s := openSession(t, authSpec(a, oauth.Config{Grant: oauth.GrantClientCredentials, ClientID: "me", ClientSecret: "secret-of-me"}))
	requireServing(t, s)
	refuse.Store(true)
	var e *mcpvisor.Error
	require.Eventually(t, func() bool {
		_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
		return errors.As(err, &e)
	}, transporttest.Patience, transporttest.TimeStep)
	require.Equal(t, mcpvisor.KindAuthRequired, e.Kind)
	transporttest.RequireClosed(t, s.Dead(), "the session is alive without a token")
	require.Equal(t, supervisor.CauseAuth, s.Cause().Kind)
	require.True(t, s.Cause().Permanent)
}

// A token endpoint that hangs delays a call by at most OAuth.TokenWait, and the session
// continues.
func TestAuth_tokenEndpointHangs(t *testing.T) {
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
	_, a := newProtectedServer(t, oauthtest.Rules{TokenLifetime: 3 * time.Second, Token: hang})
	spec := authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce, TokenWait: 100 * time.Millisecond})
	spec.Timeouts.Shutdown = 100 * time.Millisecond
	session := openSession(t, spec)
	for deadline := time.Now().Add(transporttest.Patience); ; {
		_, err := session.Request(transporttest.Context(t), transporttest.ToolCall)
		if err == nil && time.Now().Before(deadline) {
			continue
		}
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.KindUnavailable, e.Kind, "%v", e)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		require.Contains(t, e.Error(), "the authorization server has not answered yet")
		break
	}
	require.Nil(t, session.Cause())
	close(quit)
	require.Eventually(t, func() bool {
		_, err := session.Request(transporttest.Context(t), transporttest.ToolCall)
		return err == nil
	}, transporttest.Patience, transporttest.TimeStep, "calls succeed when the token endpoint answers again")
}

// A token that the server repeats appears in no error and in no log.
func TestAuth_tokensStaySecret(t *testing.T) {
	s, a := newProtectedServer(t, oauthtest.Rules{})
	log := new(testutil.LockedBuffer)
	spec := authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce})
	d := NewDialer(spec.WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.New(log)}).(*dialer)
	session := d.NewSession().(*session)
	transporttest.ReleaseAtEnd(t, session)
	require.NoError(t, session.Open(transporttest.Context(t)))
	header := http.Header{}
	require.NoError(t, d.auth.Current().SetHeaders(header, http.MethodPost, session.server.endpoint.URL, nil))
	token := strings.TrimPrefix(header.Get("Authorization"), "Bearer ")
	require.Contains(t, token, "access-")
	s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		writeError(w, id, -32000, "your token is "+token)
	})
	e := requireCallFails(t, session)
	require.Contains(t, e.Error(), "your token is")
	require.NotContains(t, allTexts(e), token)
	s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		http.Error(w, "no: Bearer "+token, http.StatusInternalServerError)
	})
	require.NotContains(t, allTexts(requireCallFails(t, session)), token)
	require.NotContains(t, log.String(), token)
}

func TestAuth_tokenStaysAtOrigin(t *testing.T) {
	seen := make(chan string, 8)
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") }))
	defer foreign.Close()
	s, a := newProtectedServer(t, oauthtest.Rules{})
	session := openSession(t, authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce}))
	s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		http.Redirect(w, r, foreign.URL, http.StatusTemporaryRedirect)
	})
	requireCallFails(t, session)
	require.Empty(t, seen)
}

// Authorization completes the authorization of a dialer, and its next session opens.
func TestAuthorization(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{})
	d := newTestDialer(authSpec(a, oauth.Config{}))
	session := d.NewSession()
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, session.Open(transporttest.Context(t)), &required)
	transporttest.RequireClosed(t, session.Released(), "session is not released")
	redirect, err := approveAtOnce(transporttest.Context(t), required.URL)
	require.NoError(t, err)
	require.NoError(t, transport.Authorization(d).(mcpvisor.UserAuthorizer).Finish(transporttest.Context(t), redirect))
	next := d.NewSession()
	transporttest.ReleaseAtEnd(t, next)
	require.NoError(t, next.Open(transporttest.Context(t)))
	require.Nil(t, transport.Authorization(newTestDialer(specFor(a.URL))))
}

// The error of a 401 suggests HTTP.Auth if the specification has none.
func TestAuth_suggestedAfter401(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{})
	cause := requireOpenFails(t, specFor(a.URL))
	require.Equal(t, supervisor.CauseAuth, cause.Kind)
	require.Contains(t, cause.Message, `"auth": {}`)
}

// If server/discover is rejected for its token, that is the cause of a failed start,
// whatever the following initialize returns.
func TestAuth_reasonOfRefusedStart(t *testing.T) {
	for name, initialize := range map[string]func(http.ResponseWriter, *http.Request, json.RawMessage){
		"an error": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeError(w, id, -32020, "header missing")
		},
		"a status":            func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(http.StatusNotFound) },
		"initialize succeeds": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s, a := newProtectedServer(t, oauthtest.Rules{})
			store := oauth.NewMemoryStore()
			openSession(t, authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce, Store: store}))
			a.Set(oauthtest.Rules{RequiredScopes: map[string]string{"server/discover": "admin"}})
			s.handle("initialize", initialize)
			spec := authSpec(a, oauth.Config{Store: store})
			if initialize == nil {
				requireServing(t, openSession(t, spec))
				return
			}
			cause := requireOpenFails(t, spec)
			require.Equal(t, supervisor.CauseAuth, cause.Kind)
			require.True(t, cause.Permanent)
			require.Contains(t, cause.Message, "the server requires more scopes")
		})
	}
}

package streamable

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	require.Equal(t, mcpvisor.ErrAuthRequired, e.Kind)
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

// testAuth is an Auth and an Authorizer of the host, with the functions that a test sets.
type testAuth struct {
	newErr    error
	functions atomic.Pointer[authFunctions]
	attached  atomic.Int32 // sessions that are attached
	current   atomic.Int32 // calls of Current
}

// authFunctions are what a testAuth does. answered may be nil: each answer counts.
type authFunctions struct {
	credential func(context.Context) (mcpvisor.Credential, error)
	answered   func(c mcpvisor.Credential, status int) (mcpvisor.Credential, error)
}

// newTestAuth returns an Auth whose credential is always c.
func newTestAuth(c testToken) *testAuth {
	a := new(testAuth)
	a.functions.Store(&authFunctions{credential: always(c, nil)})
	return a
}

func (a *testAuth) Validate() error                { return nil }
func (a *testAuth) Equal(other mcpvisor.Auth) bool { return other == mcpvisor.Auth(a) }
func (a *testAuth) NewAuthorizer(*mcpvisor.HTTP, func(string)) (mcpvisor.Authorizer, error) {
	if a.newErr != nil {
		return nil, a.newErr
	}
	return a, nil
}
func (a *testAuth) Attach(context.Context) { a.attached.Add(1) }
func (a *testAuth) Detach(time.Duration)   { a.attached.Add(-1) }
func (a *testAuth) Credential(ctx context.Context) (mcpvisor.Credential, error) {
	return a.functions.Load().credential(ctx)
}
func (a *testAuth) Current() mcpvisor.Credential { a.current.Add(1); return testToken("at-the-end") }
func (a *testAuth) Answered(_ context.Context, c mcpvisor.Credential, status int, _ http.Header) (mcpvisor.Credential, error) {
	if answered := a.functions.Load().answered; answered != nil {
		return answered(c, status)
	}
	return nil, nil
}
func (a *testAuth) Redact(text string) string {
	return strings.ReplaceAll(text, "a-secret-token", "***")
}

// testToken is a credential whose headers name the attempt.
type testToken string

func (c testToken) SetHeaders(header http.Header, method string, target *url.URL, body []byte) error {
	switch c {
	case "broken":
		return errors.New("the key is lost")
	case "panics":
		panic("of the credential")
	}
	header.Set("Authorization", "Test "+string(c))
	header.Set("X-Signed", fmt.Sprint(method, " ", target, " ", len(body)))
	return nil
}

func always(c mcpvisor.Credential, err error) func(context.Context) (mcpvisor.Credential, error) {
	return func(context.Context) (mcpvisor.Credential, error) { return c, err }
}

// openWithAuth opens a session whose server sees the headers of an Auth.
func openWithAuth(t *testing.T, a *testAuth) (*httpServer, *session) {
	t.Helper()
	s := newHTTPServer(t)
	spec := specFor(s.URL)
	spec.HTTP.Auth = a
	return s, openSession(t, spec)
}

// Each time that a request is sent, the credential sets its headers again. The DELETE at the
// end of the session has the current one, and the authorizer is detached after it.
func TestAuthorizer_each_request(t *testing.T) {
	a := newTestAuth("t")
	s, session := openWithAuth(t, a)
	requireServing(t, session)
	call := s.requests("tools/call")[0]
	require.Equal(t, "Test t", call.header.Get("Authorization"))
	require.Regexp(t, `^POST http://127.0.0.1:\d+\S* [1-9]\d*$`, call.header.Get("X-Signed"))
	require.EqualValues(t, 1, a.attached.Load())
	session.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	transporttest.RequireClosed(t, session.Released(), "session is not released")
	require.Equal(t, "Test at-the-end", s.requests("DELETE")[0].header.Get("Authorization"))
	require.EqualValues(t, 1, a.current.Load())
	require.Zero(t, a.attached.Load())
}

// Another address after a redirect needs another signature.
func TestAuthorizer_redirect(t *testing.T) {
	s, targets := newHTTPServer(t), make(chan string, 16)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			targets <- r.URL.Path + " " + r.Header.Get("X-Signed")
		}
		if r.URL.Path != "/moved" {
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
			return
		}
		s.ServeHTTP(w, r)
	}))
	defer web.Close()
	spec := specFor(web.URL + "/mcp")
	spec.HTTP.Auth = newTestAuth("t")
	requireServing(t, openSession(t, spec))
	for range 2 {
		path, signed, _ := strings.Cut(<-targets, " ")
		require.Contains(t, signed, web.URL+path)
	}
}

// A refused request is sent again with what Answered returns, a bounded number of times.
func TestAuthorizer_refused(t *testing.T) {
	a := newTestAuth("old")
	s, session := openWithAuth(t, a)
	s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		if r.Header.Get("Authorization") != "Test new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		writeResult(w, id, `{"content":[]}`)
	})
	before := len(s.requests("tools/call"))
	again := func(next testToken) func(mcpvisor.Credential, int) (mcpvisor.Credential, error) {
		return func(_ mcpvisor.Credential, status int) (mcpvisor.Credential, error) {
			if status != http.StatusUnauthorized {
				return nil, nil
			}
			return next, nil
		}
	}
	a.functions.Store(&authFunctions{always(testToken("old"), nil), again("new")})
	_, err := session.Request(transporttest.Context(t), transporttest.ToolCall)
	require.NoError(t, err)
	require.Len(t, s.requests("tools/call"), before+2)

	before = len(s.requests("tools/call"))
	a.functions.Store(&authFunctions{always(testToken("old"), nil), again("another")})
	e := requireCallFails(t, session)
	require.Equal(t, mcpvisor.ErrAuthRequired, e.Kind)
	require.Equal(t, "check HTTP.Auth, and what its credential may do", e.Hint)
	require.Len(t, s.requests("tools/call"), before+8)
}

// What an Authorizer of the host cannot do costs one request, unless the user is needed.
func TestAuthorizer_fails(t *testing.T) {
	required := &mcpvisor.AuthRequired{Reason: "log in"}
	for name, row := range map[string]struct {
		credential func(context.Context) (mcpvisor.Credential, error)
		answered   func(mcpvisor.Credential, int) (mcpvisor.Credential, error)
		kind       mcpvisor.ErrorKind
		says, hint string
		ends       bool
	}{
		"an_error":               {credential: always(nil, errors.New("the vault is sealed; a-secret-token")), kind: mcpvisor.ErrUnavailable, says: "the vault is sealed; ***", hint: "check HTTP.Auth"},
		"unavailable":            {credential: always(nil, &mcpvisor.AuthUnavailable{RetryAfter: time.Minute, Hint: "unseal it", Err: errors.New("the vault is sealed")}), kind: mcpvisor.ErrUnavailable, says: "the vault is sealed", hint: "unseal it"},
		"user_needed":            {credential: always(nil, required), kind: mcpvisor.ErrAuthRequired, says: "log in", ends: true},
		"panic":                  {credential: func(context.Context) (mcpvisor.Credential, error) { panic("of the host") }, kind: mcpvisor.ErrUnavailable, says: "Auth panicked: of the host"},
		"credential_fails":       {credential: always(testToken("broken"), nil), kind: mcpvisor.ErrUnavailable, says: "the key is lost"},
		"credential_panics":      {credential: always(testToken("panics"), nil), kind: mcpvisor.ErrUnavailable, says: "Auth panicked: of the credential"},
		"user_needed_after_401":  {credential: always(testToken("401"), nil), answered: func(mcpvisor.Credential, int) (mcpvisor.Credential, error) { return nil, required }, kind: mcpvisor.ErrAuthRequired, says: "log in", ends: true},
		"more_scopes_after_403":  {credential: always(testToken("403"), nil), answered: func(mcpvisor.Credential, int) (mcpvisor.Credential, error) { return nil, required }, kind: mcpvisor.ErrAuthRequired, says: "log in"},
		"answered_panics":        {credential: always(testToken("401"), nil), answered: func(mcpvisor.Credential, int) (mcpvisor.Credential, error) { panic("of the host") }, kind: mcpvisor.ErrUnavailable, says: "Auth panicked: of the host"},
		"refusal_without_answer": {credential: always(testToken("401"), nil), kind: mcpvisor.ErrAuthRequired, says: "HTTP 401"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAuth("t")
			s, session := openWithAuth(t, a)
			s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				switch r.Header.Get("Authorization") {
				case "Test 401":
					w.WriteHeader(http.StatusUnauthorized)
				case "Test 403":
					w.WriteHeader(http.StatusForbidden)
				default:
					writeResult(w, id, `{"content":[]}`)
				}
			})
			a.functions.Store(&authFunctions{row.credential, row.answered})
			e := requireCallFails(t, session)
			require.Equal(t, row.kind, e.Kind, e.Error())
			require.ErrorContains(t, e, row.says)
			if row.hint != "" {
				require.Equal(t, row.hint, e.Hint)
			}
			if row.says == "the vault is sealed" {
				require.Equal(t, time.Minute, e.RetryAfter)
			}
			if row.ends {
				transporttest.RequireClosed(t, session.Dead(), "the session is alive without a credential")
				require.True(t, session.Cause().Permanent)
				return
			}
			a.functions.Store(&authFunctions{always(nil, nil), nil})
			require.Nil(t, session.Cause())
			_, err := session.Request(transporttest.Context(t), transporttest.ToolCall)
			require.NoError(t, err, "without a credential the request is sent as it is")
		})
	}
}

// An Auth without an authorizer fails each start, permanently.
func TestAuthorizer_cannot_be_made(t *testing.T) {
	spec := specFor(newHTTPServer(t).URL)
	spec.HTTP.Auth = &testAuth{newErr: fmt.Errorf("no key: %w", io.ErrUnexpectedEOF)}
	cause := requireOpenFails(t, spec)
	require.Equal(t, supervisor.CauseConfig, cause.Kind)
	require.True(t, cause.Permanent)
	require.Contains(t, cause.Message, "HTTP.Auth cannot be used: no key")
}

// proofGate is a RoundTripper that records the claims of the proofs that go to the MCP
// server. It demands a nonce of its own for each request if nonces is set.
type proofGate struct {
	base   http.RoundTripper
	path   string // of the MCP server
	nonces func(n int) string

	mu      sync.Mutex // guards the fields below
	valid   map[string]bool
	count   int
	claims  []map[string]any
	demands int
}

// newProofGate makes a gate before a server, and the spec that uses it.
func newProofGate(t *testing.T, a *oauthtest.Server) (*proofGate, mcpvisor.ServerSpec) {
	t.Helper()
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	g := &proofGate{base: own, path: "/mcp", valid: map[string]bool{}}
	spec := authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce})
	spec.HTTP.Client = &http.Client{Transport: g}
	return g, spec
}

// RoundTrip implements http.RoundTripper.
func (g *proofGate) RoundTrip(req *http.Request) (*http.Response, error) {
	proof := req.Header.Get("DPoP")
	if req.URL.Path != g.path || proof == "" {
		return g.base.RoundTrip(req)
	}
	var claims map[string]any
	text, _ := base64.RawURLEncoding.DecodeString(strings.Split(proof, ".")[1])
	_ = json.Unmarshal(text, &claims)
	g.mu.Lock()
	g.claims = append(g.claims, claims)
	nonce, _ := claims["nonce"].(string)
	refused := ""
	if g.nonces != nil && !g.valid[nonce] {
		g.count++
		g.demands++
		refused = g.nonces(g.count)
		g.valid[refused] = true
	}
	delete(g.valid, nonce) // each nonce is good for one request
	g.mu.Unlock()
	if g.nonces == nil || refused == "" {
		return g.base.RoundTrip(req)
	}
	return &http.Response{StatusCode: http.StatusUnauthorized, Request: req, Body: http.NoBody, ContentLength: 0,
		Header: http.Header{"Dpop-Nonce": {refused}, "Www-Authenticate": {`DPoP error="use_dpop_nonce"`}}}, nil
}

// Each request of a session carries a new proof for itself, with the nonce that the server
// demands: calls, the event stream, and the DELETE at the end.
func TestDPoP(t *testing.T) {
	for _, nonce := range []string{"", "a-nonce"} {
		t.Run("nonce "+nonce, func(t *testing.T) {
			s, a := newProtectedServer(t, oauthtest.Rules{DPoP: true, DPoPNonce: nonce, Rotate: true})
			gate, spec := newProofGate(t, a)
			session := openSession(t, spec)
			for range 3 {
				requireServing(t, session)
			}
			a.Revoke(false, false)
			requireServing(t, session)
			require.Equal(t, 1, a.Counts().Authorizations)
			session.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
			transporttest.RequireClosed(t, session.Released(), "session is not released")
			require.Len(t, s.requests("DELETE"), 1)
			ids, methods := map[any]bool{}, map[any]bool{}
			for _, c := range gate.claims {
				require.False(t, ids[c["jti"]], "a proof is sent once")
				ids[c["jti"]], methods[c["htm"]] = true, true
				require.Equal(t, a.URL, c["htu"])
				require.Equal(t, c["htm"] == "POST", c["content_digest"] != nil)
			}
			require.Equal(t, map[any]bool{"POST": true, "GET": true, "DELETE": true}, methods)
			for _, r := range s.requests("tools/call") {
				require.Empty(t, r.header.Get("DPoP"), "the test server behind the gate needs none")
			}
		})
	}
}

// Nonces may be good for one request each: concurrent calls use those of their own
// responses.
func TestDPoP_nonceForEachRequest(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{DPoP: true})
	gate, spec := newProofGate(t, a)
	session := openSession(t, spec)
	gate.nonces = func(n int) string { return fmt.Sprint("nonce-", n) }
	var calls sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		calls.Go(func() { _, errs[i] = session.Request(transporttest.Context(t), transporttest.ToolCall) })
	}
	calls.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, 1, a.Counts().CodeExchanges+a.Counts().Refreshes, "a nonce is no reason for another token")
}

// A server that demands a new nonce for each proof, or one that cannot be used, costs a call
// two requests at most and no token. The session continues.
func TestDPoP_nonceAgainAndAgain(t *testing.T) {
	for name, nonces := range map[string]func(int) string{
		"another each time": func(n int) string { return fmt.Sprint("nonce-", n) },
		"the same":          func(int) string { return "nonce" },
		"too long":          func(int) string { return strings.Repeat("n", 2000) },
		"none":              func(int) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			_, a := newProtectedServer(t, oauthtest.Rules{DPoP: true})
			gate, spec := newProofGate(t, a)
			session := openSession(t, spec)
			inner := gate.base
			var on atomic.Bool
			var demands atomic.Int32
			gate.base = roundTripper(func(r *http.Request) (*http.Response, error) {
				if !on.Load() || r.Header.Get("DPoP") == "" {
					return inner.RoundTrip(r)
				}
				h := http.Header{"Www-Authenticate": {`DPoP error="use_dpop_nonce"`}}
				if nonce := nonces(int(demands.Add(1))); nonce != "" {
					h["Dpop-Nonce"] = []string{nonce}
				}
				return &http.Response{StatusCode: http.StatusUnauthorized, Request: r, Header: h, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2}, nil
			})
			on.Store(true)
			e := requireCallFails(t, session)
			require.Equal(t, mcpvisor.ErrUnavailable, e.Kind, e.Error())
			require.ErrorContains(t, e, "demands another nonce")
			usable := strings.HasPrefix(name, "another") || name == "the same"
			require.EqualValues(t, map[bool]int{true: 2, false: 1}[usable], demands.Load())
			require.Zero(t, a.Counts().Refreshes)
			on.Store(false)
			requireServing(t, session)
		})
	}
}

// A proof that a server repeats in its error is not shown.
func TestDPoP_redaction(t *testing.T) {
	s, a := newProtectedServer(t, oauthtest.Rules{DPoP: true})
	_, spec := newProofGate(t, a)
	own := spec.HTTP.Client.Transport
	var sent atomic.Value // the proof of the call
	spec.HTTP.Client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if p := r.Header.Get("DPoP"); p != "" && r.URL.Path == "/mcp" {
			sent.Store(p)
		}
		return own.RoundTrip(r)
	})
	session := openSession(t, spec)
	s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		writeError(w, id, -32000, "your proof was "+sent.Load().(string))
	})
	e := requireCallFails(t, session)
	proof, _ := sent.Load().(string)
	require.NotEmpty(t, proof)
	require.ErrorContains(t, e, "your proof was ***")
	for _, part := range strings.Split(proof, ".") {
		require.NotContains(t, e.Error(), part)
	}
}

func TestAuth_userNeededAtStart(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{})
	cause := requireOpenFails(t, authSpec(a, oauth.Config{}))
	require.Equal(t, supervisor.CauseAuth, cause.Kind)
	require.True(t, cause.Permanent)
	required := testutil.AsError[*mcpvisor.AuthRequired](t, cause)
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
	require.Equal(t, mcpvisor.ErrAuthRequired, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	required := testutil.AsError[*mcpvisor.AuthRequired](t, e)
	require.NotEmpty(t, required.URL)
	transporttest.RequireClosed(t, session.Dead(), "the session is alive without a token")
	require.Equal(t, supervisor.CauseAuth, session.Cause().Kind)
	require.True(t, session.Cause().Permanent)
}

// Authorization completes the authorization of a dialer, and its next session opens.
func TestAuthorization(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{})
	d := newTestDialer(authSpec(a, oauth.Config{}))
	session := d.NewSession()
	required := testutil.AsError[*mcpvisor.AuthRequired](t, session.Open(transporttest.Context(t)))
	transporttest.RequireClosed(t, session.Released(), "session is not released")
	redirect, err := approveAtOnce(transporttest.Context(t), required.URL)
	require.NoError(t, err)
	require.NoError(t, transport.Authorization(d).(mcpvisor.UserAuthorizer).Finish(transporttest.Context(t), redirect))
	transporttest.OpenSession(t, d)
	require.Nil(t, transport.Authorization(newTestDialer(specFor(a.URL))))
}

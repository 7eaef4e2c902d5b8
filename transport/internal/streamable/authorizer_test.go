package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

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
	require.Equal(t, mcpvisor.KindAuthRequired, e.Kind)
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
		"an_error":               {credential: always(nil, errors.New("the vault is sealed; a-secret-token")), kind: mcpvisor.KindUnavailable, says: "the vault is sealed; ***", hint: "check HTTP.Auth"},
		"unavailable":            {credential: always(nil, &mcpvisor.AuthUnavailable{RetryAfter: time.Minute, Hint: "unseal it", Err: errors.New("the vault is sealed")}), kind: mcpvisor.KindUnavailable, says: "the vault is sealed", hint: "unseal it"},
		"user_needed":            {credential: always(nil, required), kind: mcpvisor.KindAuthRequired, says: "log in", ends: true},
		"panic":                  {credential: func(context.Context) (mcpvisor.Credential, error) { panic("of the host") }, kind: mcpvisor.KindUnavailable, says: "Auth panicked: of the host"},
		"credential_fails":       {credential: always(testToken("broken"), nil), kind: mcpvisor.KindUnavailable, says: "the key is lost"},
		"credential_panics":      {credential: always(testToken("panics"), nil), kind: mcpvisor.KindUnavailable, says: "Auth panicked: of the credential"},
		"user_needed_after_401":  {credential: always(testToken("401"), nil), answered: func(mcpvisor.Credential, int) (mcpvisor.Credential, error) { return nil, required }, kind: mcpvisor.KindAuthRequired, says: "log in", ends: true},
		"more_scopes_after_403":  {credential: always(testToken("403"), nil), answered: func(mcpvisor.Credential, int) (mcpvisor.Credential, error) { return nil, required }, kind: mcpvisor.KindAuthRequired, says: "log in"},
		"answered_panics":        {credential: always(testToken("401"), nil), answered: func(mcpvisor.Credential, int) (mcpvisor.Credential, error) { panic("of the host") }, kind: mcpvisor.KindUnavailable, says: "Auth panicked: of the host"},
		"refusal_without_answer": {credential: always(testToken("401"), nil), kind: mcpvisor.KindAuthRequired, says: "HTTP 401"},
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

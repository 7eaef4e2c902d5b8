package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
)

func TestPreregisteredClient(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		s := newAuthServer(t, oauthtest.Rules{AuthMethods: []string{method}})
		s.AddClient("by hand:+%", "its secret&=")
		a := newWorking(t, s, Config{FetchAuthorizationCode: approve, ClientID: "by hand:+%", ClientSecret: "its secret&="})
		require.Zero(t, s.Counts().Registrations)
		require.Equal(t, method == "client_secret_post", s.Counts().LastToken.Has("client_secret"))
		s.Revoke(false, false)
		requireOK(t, a)
		require.Equal(t, 1, s.Counts().Refreshes)
	}
}

func TestDynamicRegistration_auth_methods(t *testing.T) {
	for _, method := range []string{"none", "client_secret_basic", "client_secret_post"} {
		s := newAuthServer(t, oauthtest.Rules{AuthMethods: []string{method}})
		store := NewMemoryStore()
		newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: store})
		s.Revoke(false, false)
		requireOK(t, newAuthorizer(t, s, Config{Store: store}))
		require.Equal(t, 1, s.Counts().Refreshes, method)
	}
}

// Of the two methods to send a secret the one that the server lists first is used: some
// servers support only that one.
func TestAuthMethod_order_of_the_server(t *testing.T) {
	for _, methods := range [][]string{{"client_secret_post", "client_secret_basic"}, {"client_secret_basic", "client_secret_post"}} {
		s := newAuthServer(t, oauthtest.Rules{AuthMethods: methods, Token: func(w http.ResponseWriter, r *http.Request) bool {
			if r.PostForm.Has("client_id") == (methods[0] == "client_secret_post") {
				return false
			}
			answerWith(w, http.StatusUnauthorized, `{"error":"invalid_client"}`)
			return true
		}})
		requireOK(t, newAuthorizer(t, s, Config{FetchAuthorizationCode: approve}))
	}
}

// Some servers grant only the scopes of the registration. Others refuse a registration
// with scopes.
func TestRegisterClient_scopes(t *testing.T) {
	for _, takes := range []bool{true, false} {
		var asked []string
		registrar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct{ Scope string }
			_ = json.NewDecoder(r.Body).Decode(&m)
			if asked = append(asked, m.Scope); !takes && m.Scope != "" {
				answerWith(w, http.StatusForbidden, `{"error":"insufficient_scope"}`)
				return
			}
			answerWith(w, http.StatusCreated, `{"client_id":"me"}`)
		}))
		s := newAuthServer(t, oauthtest.Rules{Scopes: []string{"read"}, Document: func(_ string, d map[string]any) int {
			switch {
			case d["registration_endpoint"] != nil:
				d["registration_endpoint"] = registrar.URL
			case d["resource"] != nil:
				d["scopes_supported"] = []string{"read", "write"}
			}
			return 0
		}})
		a := newAuthorizer(t, s, Config{})
		require.Equal(t, []string{"read"}, requireAuthRequired(t, a, "").Scopes)
		registrar.Close()
		want := []string{"read write", ""}
		if takes {
			want = want[:1] // all scopes that it may request later
		}
		require.Equal(t, want, asked)
	}
}

func TestClientMetadataURL(t *testing.T) {
	supported := func(_ string, d map[string]any) int {
		d["client_id_metadata_document_supported"] = true
		return 0
	}
	o := Config{FetchAuthorizationCode: approve, ClientMetadataURL: "https://host.example/client.json"}
	s := newAuthServer(t, oauthtest.Rules{Document: supported})
	requireOK(t, newAuthorizer(t, s, o))
	require.Zero(t, s.Counts().Registrations)
	require.Equal(t, o.ClientMetadataURL, s.Counts().LastAuthorization.Get("client_id"))

	s = newAuthServer(t, oauthtest.Rules{}) // does not support metadata documents
	requireOK(t, newAuthorizer(t, s, o))
	require.Equal(t, 1, s.Counts().Registrations)
}

// A configured secret is sent to no other authorization server than its own.
func TestCheckIssuer(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	s.AddClient("me", "my-secret")
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, ClientID: "me", ClientSecret: "my-secret", Issuer: "https://right.example"})
	_, err := sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "belongs to https://right.example")
	require.Empty(t, s.Counts().LastToken)

	// Without Issuer the client is bound to the issuer that was used first.
	store := NewMemoryStore()
	a = newWorking(t, s, Config{FetchAuthorizationCode: approve, ClientID: "me", ClientSecret: "my-secret", Store: store})
	other := newAuthServer(t, oauthtest.Rules{})
	other.AddClient("me", "my-secret")
	s.Revoke(true, false)
	s.Set(oauthtest.Rules{Document: guardedBy(other.Issuer)})
	_, err = sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "belongs to "+s.Issuer)
	require.Empty(t, other.Counts().LastToken)
}

// A new secret for another Issuer is not sent to the issuer of the stored tokens.
func TestRefresh_secret_of_another_issuer(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{AuthMethods: []string{"client_secret_post"}})
	s.AddClient("me", "my-secret")
	o := Config{FetchAuthorizationCode: approve, ClientID: "me", ClientSecret: "my-secret", Store: NewMemoryStore()}
	requireOK(t, newAuthorizer(t, s, o))
	s.Revoke(false, false)
	o.ClientSecret, o.Issuer = "secret-of-another", "https://right.example"
	_, err := sendRequest(t.Context(), newAuthorizer(t, s, o), "")
	require.ErrorContains(t, err, "belongs to https://right.example")
	require.NotEqual(t, "secret-of-another", s.Counts().LastToken.Get("client_secret"))
}

// If the server moves to another issuer, the client registers there again.
func TestRegisterClient_at_new_issuer(t *testing.T) {
	s, other := newAuthServer(t, oauthtest.Rules{}), newAuthServer(t, oauthtest.Rules{})
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, RedirectURL: "http://127.0.0.1:9/callback"})
	before := a.tokens
	s.Revoke(true, false)
	s.Set(oauthtest.Rules{Document: guardedBy(other.Issuer)})
	_, _ = sendRequest(t.Context(), a, "") // other issues tokens for its own resource only
	require.Equal(t, 1, other.Counts().Registrations)
	require.Equal(t, 1, other.Counts().Authorizations)
	require.NotEqual(t, before.ClientID, other.Counts().LastAuthorization.Get("client_id"))
}

func TestRegisterClient_not_supported(t *testing.T) {
	_, a := newApproved(t, oauthtest.Rules{Document: func(_ string, d map[string]any) int {
		delete(d, "registration_endpoint")
		return 0
	}})
	_, err := sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "set ClientID")
}

func TestErrors_hold_no_secrets(t *testing.T) {
	var token string
	s, a := newApproved(t, oauthtest.Rules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") != "refresh_token" {
			return false
		}
		token = r.PostForm.Get("refresh_token")
		answerWith(w, http.StatusServiceUnavailable, "")
		return true
	}})
	requireOK(t, a)
	access := a.accessToken()
	s.Revoke(false, false)
	_, err := sendRequest(t.Context(), a, "")
	require.Error(t, err)
	for _, secret := range []string{token, access, s.Counts().LastAuthorization.Get("state"), s.Counts().LastToken.Get("code_verifier")} {
		if secret == "" {
			continue
		}
		require.NotContains(t, err.Error(), secret)
		require.Equal(t, "sent ***!", a.Redact("sent "+secret+"!"))
	}

	parrot := newAuthServer(t, oauthtest.Rules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		answerWith(w, http.StatusBadRequest, `{"error":"invalid_grant","error_description":"`+r.PostForm.Get("code")+" "+r.PostForm.Get("code_verifier")+`"}`)
		return true
	}})
	a = newAuthorizer(t, parrot, Config{FetchAuthorizationCode: approve})
	_, err = sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "invalid_grant")
	require.NotContains(t, err.Error(), "code-")
	require.NotContains(t, err.Error(), parrot.Counts().LastToken.Get("code_verifier"))
}

func TestReusableRegistration(t *testing.T) {
	known := &authorization{Issuer: "https://a.example", ClientID: "me", RedirectURL: "http://127.0.0.1:1/callback"}
	require.NotNil(t, reusableRegistration(known, known.Issuer, known.RedirectURL))
	require.NotNil(t, reusableRegistration(known, known.Issuer, ""))
	require.Nil(t, reusableRegistration(nil, known.Issuer, ""))
	require.Nil(t, reusableRegistration(known, "https://b.example", known.RedirectURL))
	require.Nil(t, reusableRegistration(known, known.Issuer, "http://127.0.0.1:2/callback"))
	known.ClientSecretExpires = time.Now().Add(time.Hour)
	require.NotNil(t, reusableRegistration(known, known.Issuer, known.RedirectURL))
	known.ClientSecretExpires = time.Now().Add(-time.Second)
	require.Nil(t, reusableRegistration(known, known.Issuer, known.RedirectURL))
}

// registered returns what a client makes of the answer to its registration.
func registered(t *testing.T, status int, body string) (*authorizer, *clientIdentity, error) {
	t.Helper()
	registrar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWith(w, status, body) }))
	defer registrar.Close()
	s := newAuthServer(t, oauthtest.Rules{})
	a := newDetached(t, s, Config{})
	got, err := a.postRegistration(t.Context(), &oauthex.AuthServerMeta{Issuer: s.Issuer, RegistrationEndpoint: registrar.URL},
		&oauthex.ClientRegistrationMetadata{RedirectURIs: []string{"http://127.0.0.1:1/callback"}})
	return a, got, err
}

// A secret that expires in the far future can be stored.
func TestPostRegistration_secretExpires(t *testing.T) {
	for text, want := range map[string]string{"0": "0001-01-01T00:00:00Z", "-1": "0001-01-01T00:00:00Z", "4102444800": "2100-01-01T00:00:00Z",
		"1099511627776": "9999-12-31T23:59:59Z", "1e300": "9999-12-31T23:59:59Z"} {
		_, got, err := registered(t, http.StatusCreated, `{"client_id": "me", "client_secret": "secret-of-me", "client_secret_expires_at": `+text+`}`)
		require.NoError(t, err)
		stored, err := json.Marshal(got.secretExpires)
		require.NoError(t, err, text)
		require.Equal(t, `"`+want+`"`, string(stored))
	}
}

func TestPostRegistration_answers(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, says string
	}{
		{http.StatusCreated, `{"client_id": "me", "client_secret": "secret-of-me", "client_secret_expires_at": 4102444800}`, ""},
		{http.StatusForbidden, `{"client_id": "me", "client_secret": "secret-of-me"}`, "HTTP 403"},
		{http.StatusCreated, `{"client_secret": "secret-of-me"}`, "has no client_id"},
		{http.StatusCreated, `<html>`, "invalid character"},
		{http.StatusOK, `{"client_id": "me", "error": "invalid_redirect_uri", "error_description": "not secret-of-me"}`, "invalid_redirect_uri"},
	} {
		a, got, err := registered(t, c.status, c.body)
		if c.says != "" {
			require.ErrorContains(t, err, c.says)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, clientIdentity{id: "me", secret: "secret-of-me", secretExpires: time.Unix(4102444800, 0).UTC(), authMethod: authSecretBasic,
			redirectURI: "http://127.0.0.1:1/callback", dynamic: true}, *got)
		require.Equal(t, "***", a.Redact("secret-of-me"))
	}
}

// The pending requests of a client that the server rejected are dropped.
func TestDropRejected_pending_requests(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s)})
	n, err := a.newAuthRequest(t.Context(), metadata.Challenge{}, nil, false)
	require.NoError(t, err)
	a.mu.Lock()
	tokens := a.tokens
	a.mu.Unlock()
	require.True(t, a.dropRejected(t.Context(), tokens, triggerRejected, &errorResponse{code: "invalid_client"}))
	next, err := a.newAuthRequest(t.Context(), metadata.Challenge{}, nil, false)
	require.NoError(t, err)
	require.NotEqual(t, n.client.id, next.client.id)
	require.ErrorIs(t, a.Finish(t.Context(), redirectOf(n)), errNotPending)
}

// A function of the host that ignores its context does not delay Detach.
func TestDetach_host_function_hangs(t *testing.T) {
	for name, hang := range map[string]func(o *Config, hang func()){
		"FetchAuthorizationCode": func(o *Config, hang func()) {
			o.FetchAuthorizationCode = func(context.Context, string) (string, error) { hang(); return "", errors.New("late") }
		},
		"Store": func(o *Config, hang func()) { o.Store = hungStore{NewMemoryStore(), hang} },
		"FetchAssertion": func(o *Config, hang func()) {
			o.Grant = GrantJWTBearer
			o.FetchAssertion = func(context.Context, AssertionRequest) (string, error) {
				hang()
				return "", errors.New("late")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{})
			free, hangs := make(chan struct{}), make(chan struct{}, 8)
			defer close(free)
			var o Config
			hang(&o, func() { hangs <- struct{}{}; <-free })
			a := newDetached(t, s, o)
			attaching, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			a.Attach(attaching)
			failed := make(chan error, 1)
			go func() { _, err := sendRequest(context.Background(), a, ""); failed <- err }()
			<-hangs
			done := make(chan struct{})
			go func() { a.Detach(50 * time.Millisecond); close(done) }()
			select {
			case <-done:
			case <-time.After(2 * testTimeout):
				require.FailNow(t, "Detach does not return")
			}
			require.Error(t, <-failed)
		})
	}
}

type hungStore struct {
	TokenStore
	hang func()
}

func (h hungStore) Load(context.Context, TokenKey) ([]byte, error) {
	h.hang()
	return nil, errors.New("late")
}

// A panic of a function of the host's is the error of that function.
func TestHostFunction_panics(t *testing.T) {
	s, a := newServed(t, oauthtest.Rules{}, Config{Store: panickyStore{}})
	redirect := consent(t, requireAuthRequired(t, a, "").URL)
	require.ErrorContains(t, a.Finish(t.Context(), redirect), "Store panicked: of the host")
	requireOK(t, a) // the token is in memory
	require.ErrorContains(t, a.Forget(t.Context()), "Store panicked: of the host")

	a = newAuthorizer(t, s, Config{FetchAuthorizationCode: func(context.Context, string) (string, error) { panic("of the host") }})
	require.ErrorContains(t, requireAuthRequired(t, a, ""), "FetchAuthorizationCode panicked: of the host")
	a = newAuthorizer(t, s, Config{Grant: GrantJWTBearer,
		FetchAssertion: func(context.Context, AssertionRequest) (string, error) { panic("of the host") }})
	_, err := sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "FetchAssertion panicked: of the host")
}

type panickyStore struct{}

func (panickyStore) Load(context.Context, TokenKey) ([]byte, error) {
	panic("of the host")
}

func (panickyStore) Save(context.Context, TokenKey, []byte) error {
	panic("of the host")
}
func (panickyStore) Delete(context.Context, TokenKey) error { panic("of the host") }
func (panickyStore) Lock(context.Context, TokenKey) (func(), error) {
	return func() { panic("of the host") }, nil
}

// hostTripper is a RoundTripper that the host supplies.
type hostTripper func(*http.Request) (*http.Response, error)

func (f hostTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A panic in the host's HTTP client fails the request and does not end the process.
func TestHostClient_panics(t *testing.T) {
	own := &http.Transport{DisableKeepAlives: true}
	for name, transport := range map[string]func(now func() bool) http.RoundTripper{
		"round_trip": func(now func() bool) http.RoundTripper {
			return hostTripper(func(r *http.Request) (*http.Response, error) {
				if now() {
					panic("of the host")
				}
				return own.RoundTrip(r)
			})
		},
		"body": func(now func() bool) http.RoundTripper {
			return hostTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := own.RoundTrip(r)
				if err == nil && now() {
					_ = resp.Body.Close()
					resp.Body = panickyBody{}
				}
				return resp, err
			})
		},
		"proxy": func(now func() bool) http.RoundTripper {
			return &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
				if now() {
					panic("of the host")
				}
				return nil, nil
			}}
		},
		"dial": func(now func() bool) http.RoundTripper {
			return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if now() {
					panic("of the host")
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{})
			var now atomic.Bool
			a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: s.URL, Client: &http.Client{Transport: transport(now.Load)},
				Auth: &Config{Store: NewMemoryStore()}}, func(text string) { t.Log("warning:", text) })
			require.NoError(t, err)
			a.Attach(t.Context())
			defer a.Detach(time.Second)
			required := requireAuthRequired(t, a, "")
			redirect := consent(t, required.URL)
			now.Store(true)
			require.ErrorContains(t, a.Finish(t.Context(), redirect), "panicked") // exchanges the code in a goroutine
			require.ErrorContains(t, a.Authorize(t.Context(), openBrowser), "panicked")
			now.Store(false)
			require.NoError(t, a.Authorize(t.Context(), openBrowser))
			requireOK(t, a)
		})
	}
}

type panickyBody struct{}

func (panickyBody) Read([]byte) (int, error) { panic("of the host") }
func (panickyBody) Close() error             { panic("of the host") }

func TestAuthorize_open_fails(t *testing.T) {
	_, a := newServed(t, oauthtest.Rules{}, Config{})
	require.ErrorContains(t, a.Authorize(t.Context(), func(string) error { panic("of the host") }), "panicked")
	require.ErrorContains(t, a.Authorize(t.Context(), func(string) error { runtime.Goexit(); return nil }), "ended its goroutine")
	require.ErrorContains(t, a.Authorize(t.Context(), nil), "panicked")
	require.ErrorContains(t, a.Authorize(t.Context(), func(string) error { return (*url.Error)(nil) }), "panicked")
}

package oauth

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

func TestDiscovery(t *testing.T) {
	hide := func(paths ...string) func(string, map[string]any) int {
		return func(path string, _ map[string]any) int {
			for _, p := range paths {
				if strings.Contains(path, p) {
					return http.StatusNotFound
				}
			}
			return 0
		}
	}
	for name, c := range map[string]struct {
		document func(path string, d map[string]any) int
		says     string // empty: it succeeds
	}{
		"as it should be": {nil, ""},
		"other_resource": {func(path string, d map[string]any) int {
			d["resource"] = "https://evil.example/mcp"
			return 0
		}, "which is not this server"},
		"no authorization server": {func(_ string, d map[string]any) int { delete(d, "authorization_servers"); return 0 }, "names no authorization server"},
		"other_issuer": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["issuer"] = "https://evil.example"
			}
			return 0
		}, "says that its issuer is"},
		"issuer of another tenant": {func(path string, d map[string]any) int {
			if text, ok := d["issuer"].(string); ok {
				d["issuer"] = text + "/tenant"
			}
			return 0
		}, "says that its issuer is"},
		"token endpoint elsewhere without TLS": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["token_endpoint"] = "http://elsewhere.example/token"
			}
			return 0
		}, "is not https"},
		"authorization endpoint elsewhere without TLS": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["authorization_endpoint"] = "http://elsewhere.example/authorize"
			}
			return 0
		}, "the authorization endpoint of"},
		"authorization endpoint that is a script": {func(path string, d map[string]any) int {
			if d["issuer"] != nil {
				d["authorization_endpoint"] = "javascript:alert(1)"
			}
			return 0
		}, "the authorization endpoint of"},
		"no authorization endpoint": {func(_ string, d map[string]any) int { delete(d, "authorization_endpoint"); return 0 }, "names no endpoints"},
		"no token endpoint":         {func(_ string, d map[string]any) int { delete(d, "token_endpoint"); return 0 }, "names no endpoints"},
		"server down":               {func(path string, _ map[string]any) int { return http.StatusBadGateway }, "502"},
		"issuer without metadata":   {hide("oauth-authorization-server", "openid"), "publishes no metadata"},
		"no metadata at all (2025)": {hide("well-known"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := newApproved(t, oauthtest.Rules{Document: c.document})
			_, err := sendRequest(t.Context(), a, "")
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.Zero(t, s.Counts().Authorizations)
		})
	}
}

func TestDiscovery_temporary_error(t *testing.T) {
	_, a := newServed(t, oauthtest.Rules{Document: func(string, map[string]any) int { return http.StatusBadGateway }}, Config{})
	requireUnavailable(t, a)
}

func TestTokenRequest_redirected(t *testing.T) {
	asked := make(chan struct{}, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer elsewhere.Close()
	_, a := newApproved(t, oauthtest.Rules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		return true
	}})
	_, err := sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "redirect")
	require.Empty(t, asked)
}

// Of several authorization servers the one of Config.Issuer is used.
func TestDiscovery_configured_issuer(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	s.Set(oauthtest.Rules{Document: guardedBy("https://another.example", s.Issuer)})
	s.AddClient("me", "my-secret")
	requireOK(t, newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, ClientID: "me", ClientSecret: "my-secret", Issuer: s.Issuer}))
}

// isRenewing reports whether a renewal runs.
func isRenewing(a *authorizer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewal != nil
}

// A renewal belongs to all sessions: it ends with the last of them.
func TestDetach_one_of_two_sessions(t *testing.T) {
	a, done := hangingSession(t)
	a.Attach(t.Context())
	a.Detach(0)
	require.True(t, isRenewing(a), "the other session needs it")
	a.Detach(0)
	require.False(t, isRenewing(a), "no session needs it")
	require.Error(t, <-done)
}

// The next session renews the same token ahead of its expiry, too.
func TestAttach_after_Detach(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newDetached(t, s, Config{FetchAuthorizationCode: approve})
	a.Attach(t.Context())
	requireOK(t, a)
	first := a.accessToken()
	a.Detach(0)
	setExpiry(t, a, 4*time.Minute, time.Hour) // the renewal ahead is due, and no session is there for it
	require.Equal(t, first, a.accessToken())
	a.Attach(t.Context())
	defer a.Detach(0)
	require.Eventually(t, func() bool { return a.accessToken() != first }, testTimeout, 5*time.Millisecond, "without a call")
}

// Detach waits for the answer that holds a rotated refresh token.
func TestDetach_waits_for_rotation(t *testing.T) {
	rule, asked, free := hangGrant(t, "refresh_token")
	s, store := newServerWithTokens(t, oauthtest.Rules{Rotate: true})
	s.Set(oauthtest.Rules{Rotate: true, Token: rule})
	s.Revoke(false, false)
	a := newDetached(t, s, Config{Store: store})
	a.Attach(t.Context())
	go func() { _, _ = sendRequest(context.Background(), a, "") }()
	<-asked
	detached := make(chan struct{})
	go func() { a.Detach(testTimeout); close(detached) }()
	select {
	case <-detached:
		require.FailNow(t, "Detach did not wait for the renewal")
	case <-time.After(50 * time.Millisecond):
	}
	free()
	<-detached
	requireOK(t, newAuthorizer(t, s, Config{Store: store}))
	require.Equal(t, 1, s.Counts().Refreshes)
}

// privatePeer is a connection that reports a private remote address.
type privatePeer struct{ net.Conn }

func (privatePeer) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 443} }

// newPrivateNetwork returns a RoundTripper that connects every name to one server, whose
// address is private. While down is true, connections to mcp.corp are refused.
func newPrivateNetwork(t *testing.T, handler http.HandlerFunc) (rt http.RoundTripper, down *atomic.Bool) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	down = new(atomic.Bool)
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down.Load() && strings.HasPrefix(addr, "mcp.corp:") {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			c, err := new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return privatePeer{c}, nil
		}}, down
}

// The server and its authorization server are in one private network. While the server
// is down, a token expires, and it is no longer known in which network the server is.
func TestToken_expires_while_server_in_private_network_is_down(t *testing.T) {
	rt, down := newPrivateNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/mcp":
			answerWith(w, http.StatusOK, `{"resource":"https://mcp.corp/mcp","authorization_servers":["https://as.corp"]}`)
		case "/.well-known/oauth-authorization-server":
			answerWith(w, http.StatusOK, `{"issuer":"https://as.corp","token_endpoint":"https://as.corp/token"}`)
		case "/token":
			answerWith(w, http.StatusOK, `{"access_token":"t1","token_type":"Bearer","expires_in":3600}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	spec := &mcpvisor.HTTP{URL: "https://mcp.corp/mcp", Client: &http.Client{Transport: rt},
		Auth: &Config{Grant: GrantClientCredentials, ClientID: "me", ClientSecret: "a secret of some length"}}
	a, err := newTestAuthorizer(spec, func(text string) { t.Log("warning:", text) })
	require.NoError(t, err)
	a.Attach(t.Context())
	t.Cleanup(func() { a.Detach(0) })
	require.NoError(t, a.renewRefused(t.Context(), "", false, http.StatusUnauthorized, http.Header{}))
	require.Equal(t, "t1", a.accessToken())

	down.Store(true)
	a.http = safehttp.New(a.http.Server(), spec) // it remembers no address
	setExpiry(t, a, -time.Minute, time.Hour)
	_, err = a.token(t.Context())
	var required *mcpvisor.AuthRequired
	require.False(t, errors.As(err, &required), "the user cannot help: %v", err)
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)

	down.Store(false)
	endPause(a)
	_, err = a.token(t.Context())
	require.NoError(t, err)
}

// Current values are masked however many others were added. Replaced ones are masked
// for a while.
func TestRedactor_current_values(t *testing.T) {
	var s redactor
	s.addPermanent("of-the-spec")
	s.setCurrent("access-1", "refresh-1")
	many := func() {
		for i := range 2 * maxRecentSecrets {
			s.add(fmt.Sprintf("state-%04d", i))
		}
	}
	many()
	s.setCurrent("access-2", "refresh-2")
	require.Equal(t, "*** *** *** *** ***", s.redact("of-the-spec access-1 refresh-1 access-2 refresh-2"))
	many()
	require.Equal(t, "*** *** *** access-1", s.redact("of-the-spec access-2 refresh-2 access-1"))

	s.add("used-again")
	for i := range maxRecentSecrets - 1 {
		s.add(fmt.Sprintf("other-%04d", i))
	}
	s.add("used-again", "and-one-more")
	require.Equal(t, "***", s.redact("used-again"), "the value added last is dropped last")
	require.LessOrEqual(t, len(s.recent), maxRecentSecrets)
}

func TestRedact_current_token(t *testing.T) {
	_, a := newApproved(t, oauthtest.Rules{})
	requireOK(t, a)
	for i := range 2 * maxRecentSecrets {
		a.redactor.add(fmt.Sprintf("state-%04d", i))
	}
	require.Equal(t, "you sent ***", a.Redact("you sent "+a.accessToken()))
	require.Equal(t, "you sent ***", a.Redact("you sent "+a.tokens.RefreshToken))
}

func TestRedact_secrets_of_the_spec(t *testing.T) {
	for _, o := range []Config{{ClientID: "me", ClientSecret: "the-secret"}, {ClientID: "me", PrivateKey: "the-secret"}} {
		o.Store = NewMemoryStore()
		a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: "https://mcp.example/mcp", Auth: &o, Headers: map[string]string{"X-Key": "the-header"}}, func(string) {})
		require.NoError(t, err)
		require.Equal(t, "*** and ***", a.Redact("the-secret and the-header"))
	}
}

func TestRedactor_encoded_forms(t *testing.T) {
	const secret = `p+ss/w rd"&\é`
	var s redactor
	s.addPermanent(secret)
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1]),
		strings.ReplaceAll(string(quoted[1:len(quoted)-1]), "/", `\/`)} {
		require.Equal(t, "it is ***.", s.redact("it is "+form+"."))
	}
	s.addPermanent("p+ss/w") // a prefix of the other secret
	require.Equal(t, "***", s.redact(secret), "no rest of the longer secret is left")
}

func TestRedact_basic_credentials(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{AuthMethods: []string{"client_secret_basic"}})
	s.AddClient("me", "my-secret")
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, ClientID: "me", ClientSecret: "my-secret"})
	require.Equal(t, "Basic ***", a.Redact("Basic "+base64.StdEncoding.EncodeToString([]byte("me:my-secret"))))
}

// equalStore is a TokenStore. Pointers to it are compared by address.
type equalStore struct {
	TokenStore
	_ int // no two of them share an address
}

type comparableStore struct {
	TokenStore
	dir string
}

// uncomparableStore has a type that == panics for.
type uncomparableStore struct {
	TokenStore
	_ []int
}

// changed calls check with a Config in which one field differs from full, for each field.
// It fails for a field that it does not know, so that a new one is not left out.
func changed(t *testing.T, full Config, check func(name string, c *Config, isFunc bool)) {
	t.Helper()
	change := func(f reflect.Value) {
		switch v := f.Addr().Interface().(type) {
		case *string:
			*v += "x"
		case *Grant:
			*v += "x"
		case *time.Duration:
			*v++
		case *bool:
			*v = !*v
		case *[]string:
			*v = append(slices.Clone(*v), "x")
		case *TokenStore:
			*v = &equalStore{}
		case *AssertionFunc:
			*v = func(context.Context, AssertionRequest) (string, error) { return "", nil }
		case *func(context.Context) (string, error):
			*v = func(context.Context) (string, error) { return "", nil }
		case *func(context.Context, string) (string, error):
			*v = func(context.Context, string) (string, error) { return "", nil }
		default:
			t.Fatalf("say in this test how a %v is changed, and in Equal how it is compared", f.Type())
		}
	}
	for i := range reflect.TypeFor[Config]().NumField() {
		c, e := full, *full.Enterprise
		c.Enterprise = &e
		if f := reflect.ValueOf(&c).Elem().Field(i); f.Type() != reflect.TypeFor[*Enterprise]() {
			change(f)
			check(reflect.TypeFor[Config]().Field(i).Name, &c, f.Kind() == reflect.Func)
		}
	}
	for i := range reflect.TypeFor[Enterprise]().NumField() {
		c, e := full, *full.Enterprise
		c.Enterprise = &e
		f := reflect.ValueOf(&e).Elem().Field(i)
		change(f)
		check("Enterprise."+reflect.TypeFor[Enterprise]().Field(i).Name, &c, f.Kind() == reflect.Func)
	}
}

func TestConfig_Equal_considers_every_field(t *testing.T) {
	full, functions := Config{Scopes: []string{"a"}, Store: comparableStore{dir: "a"}, Enterprise: &Enterprise{ClientID: "us"}}, 0
	changed(t, full, func(name string, c *Config, isFunc bool) {
		require.False(t, full.Equal(c), name)
		require.False(t, c.Equal(&full), name)
		same, other := c, *c
		require.True(t, c.Equal(same), name)
		if c.Enterprise != nil {
			e := *c.Enterprise
			other.Enterprise = &e
		}
		require.Equal(t, !isFunc, c.Equal(&other), "%s: functions cannot be compared", name)
		if isFunc {
			functions++
		}
	})
	require.Equal(t, 3, functions)
}

func TestConfig_Equal(t *testing.T) {
	for name, test := range map[string]struct {
		a, b  mcpvisor.Auth
		equal bool
	}{
		"zero":                     {a: &Config{}, b: &Config{}, equal: true},
		"nil_and_empty":            {a: &Config{}, b: &Config{Scopes: []string{}}, equal: true},
		"order_of_scopes":          {a: &Config{Scopes: []string{"a", "b"}}, b: &Config{Scopes: []string{"b", "a"}}},
		"nil":                      {a: &Config{}, b: (*Config)(nil)},
		"store_and_none":           {a: &Config{Store: &equalStore{}}, b: &Config{}},
		"stores_that_are_no_equal": {a: &Config{Store: uncomparableStore{}}, b: &Config{Store: uncomparableStore{}}},
		"stores_of_two_types":      {a: &Config{Store: &equalStore{}}, b: &Config{Store: comparableStore{}}},
		"memory_stores":            {a: &Config{Store: NewMemoryStore()}, b: &Config{Store: NewMemoryStore()}},
		"equal_stores":             {a: &Config{Store: comparableStore{dir: "a"}}, b: &Config{Store: comparableStore{dir: "a"}}, equal: true},
		"another_directory":        {a: &Config{Store: comparableStore{dir: "a"}}, b: &Config{Store: comparableStore{dir: "b"}}},
	} {
		require.Equal(t, test.equal, test.a.Equal(test.b), name)
		require.Equal(t, test.equal, test.b.Equal(test.a), name)
	}
	require.False(t, (&Config{}).Equal(nil))
}

func TestConfig_Validate(t *testing.T) {
	idToken := func(context.Context) (string, error) { return "", nil }
	assertion := func(context.Context, AssertionRequest) (string, error) { return "", nil }
	whole := Enterprise{TokenEndpoint: "https://idp.example/token", ClientID: "us", FetchIDToken: idToken}
	without := func(change func(*Enterprise)) *Enterprise {
		e := whole
		change(&e)
		return &e
	}
	for says, list := range map[string][]Config{
		"":                 {{}, {Grant: GrantAuthorizationCode, RedirectURL: "app://done"}, {Resource: "api://us"}, {OmitResource: true}, {Grant: GrantClientCredentials, ClientID: "me", PrivateKey: "k"}, {Grant: GrantJWTBearer, FetchAssertion: assertion}, {Grant: GrantJWTBearer, AssertionFile: "token"}, {Grant: GrantJWTBearer, ClientID: "me", Enterprise: &whole}, {Grant: GrantJWTBearer, ClientID: "me", Enterprise: without(func(e *Enterprise) { e.FetchIDToken, e.IDTokenFile = nil, "id" })}, {ClientMetadataURL: "https://h.example/c.json"}},
		"needs ClientID":   {{Grant: GrantClientCredentials, ClientSecret: "s"}, {Grant: GrantClientCredentials, ClientID: "me"}},
		"is unknown":       {{Grant: "password"}},
		"no ClientID":      {{ClientSecret: "s"}, {PrivateKey: "k"}},
		"keep one of them": {{ClientID: "me", ClientSecret: "s", PrivateKey: "k"}},
		"https URL with a path": {{ClientMetadataURL: "http://h.example/c.json"}, {ClientMetadataURL: "https://h.example/"},
			{ClientMetadataURL: "https://h.example"}},
		"an absolute URL":       {{RedirectURL: "/callback"}, {RedirectURL: "http://127.0.0.1/#x"}},
		"is not usable":         {{Scopes: []string{""}}, {Scopes: []string{"a b"}}, {Scopes: []string{`a"`}}},
		"without a fragment;":   {{Resource: "us"}, {Resource: "https://h.example/#x"}, {Resource: "https://h.example/#"}},
		"set and left out":      {{Resource: "https://h.example/", OmitResource: true}},
		"TokenWait is negative": {{TokenWait: -1}},
		"are for grant":         {{FetchAssertion: assertion}, {AssertionFile: "token"}, {Grant: GrantAuthorizationCode, Enterprise: &whole}, {Grant: GrantClientCredentials, ClientID: "me", ClientSecret: "s", FetchAssertion: assertion}},
		"needs one of": {{Grant: GrantJWTBearer}, {Grant: GrantJWTBearer, ClientID: "me", FetchAssertion: assertion, Enterprise: &whole},
			{Grant: GrantJWTBearer, FetchAssertion: assertion, AssertionFile: "token"}, {Grant: GrantJWTBearer, ClientID: "me", AssertionFile: "token", Enterprise: &whole}},
		"Enterprise needs": {{Grant: GrantJWTBearer, Enterprise: &whole},
			{Grant: GrantJWTBearer, ClientID: "me", Enterprise: without(func(e *Enterprise) { e.FetchIDToken = nil })},
			{Grant: GrantJWTBearer, ClientID: "me", Enterprise: without(func(e *Enterprise) { e.IDTokenFile = "id" })},
			{Grant: GrantJWTBearer, ClientID: "me", Enterprise: without(func(e *Enterprise) { e.TokenEndpoint = "" })},
			{Grant: GrantJWTBearer, ClientID: "me", Enterprise: without(func(e *Enterprise) { e.ClientID = "" })}},
	} {
		for _, o := range list {
			err := mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: "https://mcp.example/mcp", Auth: &o}}.Validate()
			if says == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, says)
		}
	}
	require.ErrorContains(t, (*Config)(nil).Validate(), "leave HTTP.Auth nil")
}

// The addresses that a Config names are trusted, wherever they are.
func TestConfig_trusted_addresses(t *testing.T) {
	for name, o := range map[string]*Config{"issuer": {Issuer: "https://10.0.0.6"}, "identity_provider": {Enterprise: &Enterprise{TokenEndpoint: "https://10.0.0.6/token"}}} {
		a, err := o.newAuthorizer(&mcpvisor.HTTP{URL: "https://93.184.216.34/mcp"}, func(string) {})
		require.NoError(t, err)
		require.NoError(t, a.http.CheckURL(t.Context(), "token endpoint", "https://10.0.0.6/token"), name)
		require.ErrorContains(t, a.http.CheckURL(t.Context(), "token endpoint", "https://127.0.0.1/token"), "a loopback address", name)
	}
}

func TestRefusal(t *testing.T) {
	oversize := "Bearer " + strings.Repeat(`a=b,`, 1<<18)
	h := http.Header{"Www-Authenticate": {oversize, `Bearer resource_metadata="https://x/y", scope="a"`}}
	require.False(t, isInsufficientScope(http.StatusForbidden, h))
	h.Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="w"`)
	require.True(t, isInsufficientScope(http.StatusForbidden, h))
	require.False(t, isInsufficientScope(http.StatusUnauthorized, h))
}

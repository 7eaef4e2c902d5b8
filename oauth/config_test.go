package oauth

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// No verb of fmt prints the secrets.
func TestAuthorization_prints_no_secrets(t *testing.T) {
	a := &Authorization{Issuer: "https://auth.example", Resource: "https://mcp.example", ClientID: "canary-id",
		ClientSecret: "canary-secret", AccessToken: "canary-access", RefreshToken: "canary-refresh"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{a, *a} {
			text := fmt.Sprintf(verb, v)
			require.NotContains(t, text, "canary", verb)
			require.Contains(t, text, "https://auth.example", verb)
		}
	}
}

// Changes of the original's slices do not change the clone.
func TestAuthorization_Clone(t *testing.T) {
	a := &Authorization{Scopes: []string{"a"}, RequestedScopes: []string{"a"}, StepUpScopes: []string{"a"}}
	clone := a.Clone()
	a.Scopes[0], a.RequestedScopes[0], a.StepUpScopes[0] = "b", "b", "b"
	require.Equal(t, &Authorization{Scopes: []string{"a"}, RequestedScopes: []string{"a"}, StepUpScopes: []string{"a"}}, clone)
	require.Nil(t, (*Authorization)(nil).Clone())
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
		"":                 {{}, {Grant: GrantAuthorizationCode, RedirectURL: "app://done"}, {Grant: GrantClientCredentials, ClientID: "me", PrivateKey: "k"}, {Grant: GrantJWTBearer, FetchAssertion: assertion}, {Grant: GrantJWTBearer, AssertionFile: "token"}, {Grant: GrantJWTBearer, ClientID: "me", Enterprise: &whole}, {Grant: GrantJWTBearer, ClientID: "me", Enterprise: without(func(e *Enterprise) { e.FetchIDToken, e.IDTokenFile = nil, "id" })}, {ClientMetadataURL: "https://h.example/c.json"}},
		"needs ClientID":   {{Grant: GrantClientCredentials, ClientSecret: "s"}, {Grant: GrantClientCredentials, ClientID: "me"}},
		"is unknown":       {{Grant: "password"}},
		"no ClientID":      {{ClientSecret: "s"}, {PrivateKey: "k"}},
		"keep one of them": {{ClientID: "me", ClientSecret: "s", PrivateKey: "k"}},
		"https URL with a path": {{ClientMetadataURL: "http://h.example/c.json"}, {ClientMetadataURL: "https://h.example/"},
			{ClientMetadataURL: "https://h.example"}},
		"an absolute URL":       {{RedirectURL: "/callback"}, {RedirectURL: "http://127.0.0.1/#x"}},
		"is not usable":         {{Scopes: []string{""}}, {Scopes: []string{"a b"}}, {Scopes: []string{`a"`}}},
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

package mcpvisor

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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

// Changes of the original's slices and maps do not change the clone. What can contain
// functions is shared, so that a clone is equal to its original.
func TestClone_shares_no_slice(t *testing.T) {
	o := &OAuth{FetchAssertion: func(context.Context, AssertionRequest) (string, error) { return "", nil }}
	web := ServerSpec{HTTP: &HTTP{Headers: map[string]string{"X": "1"}, Auth: o}}
	local := ServerSpec{Stdio: &Stdio{Args: []string{"a"}, Env: map[string]string{"X": "1"}}}
	a := &Authorization{Scopes: []string{"a"}, RequestedScopes: []string{"a"}, StepUpScopes: []string{"a"}}
	webClone, localClone, aClone := web.Clone(), local.Clone(), a.Clone()
	require.True(t, web.Equal(webClone))
	web.HTTP.Headers["X"] = "2"
	local.Stdio.Args[0], local.Stdio.Env["X"] = "b", "2"
	a.Scopes[0], a.RequestedScopes[0], a.StepUpScopes[0] = "b", "b", "b"
	require.Equal(t, map[string]string{"X": "1"}, webClone.HTTP.Headers)
	require.Same(t, o, webClone.HTTP.Auth)
	require.Equal(t, &Stdio{Args: []string{"a"}, Env: map[string]string{"X": "1"}}, localClone.Stdio)
	require.Equal(t, &Authorization{Scopes: []string{"a"}, RequestedScopes: []string{"a"}, StepUpScopes: []string{"a"}}, aClone)
}

func TestOAuth_Validate(t *testing.T) {
	idToken := func(context.Context) (string, error) { return "", nil }
	assertion := func(context.Context, AssertionRequest) (string, error) { return "", nil }
	whole := Enterprise{TokenEndpoint: "https://idp.example/token", ClientID: "us", FetchIDToken: idToken}
	without := func(change func(*Enterprise)) *Enterprise {
		e := whole
		change(&e)
		return &e
	}
	for says, list := range map[string][]OAuth{
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
			err := ServerSpec{Name: "web", HTTP: &HTTP{URL: "https://mcp.example/mcp", Auth: &o}}.Validate()
			if says == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, says)
		}
	}
	for says, web := range map[string]HTTP{"Authorization header": {URL: "https://h/mcp", Headers: map[string]string{"authorization": "x"}},
		"user in the URL": {URL: "https://u@h/mcp"}} {
		web.Auth = &OAuth{}
		require.ErrorContains(t, ServerSpec{Name: "web", HTTP: &web}.Validate(), says)
	}
}

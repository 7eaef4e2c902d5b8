package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/oauth"
)

func TestAuth(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), []byte("the key"), 0o600))
	for text, want := range map[string]mcpvisor.Auth{
		`"auth": true`:  &oauth.Config{},
		`"auth": {}`:    &oauth.Config{},
		`"auth": false`: nil,
		`"auth": null`:  nil,
		`"oauth": {"clientId": "me", "callbackPort": 8123, "scopes": "a b"}`: &oauth.Config{ClientID: "me",
			RedirectURL: "http://localhost:8123/callback", Scopes: []string{"a", "b"}},
		`"auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["a"]}`:                     &oauth.Config{ClientID: "me", ClientSecret: "hush", Scopes: []string{"a"}},
		`"auth": {"client_id": "me", "grant": "client_credentials", "private_key_file": "key.pem"}`:          &oauth.Config{ClientID: "me", Grant: oauth.GrantClientCredentials, PrivateKey: "the key"},
		`"auth": {"client_metadata_url": "https://h.example/c.json", "issuer": "https://i", "wait": "2s"}`:   &oauth.Config{ClientMetadataURL: "https://h.example/c.json", Issuer: "https://i", TokenWait: 2 * time.Second},
		`"auth": {"account": "work", "client_name": "Us", "redirect_url": "http://127.0.0.1:7777/callback"}`: &oauth.Config{Account: "work", ClientName: "Us", RedirectURL: "http://127.0.0.1:7777/callback"},
		`"oauth": {"enabled": false, "clientId": "me"}`:                                                      nil,
	} {
		f := parse(t, dir, `{"servers": {"web": {"url": "https://mcp.example/mcp", `+text+`}}}`)
		require.Empty(t, f.Problems, text)
		require.Len(t, f.Servers, 1, text)
		require.Equal(t, want, f.Servers[0].Spec.HTTP.Auth, text)
	}
}

func TestAuth_store(t *testing.T) {
	dir := t.TempDir()
	files, err := oauth.NewFileStore(filepath.Join(dir, "tokens"))
	require.NoError(t, err)
	for text, want := range map[string]oauth.TokenStore{
		"keyring":                       oauth.NewKeyringStore(),
		"memory":                        oauth.NewMemoryStore(),
		"./tokens":                      files,
		filepath.Join(dir, "tokens"):    files,
		"${workspaceFolder}/tokens":     files,
		"${NO_SUCH_STORE:-}":            nil,
		"${NO_SUCH_STORE:-./tokens/./}": files,
	} {
		f := parse(t, dir, `{"servers": {"web": {"url": "https://mcp.example/mcp", "auth": {"store": "`+text+`"}}}}`)
		require.Empty(t, f.Problems, text)
		require.Equal(t, want, f.Servers[0].Spec.HTTP.Auth.(*oauth.Config).Store, text)
	}
}

// Relative paths begin at the workspace. The files are not read here: platforms renew them.
func TestAuth_token_files(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	for text, want := range map[string]oauth.Config{
		`{"assertion_file": "token"}`: {Grant: oauth.GrantJWTBearer, AssertionFile: path},
		`{"client_id": "me", "enterprise": {"token_endpoint": "https://idp/token", "client_id": "us", "client_secret": "${SECRET}", "id_token_file": "${workspaceFolder}/token"}}`: {
			Grant: oauth.GrantJWTBearer, ClientID: "me", Enterprise: &oauth.Enterprise{TokenEndpoint: "https://idp/token", ClientID: "us", ClientSecret: "hush", IDTokenFile: path}},
	} {
		f := parse(t, dir, `{"servers": {"web": {"url": "https://mcp.example/mcp", "auth": `+text+`}}}`)
		require.Empty(t, f.Problems, text)
		require.Equal(t, &want, f.Servers[0].Spec.HTTP.Auth)
	}
}

// Reading an unchanged file again gives equal specs, whatever its entries contain, so that a
// reload does not start servers again.
func TestEqual_entries(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("k"), 0o600))
	for _, entry := range []string{
		`"url": "https://h/mcp", "auth": true`,
		`"url": "https://h/mcp", "auth": {"client_id": "me", "client_secret": "s", "scopes": ["a", "b"]}`,
		`"url": "https://h/mcp", "auth": {"grant": "client_credentials", "client_id": "me", "private_key_file": "key"}`,
		`"url": "https://h/mcp", "auth": {"assertion_file": "token"}`,
		`"url": "https://h/mcp", "auth": {"client_id": "me", "enterprise": {"token_endpoint": "https://idp/token", "client_id": "us", "id_token_file": "id"}}`,
		`"url": "https://h/mcp", "auth": {"store": "memory"}`,
		`"url": "https://h/mcp", "auth": {"store": "keyring"}`,
		`"url": "https://h/mcp", "auth": {"store": "./tokens"}`,
		`"url": "https://h/mcp", "headers": {"A": "1", "B": "${SECRET}"}`,
		`"command": "x", "args": ["a"], "env": {"A": "1"}, "tools": {"allow": ["a"]}, "timeouts": {"call": "5s"}`,
	} {
		text := `{"servers": {"web": {` + entry + `}}}`
		first, second := parse(t, dir, text), parse(t, dir, text)
		require.Empty(t, first.Problems, entry)
		require.True(t, first.Servers[0].Spec.Clone().Equal(second.Servers[0].Spec), entry)
	}
}

func TestAuth_rejected(t *testing.T) {
	for text, says := range map[string]string{
		`"url": "https://h/mcp", "auth": "yes"`:                                                    `"auth" must be an object`,
		`"url": "https://h/mcp", "auth": {"grant": "password"}`:                                    "unknown",
		`"url": "https://h/mcp", "auth": {"grant": "client_credentials"}`:                          `needs "client_id" in "auth"`,
		`"url": "https://h/mcp", "auth": {"clientid": "me"}`:                                       "unknown key",
		`"url": "https://h/mcp", "auth": {"client_secret": "s3cret-value"}`:                        `no "client_id" in "auth"`,
		`"url": "https://h/mcp", "auth": true, "headers": {"authorization": "Bearer x"}`:           "Authorization header",
		`"url": "https://u:p@h/mcp", "auth": true`:                                                 "user in the URL",
		`"url": "https://h/mcp", "auth": {"client_id": "me", "private_key_file": "none.pem"}`:      "cannot be read",
		`"url": "https://h/mcp", "auth": {"store": "keychain"}`:                                    "not a place for tokens",
		`"url": "https://h/mcp", "auth": {"client_id": "x", "enterprise": {"client_id": "y"}}`:     `needs "token_endpoint" in "enterprise" in "auth"`,
		`"url": "https://h/mcp", "auth": {"grant": "urn:ietf:params:oauth:grant-type:jwt-bearer"}`: `needs one of "assertion_file"`,
		`"url": "https://h/mcp", "auth": {"enterprise": {}, "assertion_file": "x"}`:                "needs one of",
		`"command": "x", "auth": true`:                                                             "for an endpoint",
	} {
		f := parse(t, t.TempDir(), `{"servers": {"web": {`+text+`}}}`)
		require.NotEmpty(t, f.Problems, text)
		require.Contains(t, f.Problems[0].String(), says, text)
		require.NotContains(t, f.Problems[0].String(), "s3cret")
	}
}

func parse(t *testing.T, dir, text string) *File {
	t.Helper()
	t.Setenv("SECRET", "hush")
	f, err := Parse([]byte(text), "mcp.json", WithWorkspace(dir))
	require.NoError(t, err)
	checkSchema(t, []byte(text), f)
	return f
}

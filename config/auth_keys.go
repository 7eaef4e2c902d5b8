package config

import (
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// authRows are the keys of "auth". Aliases are the spellings of Claude Code (camel
// case), Cursor (capitals) and Gemini CLI.
var authRows = []row{
	textRow(func(e *entry) *string { return &e.oauth.ClientID }, configkeys.Key{
		Name: "client_id", Aliases: []string{"clientId", "CLIENT_ID"}, Type: "string", Field: "HTTP.Auth.ClientID", Example: `"my-client"`,
		Meaning: "The id of a client that is registered at the authorization server. Without it the client registers itself."}),
	textRow(func(e *entry) *string { return &e.oauth.ClientSecret }, configkeys.Key{
		Name: "client_secret", Aliases: []string{"clientSecret", "CLIENT_SECRET"}, Type: "string", Field: "HTTP.Auth.ClientSecret", Example: `"${SECRET}"`,
		Meaning: "The secret that belongs to client_id, which it needs. Not together with private_key_file."}),
	keyRow(func(e *entry, v *hujson.Value) { e.oauth.PrivateKey = e.readFile(v) }, configkeys.Key{
		Name: "private_key_file", Type: "path", Field: "HTTP.Auth.PrivateKey", Example: `"key.pem"`,
		Meaning: "A key in PEM that the client signs with instead of a secret: RSA, P-256 or Ed25519."}),
	textRow(func(e *entry) *string { return &e.oauth.ClientMetadataURL }, configkeys.Key{
		Name: "client_metadata_url", Type: "URL", Field: "HTTP.Auth.ClientMetadataURL", Example: `"https://example.com/client.json"`,
		Meaning: "Where the client publishes its metadata document."}),
	textRow(func(e *entry) *string { return &e.oauth.ClientName }, configkeys.Key{
		Name: "client_name", Type: "string", Default: "mcpvisor", Field: "HTTP.Auth.ClientName", Example: `"My host"`,
		Meaning: "The name that the user sees where they consent."}),
	textRow(func(e *entry) *string { return &e.oauth.Issuer }, configkeys.Key{
		Name: "issuer", Type: "URL", Default: "the first one that the server names; it is remembered", Field: "HTTP.Auth.Issuer", Example: `"https://auth.example.com"`,
		Meaning: "The authorization server that client_id belongs to. No other is accepted."}),
	textRow(func(e *entry) *string { return &e.oauth.Account }, configkeys.Key{
		Name: "account", Type: "string", Field: "HTTP.Auth.Account", Example: `"work"`,
		Meaning: "Tells several logins to the same server apart."}),
	keyRow(func(e *entry, v *hujson.Value) { e.oauth.Scopes = e.readScopes(v) }, configkeys.Key{
		Name: "scopes", Aliases: []string{"scope"}, Type: "list of strings, or one string with spaces", Default: "those that the server names", Field: "HTTP.Auth.Scopes", Example: `["read", "write"]`,
		Meaning: "The scopes to ask for, beside those that the server asks for."}),
	keyRow((*entry).readResource, configkeys.Key{
		Name: "resource", Type: "URL or false", Default: "what the server publishes", Field: "HTTP.Auth.Resource", Example: `"https://mcp.example.com/"`,
		Meaning: "The resource parameter of requests to the authorization server (RFC 8707). false leaves it out, for servers that refuse it, such as Microsoft Entra ID."}),
	keyRow(func(e *entry, v *hujson.Value) {
		var mode string
		readChoice(e, v, &mode, "required", "assume")
		e.oauth.AssumePKCE = mode == "assume"
	}, configkeys.Key{
		Name: "pkce", Type: `"required" or "assume"`, Default: `"required"`, Field: "HTTP.Auth.AssumePKCE", Example: `"assume"`,
		Meaning: "Whether the authorization server's metadata must announce PKCE, which is used in any case. \"assume\" is for a server that checks PKCE and does not say so, such as Microsoft Entra ID."}),
	textRow(func(e *entry) *string { return &e.oauth.RedirectURL }, configkeys.Key{
		Name: "redirect_url", Aliases: []string{"redirectUri"}, Type: "URL", Default: "http://127.0.0.1 with a free port", Field: "HTTP.Auth.RedirectURL", Example: `"http://127.0.0.1:7777/callback"`,
		Meaning: "Where the authorization server sends the user's browser back to."}),
	keyRow((*entry).readCallbackPort, configkeys.Key{
		Name: "callbackPort", Type: "number", Field: "HTTP.Auth.RedirectURL", Example: `8123`,
		Meaning: "Claude Code's key: 8123 stands for redirect_url http://localhost:8123/callback."}),
	textRow(func(e *entry) *string { return (*string)(&e.oauth.Grant) }, configkeys.Key{
		Name: "grant", Type: `"authorization_code" or "client_credentials"`, Default: `"authorization_code"`, Field: "HTTP.Auth.Grant", Example: `"client_credentials"`,
		Meaning: "How a token is obtained: the user consents, or the client acts for itself."}),
	keyRow(func(e *entry, v *hujson.Value) {
		e.oauth.Grant, e.oauth.AssertionFile = oauth.GrantJWTBearer, e.readFilePath(v)
	}, configkeys.Key{
		Name: "assertion_file", Type: "path", Field: "HTTP.Auth.AssertionFile", Example: `"/var/run/token"`,
		Meaning: "A file with a signed assertion (RFC 7523) that the platform of a workload keeps fresh. It is read for each token."}),
	keyRow((*entry).readEnterprise, configkeys.Key{
		Name: "enterprise", Type: "object", Field: "HTTP.Auth.Enterprise", Example: `{"token_endpoint": "https://idp.example.com/token", "client_id": "us", "id_token_file": "id_token"}`,
		Meaning: "The identity provider of an organization, which decides which servers the user may use."}).nesting(enterpriseRows),
	keyRow(func(e *entry, v *hujson.Value) { e.oauth.Store = e.readTokenStore(v) }, configkeys.Key{
		Name: "store", Type: `"keyring", "memory", or path of a directory`, Default: "files below the user's configuration directory", Field: "HTTP.Auth.Store", Example: `"keyring"`,
		Meaning: "Where tokens are kept."}),
	durationRow(func(e *entry) *time.Duration { return &e.oauth.TokenWait }, configkeys.Key{
		Name: "wait", Default: shortDuration(defaults.TokenWait), Field: "HTTP.Auth.TokenWait", Example: `"10s"`,
		Meaning: "How long a call waits for a token that has to be fetched first."}),
	boolRow(func(e *entry) *bool { return &e.oauthEnabled }, configkeys.Key{
		Name: "enabled", Default: "true", Field: "HTTP.Auth", Example: `false`,
		Meaning: "Gemini CLI's key: false is the same as auth: false."}),
}

// enterpriseRows are the keys of "enterprise" in "auth".
var enterpriseRows = []row{
	textRow(func(e *entry) *string { return &e.enterprise.TokenEndpoint }, configkeys.Key{
		Name: "token_endpoint", Type: "URL", Field: "HTTP.Auth.Enterprise.TokenEndpoint", Example: `"https://idp.example.com/token"`,
		Meaning: "The provider's token endpoint."}),
	textRow(func(e *entry) *string { return &e.enterprise.ClientID }, configkeys.Key{
		Name: "client_id", Type: "string", Field: "HTTP.Auth.Enterprise.ClientID", Example: `"my-client"`,
		Meaning: "The id of this client at the provider."}),
	textRow(func(e *entry) *string { return &e.enterprise.ClientSecret }, configkeys.Key{
		Name: "client_secret", Type: "string", Field: "HTTP.Auth.Enterprise.ClientSecret", Example: `"${IDP_SECRET}"`,
		Meaning: "The secret that belongs to it."}),
	pathRow(func(e *entry) *string { return &e.enterprise.IDTokenFile }, configkeys.Key{
		Name: "id_token_file", Field: "HTTP.Auth.Enterprise.IDTokenFile", Example: `"id_token"`,
		Meaning: "A file with the ID token of the user's login. It is read for each token."}),
}

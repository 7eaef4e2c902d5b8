package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Config is the HTTP.Auth of a server that requires access tokens. It says how this client gets
// them, as in the authorization chapter of MCP. The zero value is enough for a server that
// follows it: the client discovers the authorization server, registers there, and the user
// consents once, through Client.Authorize of package facade or "mcpvisor authorize". After that,
// tokens are refreshed without the user.
//
// A call never waits for the user. If a server needs the user, the session ends with
// a permanent cause, and its error holds an [mcpvisor.AuthRequired] with the authorization
// URL.
//
// One Config may serve several servers. A Config that was registered must not be changed.
type Config struct {
	// ClientID is the client_id of a client that was registered at the authorization
	// server by hand. Default: ClientMetadataURL, else the client registers itself
	// (dynamic client registration, RFC 7591).
	ClientID string
	// ClientSecret is the client_secret of ClientID. It requires ClientID. Default: none, a public
	// client.
	ClientSecret string
	// PrivateKey authenticates the client by a signature instead of a secret (private_key_jwt, RFC
	// 7523). It requires ClientID and excludes ClientSecret. Its value is PEM text, not a path: a
	// key in PKCS #8, PKCS #1 or SEC 1, of type RSA (RS256), P-256 (ES256) or Ed25519. Default:
	// none.
	PrivateKey string
	// Issuer is the issuer identifier of the authorization server that ClientID belongs to.
	// ClientID, ClientSecret and signatures of PrivateKey are sent to no other. Default: the first
	// authorization server that the MCP server names. It is remembered, and no other is accepted
	// later. With GrantClientCredentials and GrantJWTBearer nothing is stored, so it is remembered
	// only until the process ends: set Issuer there.
	//
	// Addresses that a server names must not lead into a private network, unless the
	// server itself or Issuer is in one.
	Issuer string
	// ClientMetadataURL is an https URL at which the host publishes its client ID
	// metadata document. It is the client_id at authorization servers that support such
	// documents.
	ClientMetadataURL string
	// ClientName is the name that the user sees when asked for consent. Default:
	// "mcpvisor".
	ClientName string
	// Scopes are requested in addition to those of the server's challenge. Default:
	// those of the challenge, else scopes_supported of the server's metadata.
	Scopes []string
	// Resource is the parameter resource of all requests (RFC 8707). Default: the identifier that
	// the MCP server publishes, or its URL. It does not change which server the tokens are sent to.
	Resource string
	// OmitResource leaves that parameter out. MCP requires it, and some authorization servers
	// refuse it: Microsoft Entra ID does beside a scope of another name.
	OmitResource bool
	// AssumePKCE accepts an authorization server whose metadata does not announce PKCE, as that of
	// Microsoft Entra ID. PKCE is used in any case. Set it only for a server that is known to check
	// it: at another one, who steals an authorization code can use it. Default: such a server is
	// refused, as MCP requires.
	AssumePKCE bool
	// RedirectURL is the redirect_uri of authorization requests. Default:
	// http://127.0.0.1/callback with a free port, served while Client.Authorize runs. If
	// its host is not a loopback address, the host application serves it and passes the
	// URL that arrives there to Client.FinishAuthorization.
	RedirectURL string
	// Grant is the OAuth grant by which tokens are requested. Default:
	// GrantAuthorizationCode.
	Grant Grant
	// FetchAssertion returns the assertions for GrantJWTBearer. With that grant set exactly one of
	// FetchAssertion, AssertionFile and Enterprise; with any other grant set none of them.
	FetchAssertion AssertionFunc
	// AssertionFile is the path of a file with an assertion that the platform of a workload
	// keeps fresh. It is read for each token.
	AssertionFile string
	// Enterprise gets the assertions for GrantJWTBearer from an identity provider.
	Enterprise *Enterprise
	// Account distinguishes several logins at one server. It is part of the store's key and is
	// never sent. Default: "".
	Account string
	// Store keeps tokens and registrations beyond the end of the process. Default: files
	// below the user's configuration directory. It is not used by GrantClientCredentials
	// and GrantJWTBearer, which can always request another token.
	Store TokenStore
	// FetchAuthorizationCode, if set, gets the user's consent without Client.Authorize: it opens
	// the authorization URL and returns the whole URL to which the authorization server redirected,
	// with its parameters code, state and iss. A call that needs the token waits for it up to one
	// minute, even beyond TokenWait. It is for hosts without a user, such as tests, and for
	// automated browsers. It may be called from several goroutines, for different servers at once.
	FetchAuthorizationCode func(ctx context.Context, authorizationURL string) (redirectURL string, err error)
	// TokenWait is how long a call waits for a token. The time starts again if the server rejects
	// the token that came. After that the call fails with ErrUnavailable, and the request for the
	// token continues in the background. Default 5 s. A negative value is an error.
	TokenWait time.Duration
}

// Grant is an OAuth grant type: the value of the parameter grant_type.
type Grant string

const (
	// GrantAuthorizationCode: the user consents in a browser (OAuth 2.1, section 4.1,
	// with PKCE). It is the default.
	GrantAuthorizationCode Grant = "authorization_code"
	// GrantClientCredentials: the client acts for itself, with its secret or its private
	// key (OAuth 2.1, section 4.2; MCP extension "OAuth Client Credentials"). It needs
	// ClientID, and ClientSecret or PrivateKey.
	GrantClientCredentials Grant = "client_credentials"
	// GrantJWTBearer: the client presents an assertion that a party trusted by the
	// authorization server has signed (RFC 7523, section 2.1): the platform of a workload
	// ([Config].FetchAssertion, [Config].AssertionFile) or an identity provider ([Config].Enterprise).
	GrantJWTBearer Grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

// AssertionFunc returns a signed JWT for [GrantJWTBearer]. It is called once for every
// token, so it may read a file that the platform renews. It may be called from several
// goroutines. An error counts as temporary, and the function is called again later,
// unless the error is an [mcpvisor.AuthRequired].
type AssertionFunc func(ctx context.Context, wanted AssertionRequest) (string, error)

// AssertionRequest says which token an assertion is to be exchanged for.
type AssertionRequest struct {
	// Issuer is the authorization server, which must be the audience of the assertion
	// (RFC 7523, section 3).
	Issuer string
	// Resource is the resource identifier of the MCP server.
	Resource string
	// ClientID is Config.ClientID.
	ClientID string
	// Scopes are the scopes that the token request names.
	Scopes []string
}

// Enterprise is the identity provider of an organization that decides which MCP servers
// its users may use (MCP extension "Enterprise-Managed Authorization", SEP-990). The ID
// token of a user's login is exchanged for an assertion (RFC 8693), and that for an
// access token, so users need not consent to each server.
type Enterprise struct {
	// TokenEndpoint is the token endpoint of the identity provider. Required.
	TokenEndpoint string
	// ClientID is the client_id of this client at the identity provider. Required.
	ClientID string
	// ClientSecret is the client_secret there. Default: none, a public client.
	ClientSecret string
	// FetchIDToken returns the ID token of the user's login. Either it or IDTokenFile is
	// required. Errors and concurrency are as for [AssertionFunc].
	FetchIDToken func(ctx context.Context) (string, error)
	// IDTokenFile is the path of a file with the ID token. It is read for each token.
	IDTokenFile string
}

// Validate implements mcpvisor.Auth. ServerSpec.Validate calls it.
func (c *Config) Validate() error {
	if c == nil {
		return errors.New("oauth: HTTP.Auth is a nil *oauth.Config; set &oauth.Config{}, or leave HTTP.Auth nil")
	}
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("oauth: "+format, args...)) }
	switch c.Grant {
	case "", GrantAuthorizationCode:
	case GrantClientCredentials:
		if c.ClientID == "" || c.ClientSecret == "" && c.PrivateKey == "" {
			add("grant %q needs ClientID, and ClientSecret or PrivateKey", c.Grant)
		}
	case GrantJWTBearer:
	default:
		add("grant %q is unknown; use %q, %q, %q, or leave it empty", c.Grant, GrantAuthorizationCode, GrantClientCredentials, GrantJWTBearer)
	}
	if err := c.validateAssertion(); err != nil {
		add("%w", err)
	}
	if c.ClientID == "" && (c.ClientSecret != "" || c.PrivateKey != "") {
		add("a secret is set and no ClientID; set both or neither")
	}
	if c.ClientSecret != "" && c.PrivateKey != "" {
		add("ClientSecret and PrivateKey are both set; keep one of them")
	}
	if u, err := url.Parse(c.ClientMetadataURL); c.ClientMetadataURL != "" && (err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "") {
		add("ClientMetadataURL must be an https URL with a path")
	}
	if u, err := url.Parse(c.RedirectURL); c.RedirectURL != "" && (err != nil || u.Scheme == "" || u.Fragment != "") {
		add("RedirectURL must be an absolute URL without a fragment; leave it empty for a free port on this machine")
	}
	if u, err := url.Parse(c.Resource); c.Resource != "" && (err != nil || !u.IsAbs() || strings.Contains(c.Resource, "#")) {
		add("the resource must be an absolute URL without a fragment; leave it empty for the one that the server publishes")
	}
	if c.Resource != "" && c.OmitResource {
		add("the resource is both set and left out; keep one of them")
	}
	for _, scope := range c.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
			add("scope %q is not usable; write one scope in each entry, without spaces or quotes", scope)
		}
	}
	if c.TokenWait < 0 {
		add("TokenWait is negative; leave it 0 for the default")
	}
	return errors.Join(errs...)
}

// validateAssertion checks that exactly one source of assertions is set with
// GrantJWTBearer, and none with any other grant.
func (c *Config) validateAssertion() error {
	e, sources := c.Enterprise, 0
	for _, set := range []bool{c.FetchAssertion != nil, c.AssertionFile != "", e != nil} {
		if set {
			sources++
		}
	}
	switch {
	case c.Grant != GrantJWTBearer:
		if sources > 0 {
			return fmt.Errorf("FetchAssertion, AssertionFile and Enterprise are for grant %q; set that grant, or remove them", GrantJWTBearer)
		}
	case sources != 1:
		return fmt.Errorf("grant %q needs one of AssertionFile, Enterprise and, in a program, FetchAssertion", c.Grant)
	case e != nil && (e.TokenEndpoint == "" || e.ClientID == "" || (e.FetchIDToken == nil) == (e.IDTokenFile == "") || c.ClientID == ""):
		return fmt.Errorf("Enterprise needs TokenEndpoint, ClientID and IDTokenFile or, in a program, FetchIDToken, and OAuth its own ClientID")
	}
	return nil
}

// Equal implements mcpvisor.Auth: it reports whether other is a Config with the same values.
// The stores must be equal by ==. Go cannot compare functions, so a Config with one equals
// only itself.
func (c *Config) Equal(other mcpvisor.Auth) bool {
	o, ok := other.(*Config)
	if !ok || c == nil || o == nil || c == o {
		return ok && c == o
	}
	a, b := *c, *o
	a.Store, b.Store = nil, nil   // equalStores compares them
	a.Scopes, b.Scopes = nil, nil // for slices.Equal nil is an empty list
	return equalStores(c.Store, o.Store) && slices.Equal(c.Scopes, o.Scopes) && reflect.DeepEqual(&a, &b)
}

// equalStores compares two stores by ==. Those of a type that has no == are not equal.
func equalStores(a, b TokenStore) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// NewAuthorizer implements mcpvisor.Auth. The runtime calls it once for each registration.
func (c *Config) NewAuthorizer(server *mcpvisor.HTTP, warn func(text string)) (mcpvisor.Authorizer, error) {
	a, err := c.newAuthorizer(server, warn)
	if err != nil {
		return nil, err
	}
	return a, nil
}

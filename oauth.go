package mcpvisor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// OAuth configures how this client gets access tokens for a server over HTTP, by the
// authorization chapter of MCP. The zero value is enough for a server that follows
// it: the client discovers the authorization server, registers there, and the user
// consents once, through Client.Authorize of package facade or "mcpvisor authorize".
// After that, tokens are refreshed without the user.
//
// A call never waits for the user. If a server needs the user, the session ends with
// a permanent cause, and its error holds an [AuthRequired] with the authorization
// URL.
//
// An OAuth that was registered must not be changed.
type OAuth struct {
	// ClientID is the client_id of a client that was registered at the authorization
	// server by hand. Default: ClientMetadataURL, else the client registers itself
	// (dynamic client registration, RFC 7591).
	ClientID string
	// ClientSecret is the client_secret that belongs to ClientID, which it needs. Default:
	// none, a public client.
	ClientSecret string
	// PrivateKey is used in place of a secret (private_key_jwt, RFC 7523). It needs ClientID
	// and excludes ClientSecret. It is the PEM of a PKCS #8, PKCS #1 or SEC 1 key of type RSA (RS256), P-256 (ES256) or
	// Ed25519.
	PrivateKey string
	// Issuer is the issuer identifier of the authorization server that ClientID belongs
	// to. ClientID, ClientSecret and PrivateKey are sent to no other. Default: the first
	// one that the server names; it is remembered and no other is accepted later.
	// GrantClientCredentials and GrantJWTBearer store nothing, so they remember it only
	// until the process ends; set Issuer if that matters.
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
	// RedirectURL is the redirect_uri of authorization requests. Default:
	// http://127.0.0.1/callback with a free port, served while Client.Authorize runs. If
	// its host is not a loopback address, the host application serves it and passes the
	// URL that arrives there to Client.FinishAuthorization.
	RedirectURL string
	// Grant is the OAuth grant by which tokens are requested. Default:
	// GrantAuthorizationCode.
	Grant Grant
	// FetchAssertion returns the assertions for GrantJWTBearer. Set one of it, AssertionFile
	// and Enterprise, and only with that grant.
	FetchAssertion AssertionFunc
	// AssertionFile is the path of a file with an assertion that the platform of a workload
	// keeps fresh. It is read for each token.
	AssertionFile string
	// Enterprise gets the assertions for GrantJWTBearer from an identity provider.
	Enterprise *Enterprise
	// Account tells several logins at one server apart. It is part of the store's key
	// and is sent nowhere.
	Account string
	// Store keeps tokens and registrations beyond the end of the process. Default: files
	// below the user's configuration directory. It is not used by GrantClientCredentials
	// and GrantJWTBearer, which can always request another token.
	Store TokenStore
	// FetchAuthorizationCode, if set, gets the user's consent without Client.Authorize:
	// it opens the authorization URL and returns the whole URL to which the
	// authorization server redirected, with its parameters code, state and iss. Calls
	// wait for it, one minute at most. It is for hosts that need no user, such as tests,
	// and for browsers that are automated. It may be called from several goroutines, for
	// different servers at once.
	FetchAuthorizationCode func(ctx context.Context, authorizationURL string) (redirectURL string, err error)
	// TokenWait is how long a call waits at most for a token that has to be requested
	// first, and again for each token that the server then rejects. Then it fails with
	// ErrUnavailable, and the request for the token continues. Default 5 s.
	// A negative value is an error.
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
	// ([OAuth].FetchAssertion, [OAuth].AssertionFile) or an identity provider ([OAuth].Enterprise).
	GrantJWTBearer Grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

func (o *OAuth) validate(c *HTTP) (errs []error) {
	if o == nil {
		return nil
	}
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("oauth: "+format, args...)) }
	switch o.Grant {
	case "", GrantAuthorizationCode:
	case GrantClientCredentials:
		if o.ClientID == "" || o.ClientSecret == "" && o.PrivateKey == "" {
			add("grant %q needs ClientID, and ClientSecret or PrivateKey", o.Grant)
		}
	case GrantJWTBearer:
	default:
		add("grant %q is unknown; use %q, %q, %q, or leave it empty", o.Grant, GrantAuthorizationCode, GrantClientCredentials, GrantJWTBearer)
	}
	if err := o.validateAssertion(); err != nil {
		add("%w", err)
	}
	if o.ClientID == "" && (o.ClientSecret != "" || o.PrivateKey != "") {
		add("a secret is set and no ClientID; set both or neither")
	}
	if o.ClientSecret != "" && o.PrivateKey != "" {
		add("ClientSecret and PrivateKey are both set; keep one of them")
	}
	if u, err := url.Parse(o.ClientMetadataURL); o.ClientMetadataURL != "" && (err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "") {
		add("ClientMetadataURL must be an https URL with a path")
	}
	if u, err := url.Parse(o.RedirectURL); o.RedirectURL != "" && (err != nil || u.Scheme == "" || u.Fragment != "") {
		add("RedirectURL must be an absolute URL without a fragment; leave it empty for a free port on this machine")
	}
	for _, scope := range o.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
			add("scope %q is not usable; write one scope in each entry, without spaces or quotes", scope)
		}
	}
	if o.TokenWait < 0 {
		add("TokenWait is negative; leave it 0 for the default")
	}
	if u, err := url.Parse(c.URL); err == nil && u.User != nil {
		add("there is a user in the URL as well; remove one of the two credentials")
	}
	for name := range c.Headers {
		if strings.EqualFold(name, "Authorization") {
			add("an Authorization header is set as well; remove one of the two credentials")
		}
	}
	return errs
}

// AssertionFunc returns a signed JWT for [GrantJWTBearer]. It is called once for every
// token, so it may read a file that the platform renews. It may be called from several
// goroutines. An error counts as temporary, and the function is called again later,
// unless the error is an [AuthRequired].
type AssertionFunc func(ctx context.Context, wanted AssertionRequest) (string, error)

// AssertionRequest says what an assertion is for.
type AssertionRequest struct {
	// Issuer is the authorization server, which must be the audience of the assertion
	// (RFC 7523, section 3).
	Issuer string
	// Resource is the resource identifier of the MCP server.
	Resource string
	// ClientID is OAuth.ClientID.
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

// validateAssertion checks that exactly one source of assertions is set with
// GrantJWTBearer, and none with any other grant.
func (o *OAuth) validateAssertion() error {
	e, sources := o.Enterprise, 0
	for _, set := range []bool{o.FetchAssertion != nil, o.AssertionFile != "", e != nil} {
		if set {
			sources++
		}
	}
	switch {
	case o.Grant != GrantJWTBearer:
		if sources > 0 {
			return fmt.Errorf("FetchAssertion, AssertionFile and Enterprise are for grant %q; set that grant, or remove them", GrantJWTBearer)
		}
	case sources != 1:
		return fmt.Errorf("grant %q needs one of AssertionFile, Enterprise and, in a program, FetchAssertion", o.Grant)
	case e != nil && (e.TokenEndpoint == "" || e.ClientID == "" || (e.FetchIDToken == nil) == (e.IDTokenFile == "") || o.ClientID == ""):
		return fmt.Errorf("Enterprise needs TokenEndpoint, ClientID and IDTokenFile or, in a program, FetchIDToken, and OAuth its own ClientID")
	}
	return nil
}

// AuthRequired is the error of a server that cannot be used until the user consents.
// errors.As finds it in an [Error] of KindAuthRequired. It must not be changed.
type AuthRequired struct {
	// URL is the authorization URL for the user's browser. Pass the URL of the redirect
	// to Client.FinishAuthorization. Client.Authorize makes a URL of its own. Empty if no
	// URL could be made; Err then says why. The URL stays valid for 15 minutes.
	URL string
	// Resource is the resource identifier of the MCP server.
	Resource string
	// Issuer is its authorization server; empty if it was not found.
	Issuer string
	// Scopes are the scopes that the URL requests.
	Scopes []string
	// Reason says what happened, for example "the server requires more scopes than the
	// token has".
	Reason string
	// Err is why there is no URL, or why an earlier attempt failed; nil: neither.
	Err error
}

// Error implements error. It does not contain the URL, which is for the user and not
// for logs.
func (a *AuthRequired) Error() string {
	text := a.Reason
	if text == "" {
		text = "the server requires authorization"
	}
	if a.Err != nil {
		text += ": " + a.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (a *AuthRequired) Unwrap() error { return a.Err }

// TokenStore keeps authorizations beyond the end of the process. It must be safe for
// concurrent use. A store that several processes share should also implement
// [TokenLocker]. A method that ignores its context or panics blocks no caller: it runs
// in a goroutine of its own.
type TokenStore interface {
	// Load returns the stored authorization, or nil and no error if nothing is stored.
	Load(ctx context.Context, key TokenKey) (*Authorization, error)
	// Save stores an authorization. When it returns nil, the authorization must survive
	// the end of the process. It must not keep a.
	Save(ctx context.Context, key TokenKey, a *Authorization) error
	// Delete removes an authorization. A missing one is no error.
	Delete(ctx context.Context, key TokenKey) error
}

// TokenLocker is an optional interface of a [TokenStore]. Its lock keeps processes from
// refreshing one token at the same time: many authorization servers revoke all tokens
// when a refresh token is used twice (OAuth 2.1, section 4.3.1).
type TokenLocker interface {
	// Lock waits until it holds the lock of a key, or until ctx ends. The lock should end
	// with its process.
	Lock(ctx context.Context, key TokenKey) (unlock func(), err error)
}

// TokenKey identifies one authorization in a [TokenStore]. It holds no secret.
type TokenKey struct {
	// Server is the URL of the MCP endpoint, without user and fragment. A query is
	// replaced by a digest.
	Server string `json:"server"`
	// Client is OAuth.ClientID or OAuth.ClientMetadataURL; empty for a client that
	// registers itself.
	Client string `json:"client,omitempty"`
	// Account is OAuth.Account.
	Account string `json:"account,omitempty"`
}

// Authorization is what a [TokenStore] keeps: the registration of a client at one
// authorization server, and its tokens. It holds secrets; its String and GoString show
// none. The names in JSON are stable, so that stores can be read by later versions.
//
//nolint:recvcheck // Clone accepts nil, and printing needs values
type Authorization struct {
	// Issuer is the authorization server that all other fields belong to.
	Issuer string `json:"issuer"`
	// Resource is the resource identifier that the tokens are for (RFC 8707).
	Resource string `json:"resource"`

	// ClientID is the client_id of OAuth, or of the dynamic registration.
	ClientID string `json:"client_id"`
	// ClientSecret is that of a dynamic registration; empty: none.
	ClientSecret string `json:"client_secret,omitempty"`
	// ClientSecretExpires is when ClientSecret expires; zero: never.
	ClientSecretExpires time.Time `json:"client_secret_expires,omitzero"`
	// AuthMethod is the method of client authentication at the token endpoint, for
	// example "client_secret_basic".
	AuthMethod string `json:"auth_method,omitempty"`
	// TokenEndpoint is the URL at which the tokens are refreshed.
	TokenEndpoint string `json:"token_endpoint,omitempty"`
	// RedirectURL is the redirect URI of a dynamic registration; empty for any other
	// client.
	RedirectURL string `json:"redirect_url,omitempty"`

	// AccessToken is sent to the server; empty: none.
	AccessToken string `json:"access_token,omitempty"`
	// RefreshToken gets another access token; empty: none.
	RefreshToken string `json:"refresh_token,omitempty"`
	// Expires is when the access token expires; zero: unknown.
	Expires time.Time `json:"expires,omitzero"`
	// Obtained is when the access token was issued.
	Obtained time.Time `json:"obtained,omitzero"`
	// DPoPKey is the private key that the tokens are bound to (RFC 9449), as d of a JSON Web
	// Key of the curve P-256; empty: they are bearer tokens. Tokens that have lost their key
	// are of no use: servers refuse them, and the user authorizes again.
	DPoPKey string `json:"dpop_key,omitempty"`
	// Scopes are the granted scopes. If the authorization server did not say, they are
	// the requested ones (RFC 6749, section 5.1).
	Scopes []string `json:"scopes,omitempty"`
	// RequestedScopes are the scopes that were requested.
	RequestedScopes []string `json:"requested_scopes,omitempty"`
	// StepUpScopes are the scopes to request at the next authorization, because the
	// server refused a request without them (step-up authorization).
	StepUpScopes []string `json:"step_up_scopes,omitempty"`
}

// Clone returns a copy that shares no memory with a.
func (a *Authorization) Clone() *Authorization {
	if a == nil {
		return nil
	}
	c := *a
	c.Scopes, c.RequestedScopes, c.StepUpScopes = slices.Clone(a.Scopes), slices.Clone(a.RequestedScopes), slices.Clone(a.StepUpScopes)
	return &c
}

// String names the resource and the issuer, and shows no secret.
func (a Authorization) String() string {
	return fmt.Sprintf("authorization of %s by %s (secrets hidden)", a.Resource, a.Issuer)
}

// GoString is String, so that %#v shows no secret either.
func (a Authorization) GoString() string { return a.String() }

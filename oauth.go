package mcpvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	// FetchAssertion returns the assertions for GrantJWTBearer. Set either it or
	// Enterprise, and only with that grant.
	FetchAssertion AssertionFunc
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
	// ErrUnavailable, and the request for the token goes on. Default: 5 s
	// ([DefaultTokenWait]). A negative value is an error.
	TokenWait time.Duration
}

// DefaultTokenWait is the default of [OAuth].TokenWait.
const DefaultTokenWait = 5 * time.Second

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
	// ([OAuth].FetchAssertion) or an identity provider ([OAuth].Enterprise).
	GrantJWTBearer Grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

// Clone returns a copy that shares no slice and no Enterprise with o.
func (o *OAuth) Clone() *OAuth {
	if o == nil {
		return nil
	}
	c := *o
	c.Scopes = slices.Clone(o.Scopes)
	if o.Enterprise != nil {
		e := *o.Enterprise
		c.Enterprise = &e
	}
	return &c
}

// StoreKey returns the key under which the authorization of a server is stored.
func (o *OAuth) StoreKey(server *url.URL) TokenKey {
	u := *server
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	if server.RawQuery != "" { // it may hold secrets, and stores show their keys
		sum := sha256.Sum256([]byte(server.RawQuery))
		u.RawQuery = hex.EncodeToString(sum[:8])
	}
	key := TokenKey{Server: u.String(), Client: o.ClientID, Account: o.Account}
	if key.Client == "" {
		key.Client = o.ClientMetadataURL
	}
	return key
}

// Unattended reports whether tokens are requested without the user. They are not
// stored then, because another one can always be requested.
func (o *OAuth) Unattended() bool {
	return o.Grant == GrantClientCredentials || o.Grant == GrantJWTBearer
}

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

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

// OAuth says how tokens for a server over HTTP are come by. The zero value is
// enough for a server that follows the MCP specification: the authorization
// server is discovered, this client registers itself there, and a person
// consents once, through Authorize of the facade or "mcpvisor authorize".
// After that, tokens are refreshed without anybody.
//
// A call never waits for a person. A session without a usable token ends with
// a permanent cause, and its error holds an [AuthRequired].
type OAuth struct {
	// ClientID is how the authorization server knows this client, if it has been
	// registered there by hand. Empty: ClientMetadataURL, else the client
	// registers itself.
	ClientID string
	// ClientSecret goes with ClientID, if the client was given one.
	ClientSecret string
	// PrivateKey signs instead of a secret (private_key_jwt): PEM of a PKCS #8,
	// PKCS #1 or SEC 1 key; RSA (RS256), P-256 (ES256) or Ed25519.
	PrivateKey string
	// Issuer is the authorization server that ClientID belongs to. The client is
	// presented to no other. Empty: the one that the server names first, from then
	// on; GrantClient and GrantAssertion, which keep nothing, forget it with the
	// process, so set it if that matters. What a server names must not lead into
	// a private network unless the server itself, or this issuer, is there.
	Issuer string
	// ClientMetadataURL is an https URL at which this host publishes its client
	// metadata document; it is the client's name at servers that support that.
	ClientMetadataURL string
	// ClientName is shown to people where they consent. Default: "mcpvisor".
	ClientName string
	// Scopes are asked for, beside those that the server's challenge names.
	// Empty: those of the challenge, else those that the server's metadata lists.
	Scopes []string
	// RedirectURL is where the authorization server sends people back to.
	// Default: http://127.0.0.1 with a free port. With another host than a
	// loopback address the host serves it, and hands what arrives there to
	// FinishAuthorization of the facade.
	RedirectURL string
	// Grant is how a token is come by. Default: GrantCode.
	Grant Grant
	// Assertion makes the assertions of GrantAssertion; Enterprise is the other way
	// to come by them.
	Assertion  Assertion
	Enterprise *Enterprise
	// Account tells logins to the same server apart, where there are several. It
	// is a part of the store's key and nothing else.
	Account string
	// Store keeps tokens and registrations. Default: files below the user's
	// configuration directory. Tokens that need no person are not kept.
	Store TokenStore
	// Visit, if set, visits the authorization URL by itself and returns the URL
	// to which the authorization server redirected. It is for hosts that need no
	// person: calls wait for it. It is bounded by a minute.
	Visit func(ctx context.Context, url string) (redirect string, err error)
	// TokenWait is how long a call waits at most for a token that has to be fetched
	// first, and once more for each token that the server then refuses. Default:
	// 5 s.
	TokenWait time.Duration
}

// DefaultTokenWait is the default of OAuth.TokenWait.
const DefaultTokenWait = 5 * time.Second

// Grant is how a token is come by.
type Grant string

const (
	// GrantCode: a person consents in a browser (authorization code with PKCE).
	GrantCode Grant = "authorization_code"
	// GrantClient: the client acts for itself, with its secret or its key.
	GrantClient Grant = "client_credentials"
)

// TokenStore keeps authorizations, so that they outlive the process. Safe for
// concurrent use. A store that also has the method of [TokenLocker] is safe
// for several processes.
type TokenStore interface {
	// Load returns what is stored, or nil if there is nothing.
	Load(ctx context.Context, key TokenKey) (*Authorization, error)
	// Save stores, durably when it returns.
	Save(ctx context.Context, key TokenKey, a *Authorization) error
	// Delete forgets; it is no error if there is nothing.
	Delete(ctx context.Context, key TokenKey) error
}

// TokenLocker keeps processes from renewing one token at the same time: of a
// refresh token that is rotated, only the first use is good.
type TokenLocker interface {
	// Lock waits until nobody else holds the lock of a key, or ctx ends.
	Lock(ctx context.Context, key TokenKey) (unlock func(), err error)
}

// TokenKey names one authorization.
type TokenKey struct {
	// Server is the MCP endpoint, without user and fragment, and with a digest in
	// place of its query.
	Server string `json:"server"`
	// Client is OAuth.ClientID or OAuth.ClientMetadataURL; empty for a client that
	// registers itself. What is stored says which issuer it belongs to.
	Client string `json:"client,omitempty"`
	// Account is OAuth.Account.
	Account string `json:"account,omitempty"`
}

// Authorization is what is known of one authorization: the registration of the
// client, and the tokens. It is bound to one issuer. It holds secrets, and
// prints without them.
type Authorization struct { //nolint:recvcheck // Clone takes nil, and printing takes values
	Issuer   string `json:"issuer"`
	Resource string `json:"resource"`

	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret,omitempty"`
	// ClientExpires is when the secret does; zero: never.
	ClientExpires time.Time `json:"client_expires,omitzero"`
	// AuthMethod is how the client identifies itself at the token endpoint.
	AuthMethod    string `json:"auth_method,omitempty"`
	TokenEndpoint string `json:"token_endpoint,omitempty"`
	// RedirectURL is the one that was registered.
	RedirectURL string `json:"redirect_url,omitempty"`

	AccessToken  string `json:"access_token,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	// Expires is when the access token does; zero: not known.
	Expires time.Time `json:"expires,omitzero"`
	// Obtained is when the access token was given.
	Obtained time.Time `json:"obtained,omitzero"`
	// Scopes are those that were granted, or asked for if nothing was said.
	Scopes []string `json:"scopes,omitempty"`
	// RequestedScopes are those that were asked for.
	RequestedScopes []string `json:"asked,omitempty"`
	// StepUpScopes are those to ask for when somebody consents next: the server has
	// found them wanting.
	StepUpScopes []string `json:"wanted,omitempty"`
}

// Clone returns a copy that shares nothing with a.
func (a *Authorization) Clone() *Authorization {
	if a == nil {
		return nil
	}
	c := *a
	c.Scopes, c.RequestedScopes, c.StepUpScopes = slices.Clone(a.Scopes), slices.Clone(a.RequestedScopes), slices.Clone(a.StepUpScopes)
	return &c
}

// String says whose authorization it is, without secrets.
func (a Authorization) String() string {
	return fmt.Sprintf("authorization of %s by %s (secrets hidden)", a.Resource, a.Issuer)
}

// GoString is String: %#v shows no secrets either.
func (a Authorization) GoString() string { return a.String() }

// AuthRequired says that a person has to consent before a server can be used,
// or again. errors.As finds it in an Error of KindAuthRequired.
type AuthRequired struct {
	// URL is where a person consents. What the redirect then brings is for
	// FinishAuthorization; Authorize makes a URL of its own. Empty if it could
	// not be made; Err says why.
	URL string
	// Resource is the server's identifier, Issuer its authorization server.
	Resource string
	Issuer   string
	// Scopes are what the consent is asked for.
	Scopes []string
	// Reason says what happened, as in "the server wants a token".
	Reason string
	// Err is why there is no URL, or why an attempt failed.
	Err error
}

// Error implements error. It is without the URL, which has its place on a
// screen and not in a log.
func (a *AuthRequired) Error() string {
	text := a.Reason
	if text == "" {
		text = "the server wants authorization"
	}
	if a.Err != nil {
		text += ": " + a.Err.Error()
	}
	return text
}

// Unwrap returns why there is no URL.
func (a *AuthRequired) Unwrap() error { return a.Err }

// Clone returns a copy that shares no slice with o.
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

// Key is the key under which a server's authorization is stored.
func (o *OAuth) Key(server *url.URL) TokenKey {
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

func (o *OAuth) validate(c *HTTP) (errs []error) {
	if o == nil {
		return nil
	}
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("oauth: "+format, args...)) }
	switch o.Grant {
	case "", GrantCode:
	case GrantClient:
		if o.ClientID == "" || o.ClientSecret == "" && o.PrivateKey == "" {
			add("grant %q needs ClientID, and ClientSecret or PrivateKey", o.Grant)
		}
	case GrantAssertion:
	default:
		add("grant %q is unknown; use %q, %q, %q, or leave it empty", o.Grant, GrantCode, GrantClient, GrantAssertion)
	}
	if err := o.validateAssertion(); err != nil {
		add("%w", err)
	}
	if o.ClientID == "" && (o.ClientSecret != "" || o.PrivateKey != "") {
		add("there is a secret and no ClientID; set both or none")
	}
	if o.ClientSecret != "" && o.PrivateKey != "" {
		add("ClientSecret and PrivateKey are both set; keep one of them")
	}
	if u, err := url.Parse(o.ClientMetadataURL); o.ClientMetadataURL != "" && (err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "") {
		add("ClientMetadataURL has to be an https URL with a path")
	}
	if u, err := url.Parse(o.RedirectURL); o.RedirectURL != "" && (err != nil || u.Scheme == "" || u.Fragment != "") {
		add("RedirectURL has to be an absolute URL without a fragment; leave it empty for a free port on this machine")
	}
	for _, scope := range o.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
			add("scope %q is not usable; write one scope for each entry, without spaces or quotes", scope)
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
			add("there is an Authorization header as well; remove one of the two credentials")
		}
	}
	return errs
}

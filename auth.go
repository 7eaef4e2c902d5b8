package mcpvisor

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Auth supplies the credentials for the requests to a server over HTTP. Package oauth implements
// the authorization chapter of MCP as *oauth.Config. Write an implementation for credentials that
// [HTTP].Headers and HeaderFunc cannot express: signed requests, tokens that are replaced when
// the server refuses them.
//
// One value may serve several servers. Its methods do no I/O, do not wait, and may be called by
// several goroutines. A value that was registered must not be changed.
type Auth interface {
	// Validate reports everything that cannot work, each with the way to correct it.
	Validate() error
	// Equal reports whether other supplies the same credentials in the same way. other may
	// be nil. [ServerSpec.Equal] calls it.
	Equal(other Auth) bool
	// NewAuthorizer makes the [Authorizer] of one registration. server is the HTTP of the spec,
	// which is valid; do not change it. The Authorizer calls warn to write one line to the log,
	// which must hold no secret. warn may block, so NewAuthorizer itself must not call it. An
	// error fails every start with a permanent cause.
	NewAuthorizer(server *HTTP, warn func(text string)) (Authorizer, error)
}

// Authorizer supplies the credentials of one registration, for all its sessions, of which two may
// overlap. It is never closed, so background work must run between Attach and the last Detach.
// Its methods are called by several goroutines at once, and must return when their context ends.
// A panic in one of them fails one request.
type Authorizer interface {
	// Attach is called when a session begins, before its first request. It may read stored
	// credentials. ctx ends with the start.
	Attach(ctx context.Context)
	// Detach is called when a session that was attached has ended. It waits at most grace for
	// work that must not be interrupted, such as a token that is being stored, because the end of
	// the server waits for it.
	Detach(grace time.Duration)
	// Credential returns the credential for the next request; nil: the request is sent without
	// one, and the server says what it wants. It may block, and the call waits for it; to give up
	// before ctx ends, it returns an [AuthUnavailable]. An [AuthRequired] ends the session. Any
	// error fails the request before it is sent.
	Credential(ctx context.Context) (Credential, error)
	// Current returns the credential at hand, or nil, without waiting. The request that ends a
	// session uses it.
	Current() Credential
	// Answered is called with the status and header of the answer to a request that used c; c may
	// be nil. If the server refused the credential, and therefore did not carry out the request,
	// Answered may return another credential. The request is then sent again, at most 7 times.
	// Answered returns nil to accept the answer. Waiting and errors are as for Credential, except
	// that an AuthRequired ends the session only if status is 401: with 403 it concerns this
	// request alone.
	Answered(ctx context.Context, c Credential, status int, header http.Header) (again Credential, err error)
	// Redact returns text with every secret of the authorizer masked. Every text of the server
	// passes through it before it is shown, so it must be quick.
	Redact(text string) string
}

// Credential is the credential of one request. It must not change after it is made.
type Credential interface {
	// SetHeaders adds the credential to header. It is called each time the request is sent: again
	// after a redirect within the origin, and after a connection that broke before the request
	// was written. target is the address that the server sees. body is nil if the request has
	// none, and must not be changed. An error fails the request, which was not sent.
	SetHeaders(header http.Header, method string, target *url.URL, body []byte) error
}

// UserAuthorizer is an optional interface of an [Authorizer] that needs the user at times.
// Authorize, FinishAuthorization and ForgetAuthorization of facade.Client call its first three
// methods.
type UserAuthorizer interface {
	// Authorize gets the user's consent: it passes a URL to open, waits for the redirect to
	// this machine, and stores the credentials. It blocks until then, or until ctx ends.
	Authorize(ctx context.Context, open func(url string) error) error
	// Finish completes what the URL of an [AuthRequired] began. redirect is the URL to which
	// the user's browser was sent.
	Finish(ctx context.Context, redirect string) error
	// Forget deletes the credentials, in memory and in the store.
	Forget(ctx context.Context) error
	// Inherit takes over the URLs that previous has given out, so that the user can still
	// complete one. It is called before the first use if a server is registered again; previous
	// is of any type, and may still be in use.
	Inherit(previous Authorizer)
}

// DeviceAuthorizer is an optional interface of a [UserAuthorizer] whose user may consent on another
// device. AuthorizeDevice of facade.Client calls its method.
type DeviceAuthorizer interface {
	// AuthorizeDevice gets the user's consent: it passes a login to show, waits until the user has
	// completed it, and stores the credentials. It blocks until then, until the login expires, or
	// until ctx ends.
	AuthorizeDevice(ctx context.Context, show func(DeviceLogin) error) error
}

// DeviceLogin is a login that the user completes in the browser of any device (RFC 8628). URL and
// Code come from the authorization server.
type DeviceLogin struct {
	// URL is the page that the user opens, and Code what the user enters there.
	URL, Code string
	// CompleteURL is the page with the code filled in, for a link or a QR code; empty: none.
	CompleteURL string
	// Expires is when the login fails if the user has not completed it.
	Expires time.Time
}

// AuthRequired is the error of a server that cannot be used until the user consents. errors.As
// finds it in an [Error] of ErrAuthRequired. Do not change it: several callers may share it.
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
	// Err says why there is no URL, or why an earlier attempt failed; nil if neither is the case.
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

// AuthUnavailable is the error of an [Authorizer] that has no credential now but may have one
// later. The request fails with ErrUnavailable, and the session continues.
type AuthUnavailable struct {
	// RetryAfter is how long to wait before the next attempt; 0: unknown.
	RetryAfter time.Duration
	// Hint says what to do. Default: a hint to check the authorization server.
	Hint string
	// Err says what failed. Required.
	Err error
}

// Error implements error: it is the text of Err.
func (u *AuthUnavailable) Error() string { return u.Err.Error() }

// Unwrap returns Err.
func (u *AuthUnavailable) Unwrap() error { return u.Err }

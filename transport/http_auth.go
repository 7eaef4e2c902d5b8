package transport

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxRenewals is how often one request is sent again with another token: a
// token may be renewed, replaced, and given more scopes, each of them once. A
// request that was refused for its token was not carried out.
const maxRenewals = 3

// newAuthorizer makes what obtains tokens for the sessions of a dialer; nil if
// the spec wants none.
func newAuthorizer(spec mcpvisor.ServerSpec, opts Options) *oauth.Authorizer {
	if spec.HTTP.Auth == nil {
		return nil
	}
	log := opts.Logger.With().Str("server", spec.Name).Logger()
	a, err := oauth.New(spec.HTTP, func(text string) { log.Warn().Msg(text) })
	if err != nil {
		return nil // no session will have an endpoint either
	}
	return a
}

// do sends one request, with a token where the endpoint needs one. header is
// only read. The body of the response must be closed.
func (e *endpoint) do(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, *httpError) {
	if e.auth == nil {
		return e.followRedirects(ctx, method, body, header)
	}
	if method == http.MethodDelete { // politeness at the end is worth no new token
		return e.followRedirects(ctx, method, body, withToken(header, e.auth.AccessToken()))
	}
	for renewals := 0; ; renewals++ {
		token, err := e.auth.Token(ctx)
		if err != nil {
			return nil, e.reportUnauthorized(e.tokenError(ctx, err))
		}
		resp, f := e.followRedirects(ctx, method, body, withToken(header, token))
		if f != nil {
			return nil, f
		}
		refused := resp.StatusCode == http.StatusUnauthorized
		if !refused && !oauth.IsInsufficientScope(resp.StatusCode, resp.Header) || renewals == maxRenewals {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
		_ = resp.Body.Close()
		if err := e.auth.Renew(ctx, token, renewals > 0, resp.StatusCode, resp.Header); err != nil {
			f := e.unknownIfHostTripper(e.tokenError(ctx, err))
			f.status = resp.StatusCode
			if refused { // without more scopes the others go on
				return nil, e.reportUnauthorized(f)
			}
			return nil, f
		}
	}
}

// reportUnauthorized ends the session if no other request of it can have a token either.
func (e *endpoint) reportUnauthorized(f *httpError) *httpError {
	if f.permanent && e.onUnauthorized != nil {
		e.onUnauthorized(f)
	}
	return f
}

// withToken is a header with a token. header may be shared, so that it is copied.
func withToken(header http.Header, token string) http.Header {
	if token == "" {
		return header
	}
	h := make(http.Header, len(header)+1)
	maps.Copy(h, header)
	h["Authorization"] = []string{"Bearer " + token}
	return h
}

// tokenError is the fault of a request for which there is no token. The server has
// not begun to work on it.
func (e *endpoint) tokenError(ctx context.Context, err error) *httpError {
	var required *mcpvisor.AuthRequired
	var passing *oauth.Unavailable
	switch {
	case errors.As(err, &required):
		return &httpError{problem: e.clean(required.Error()), hint: "authorize it: mcpvisor authorize, or Authorize of the client", err: required,
			kind: mcpvisor.KindAuthRequired, outcome: mcpvisor.OutcomeNotSent, cause: supervisor.CauseAuth, permanent: true}
	case errors.As(err, &passing):
		f := e.notSentError(passing.Error(), "look at the authorization server", nil)
		f.retryAfter = passing.RetryAfter
		return f
	}
	return e.notSentError("the request was given up before there was a token for "+e.hostport, "", ctx.Err())
}

// Authorization is what obtains the tokens of a dialer's sessions; nil if its
// spec has no Auth.
func Authorization(d Dialer) Authorizer {
	if h, ok := d.(*httpDialer); ok && h.auth != nil {
		return h.auth
	}
	return nil
}

// Authorizer is the part of authorization that needs a person.
type Authorizer interface {
	// Authorize hands an authorization URL to open, and waits until the person
	// has come back and the token is stored.
	Authorize(ctx context.Context, open func(url string) error) error
	// Finish takes the URL to which a person was redirected.
	Finish(ctx context.Context, redirect string) error
	// Forget drops tokens and registration.
	Forget(ctx context.Context) error
}

// Inherit hands over from the authorizer of an earlier registration of a server
// to that of the next; see oauth.Authorizer.Inherit.
func Inherit(next, last Authorizer) {
	n, ok := next.(*oauth.Authorizer)
	if l, same := last.(*oauth.Authorizer); ok && same {
		n.Inherit(l)
	}
}

// NewTokenFiles returns a store of files in a directory; see oauth.NewFileStore.
func NewTokenFiles(dir string) (mcpvisor.TokenStore, error) { return oauth.NewFileStore(dir) }

// NewTokenKeyring returns a store in the keyring of the operating system; see
// oauth.NewKeyringStore.
func NewTokenKeyring() mcpvisor.TokenStore { return oauth.NewKeyringStore() }

// NewTokenMemory returns a store that forgets at the end of the process.
func NewTokenMemory() mcpvisor.TokenStore { return oauth.NewMemoryStore() }

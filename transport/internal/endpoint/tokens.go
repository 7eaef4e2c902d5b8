package endpoint

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

// Do sends one request, with a token where the endpoint needs one. The body of
// the response must be closed.
func (e *Endpoint) Do(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	if e.Auth == nil {
		return e.followRedirects(ctx, r)
	}
	header := r.Header
	if r.Method == http.MethodDelete { // the DELETE at the end is worth no new token
		r.Header = withToken(header, e.Auth.AccessToken())
		return e.followRedirects(ctx, r)
	}
	for renewals := 0; ; renewals++ {
		token, err := e.Auth.Token(ctx)
		if err != nil {
			return nil, e.reportUnauthorized(e.tokenError(ctx, err))
		}
		r.Header = withToken(header, token)
		resp, f := e.followRedirects(ctx, r)
		if f != nil {
			return nil, f
		}
		refused := resp.StatusCode == http.StatusUnauthorized
		if !refused && !oauth.IsInsufficientScope(resp.StatusCode, resp.Header) || renewals == maxRenewals {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, MaxErrorBody) // so that the connection can be used again
		_ = resp.Body.Close()
		if err := e.Auth.Renew(ctx, token, renewals > 0, resp.StatusCode, resp.Header); err != nil {
			f := e.unknownIfHostTripper(e.tokenError(ctx, err))
			f.Status = resp.StatusCode
			if refused { // without more scopes the others go on
				return nil, e.reportUnauthorized(f)
			}
			return nil, f
		}
	}
}

// reportUnauthorized ends the session if no other request of it can have a token either.
func (e *Endpoint) reportUnauthorized(f *HTTPError) *HTTPError {
	if f.Permanent && e.OnUnauthorized != nil {
		e.OnUnauthorized(f)
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
func (e *Endpoint) tokenError(ctx context.Context, err error) *HTTPError {
	var required *mcpvisor.AuthRequired
	var passing *oauth.Unavailable
	switch {
	case errors.As(err, &required):
		return &HTTPError{Message: e.Clean(required.Error()), Hint: "authorize it: mcpvisor authorize, or Authorize of the client", Err: required,
			Kind: mcpvisor.KindAuthRequired, Outcome: mcpvisor.OutcomeNotSent, Cause: supervisor.CauseAuth, Permanent: true}
	case errors.As(err, &passing):
		f := e.notSentError(passing.Error(), "look at the authorization server", nil)
		f.RetryAfter = passing.RetryAfter
		return f
	}
	return e.notSentError("the request was given up before there was a token for "+e.HostPort, "", ctx.Err())
}

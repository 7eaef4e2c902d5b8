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

// maxRenewals bounds how often one request is repeated with another token. A token
// may be refreshed, replaced, and given more scopes, each of them once. A request
// refused for its token was not carried out.
const maxRenewals = 3

// Do sends one request, with an access token if the endpoint has an authorizer. A
// request refused for its token (401, or 403 with insufficient_scope) is sent again
// with a new one. The caller closes the body of the response.
func (e *Endpoint) Do(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	if e.Auth == nil {
		return e.followRedirects(ctx, r)
	}
	header := r.Header
	if r.Method == http.MethodDelete { // the DELETE at the end of a session does not justify a new token
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
		_, _ = io.CopyN(io.Discard, resp.Body, MaxErrorBody) // read to the end, so that the connection can be reused
		_ = resp.Body.Close()
		if err := e.Auth.Renew(ctx, token, renewals > 0, resp.StatusCode, resp.Header); err != nil {
			f := e.unknownIfHostTripper(e.tokenError(ctx, err))
			f.Status = resp.StatusCode
			if refused { // a request that lacks a scope does not affect the others
				return nil, e.reportUnauthorized(f)
			}
			return nil, f
		}
	}
}

// reportUnauthorized calls OnUnauthorized if no other request can get a token
// either.
func (e *Endpoint) reportUnauthorized(f *HTTPError) *HTTPError {
	if f.Permanent && e.OnUnauthorized != nil {
		e.OnUnauthorized(f)
	}
	return f
}

// withToken returns a copy of header with a bearer token. The original may be shared
// between requests.
func withToken(header http.Header, token string) http.Header {
	if token == "" {
		return header
	}
	h := make(http.Header, len(header)+1)
	maps.Copy(h, header)
	h["Authorization"] = []string{"Bearer " + token}
	return h
}

// tokenError explains why there is no token for a request. The request was not sent.
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

package endpoint

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxRenewals bounds how often one request is repeated with another token. The token may
// be refreshed, replaced, and extended by scopes, once each. Repeating is safe, because a
// request that is rejected for its token is not carried out.
const maxRenewals = 3

// sendWithToken is Do for an endpoint with an authorizer.
func (e *Endpoint) sendWithToken(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	header := r.Header
	if r.Method == http.MethodDelete { // the DELETE at the end of a session is sent with the token there is
		r.credential = e.Auth.Credential(e.Auth.AccessToken())
		r.Header = withCredential(header, &r.credential)
		return e.followRedirects(ctx, r)
	}
	for renewals := 0; ; renewals++ {
		token, err := e.Auth.Token(ctx)
		if err != nil {
			return nil, e.reportUnauthorized(e.tokenError(ctx, err))
		}
		resp, httpErr := e.sendWithCredential(ctx, r, e.Auth.Credential(token))
		if httpErr != nil {
			return nil, httpErr
		}
		refused := resp.StatusCode == http.StatusUnauthorized
		if !refused && !oauth.IsInsufficientScope(resp.StatusCode, resp.Header) || renewals == maxRenewals {
			return resp, nil
		}
		drain(resp.Body)
		if err := e.Auth.Renew(ctx, token, renewals > 0, resp.StatusCode, resp.Header); err != nil {
			httpErr := e.unknownIfHostRoundTripper(e.tokenError(ctx, err))
			httpErr.Status = resp.StatusCode
			if refused { // a missing scope (403) concerns only this request, and not the session
				return nil, e.reportUnauthorized(httpErr)
			}
			return nil, httpErr
		}
	}
}

// reportUnauthorized calls OnUnauthorized if no request of the session can get a token.
func (e *Endpoint) reportUnauthorized(httpErr *HTTPError) *HTTPError {
	if httpErr.Permanent && e.OnUnauthorized != nil {
		e.OnUnauthorized(httpErr)
	}
	return httpErr
}

// sendWithCredential sends one request with an access token, and once more if the server
// demands a nonce in the proof of the token (RFC 9449, section 9).
func (e *Endpoint) sendWithCredential(ctx context.Context, r OutgoingRequest, c oauth.Credential) (*http.Response, *HTTPError) {
	header := r.Header
	for repeated := false; ; repeated = true {
		r.Header, r.credential = withCredential(header, &c), c
		resp, httpErr := e.followRedirects(ctx, r)
		if httpErr != nil {
			return nil, httpErr
		}
		if !c.NonceDemanded(resp.StatusCode, resp.Header) {
			e.Auth.NoteNonce(c, resp.Header)
			return resp, nil
		}
		drain(resp.Body)
		next, ok := c.WithNonce(resp.Header)
		if repeated || !ok {
			httpErr := e.unknownIfHostRoundTripper(e.notSentError("the server refuses each DPoP proof, and demands another nonce", "look at the server's log", nil))
			httpErr.Status = resp.StatusCode
			return nil, httpErr
		}
		c = next
	}
}

// withCredential returns a copy of header with an access token. It does not change header,
// which may be shared between requests.
func withCredential(header http.Header, c *oauth.Credential) http.Header {
	value := c.Authorization()
	if value == "" {
		return header
	}
	h := make(http.Header, len(header)+2)
	maps.Copy(h, header)
	h["Authorization"] = []string{value}
	return h
}

// withProof returns a copy of header with a new proof for the token of the request.
func (e *Endpoint) withProof(header http.Header, r *OutgoingRequest, address *url.URL) (http.Header, error) {
	seen := *address
	seen.Host = e.host
	proof, err := r.credential.Proof(r.Method, &seen, r.Body)
	if err != nil {
		return nil, err
	}
	h := make(http.Header, len(header)+1)
	maps.Copy(h, header)
	h["Dpop"] = []string{proof} // the canonical form of DPoP
	return h, nil
}

// tokenError makes the error of a request for which there is no token. The request was not
// sent.
func (e *Endpoint) tokenError(ctx context.Context, err error) *HTTPError {
	var required *mcpvisor.AuthRequired
	var unavailable *oauth.Unavailable
	switch {
	case errors.As(err, &required):
		return &HTTPError{Message: e.CleanText(required.Error()), Hint: "authorize it with mcpvisor authorize, or with Authorize of the client", Err: required,
			Kind: mcpvisor.KindAuthRequired, Outcome: mcpvisor.OutcomeNotSent, CauseKind: supervisor.CauseAuth, Permanent: true}
	case errors.As(err, &unavailable):
		httpErr := e.notSentError(unavailable.Error(), "check the authorization server", nil)
		httpErr.RetryAfter = unavailable.RetryAfter
		return httpErr
	}
	return e.notSentError("the request was canceled before there was a token for "+e.HostPort, "", ctx.Err())
}

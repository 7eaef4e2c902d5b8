package endpoint

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxRepeats bounds how often one request is repeated with another credential. A token of
// package oauth may be refreshed, replaced, and extended by scopes, once each, and each of
// these tokens may need another nonce. Repeating is safe, because a request whose credential
// is refused is not carried out.
const maxRepeats = 7

// sendWithCredential is Do for an endpoint with an authorizer.
func (e *Endpoint) sendWithCredential(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	if r.Method == http.MethodDelete { // the DELETE at the end of a session waits for no credential
		r.credential, _ = hostcall.Value("Auth", func() (mcpvisor.Credential, error) { return e.Auth.Current(), nil })
		return e.followRedirects(ctx, r)
	}
	c, err := hostcall.Value("Auth", func() (mcpvisor.Credential, error) { return e.Auth.Credential(ctx) })
	if err != nil {
		return nil, e.reportUnauthorized(e.credentialError(ctx, err))
	}
	for repeats := 0; ; repeats++ {
		r.credential = c
		resp, httpErr := e.followRedirects(ctx, r)
		if httpErr != nil {
			return nil, httpErr
		}
		c, err = hostcall.Value("Auth", func() (mcpvisor.Credential, error) {
			return e.Auth.Answered(ctx, c, resp.StatusCode, resp.Header)
		})
		switch {
		case err != nil:
			drain(resp.Body)
			httpErr := e.unknownIfHostRoundTripper(e.credentialError(ctx, err))
			httpErr.Status = resp.StatusCode
			if resp.StatusCode == http.StatusUnauthorized { // a missing scope (403) concerns only this request, and not the session
				return nil, e.reportUnauthorized(httpErr)
			}
			return nil, httpErr
		case c == nil || repeats == maxRepeats:
			return resp, nil
		}
		drain(resp.Body)
	}
}

// reportUnauthorized calls OnUnauthorized if no request of the session can get a credential.
func (e *Endpoint) reportUnauthorized(httpErr *HTTPError) *HTTPError {
	if httpErr.Permanent && e.OnUnauthorized != nil {
		e.OnUnauthorized(httpErr)
	}
	return httpErr
}

// withCredential returns a copy of header with what the credential of the request adds. It
// does not change header, which may be shared between requests.
func (e *Endpoint) withCredential(header http.Header, r *OutgoingRequest, address *url.URL) (http.Header, error) {
	own := make(http.Header, len(header)+2)
	maps.Copy(own, header)
	if e.host != address.Host { // the server sees the Host header
		seen := *address
		seen.Host = e.host
		address = &seen
	}
	credential, method, body := r.credential, r.Method, r.Body // r stays on the stack of its owner
	return own, hostcall.Call("Auth", func() error { return credential.SetHeaders(own, method, address, body) })
}

// credentialError makes the error of a request for which there is no credential. The request
// was not sent, or not carried out.
func (e *Endpoint) credentialError(ctx context.Context, err error) *HTTPError {
	var required *mcpvisor.AuthRequired
	var unavailable *mcpvisor.AuthUnavailable
	switch {
	case errors.As(err, &required):
		return &HTTPError{Message: e.CleanText(required.Error()), Hint: "authorize it with mcpvisor authorize, or with Authorize of the client", Err: required,
			Kind: mcpvisor.ErrAuthRequired, Outcome: mcpvisor.OutcomeNotSent, CauseKind: supervisor.CauseAuth, Permanent: true}
	case errors.As(err, &unavailable):
		httpErr := e.notSentError(unavailable.Error(), "check the authorization server", nil)
		if unavailable.Hint != "" {
			httpErr.Hint = unavailable.Hint
		}
		httpErr.RetryAfter = unavailable.RetryAfter
		return httpErr
	case ctx.Err() != nil:
		return e.notSentError("the request was canceled before there was a token for "+e.HostPort, "", ctx.Err())
	}
	return e.notSentError("there is no credential for "+e.HostPort+": "+err.Error(), "check HTTP.Auth", nil)
}

// offersOAuth reports whether a refusal names protected resource metadata, so that tokens can
// be obtained by OAuth (RFC 9728, section 5.1).
func offersOAuth(h http.Header) bool {
	for _, challenge := range h.Values("WWW-Authenticate") {
		if strings.Contains(strings.ToLower(challenge), "resource_metadata=") {
			return true
		}
	}
	return false
}

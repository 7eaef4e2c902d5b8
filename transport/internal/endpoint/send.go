package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxRedirects bounds how many redirects one request follows.
const maxRedirects = 5

// MaxUnprocessedRetries bounds how often one request is repeated because the server
// reported that it had not processed it.
const MaxUnprocessedRetries = 3

// OutgoingRequest is one HTTP request to the endpoint.
type OutgoingRequest struct {
	Method string
	Body   []byte      // nil: the request has no body
	Header http.Header // is not modified
	// Trace records the connection of the request; see [ConnTrace.Context]. Without it
	// the server may have seen the request as soon as Do is called.
	Trace *ConnTrace
	// credential is set by Do; nil: none.
	credential mcpvisor.Credential
}

// Do sends one request, with a credential if the endpoint has an authorizer. A request
// whose credential the server refuses is sent again with another one. Do follows redirects within the origin. The caller closes the body of the
// response.
func (e *Endpoint) Do(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	if e.headerFunc != nil {
		header, err := e.callHeaderFunc(ctx, r.Header)
		if err != nil {
			httpErr := e.notSentError("the request was not sent: "+err.Error(), "check HTTP.HeaderFunc", err)
			httpErr.Kind = mcpvisor.ErrInvalid
			return nil, httpErr
		}
		r.Header = header
	}
	if e.Auth == nil {
		return e.followRedirects(ctx, r)
	}
	return e.sendWithCredential(ctx, r)
}

// callHeaderFunc returns the header of a request with what the HeaderFunc of the ServerSpec
// adds to it.
func (e *Endpoint) callHeaderFunc(ctx context.Context, header http.Header) (http.Header, error) {
	more, err := hostcall.Value("HeaderFunc", func() (map[string]string, error) { return e.headerFunc(ctx) })
	if err != nil {
		return nil, err
	}
	header = maps.Clone(header) // it may be shared
	for name, value := range more {
		control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
		if name == "" || strings.ContainsAny(name, " :") || strings.ContainsFunc(name+value, control) {
			return nil, fmt.Errorf("HeaderFunc returned a header %q that is not usable", name)
		}
		if name = http.CanonicalHeaderKey(name); name != "Host" && !IsProtocolHeader(name) {
			header[name] = []string{value}
		}
	}
	return header, nil
}

// followRedirects sends one request and follows redirects within the origin.
//
// It uses a RoundTripper and no http.Client, because a Client would follow redirects by
// other rules.
func (e *Endpoint) followRedirects(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	address := e.urlFor(r.Method)
	for redirects := 0; ; redirects++ {
		resp, httpErr := e.sendTo(ctx, address, r)
		if httpErr != nil {
			return nil, httpErr
		}
		next := e.redirectURL(resp, r.Method)
		if next == nil || redirects == maxRedirects {
			return resp, nil
		}
		if resp.ContentLength >= 0 && resp.ContentLength <= MaxErrorBody { // the connection can be reused
			drain(resp.Body)
		} else {
			_ = resp.Body.Close()
		}
		address = next
	}
}

// redirectURL returns the address to which a response redirects the request; nil if the
// redirect is not followed. A redirect is followed if it stays within the endpoint's
// origin and keeps the method (RFC 9110, section 15.4). A redirect that is not followed is
// the response of the request.
func (e *Endpoint) redirectURL(resp *http.Response, method string) *url.URL {
	switch resp.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if method != http.MethodGet {
			return nil
		}
	default:
		return nil
	}
	base := e.URL
	if resp.Request != nil && resp.Request.URL != nil {
		base = resp.Request.URL
	}
	next, err := base.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" || !SameOrigin(next, e.URL) {
		return nil
	}
	return next
}

// postURL is the address for POSTs on a session over HTTP+SSE.
type postURL struct {
	url     *url.URL
	secrets *strings.Replacer // replaces the secrets of url, which authorize messages of the session
}

// SendPostsTo makes the endpoint send all later POSTs to address, which has its origin.
func (e *Endpoint) SendPostsTo(address *url.URL) {
	e.postURL.Store(&postURL{url: address, secrets: endpointSecrets(address, nil)})
}

// shownAddress is the address of messages without its secrets, for errors.
func (e *Endpoint) shownAddress() string {
	if p := e.postURL.Load(); p != nil {
		return e.CleanText(BareURL(p.url))
	}
	return e.ShownURL
}

// urlFor returns the address for requests with this method.
func (e *Endpoint) urlFor(method string) *url.URL {
	if p := e.postURL.Load(); p != nil && method == http.MethodPost {
		return p.url
	}
	return e.URL
}

// attempt is what one attempt to send a request needs besides the http.Request. Each attempt
// has its own, because net/http may still read the content of a failed one.
type attempt struct {
	content bytes.Reader // of the request
}

// newAttempt returns an attempt that was not used before: the first one is a part of the
// trace, to save an allocation.
func (r *OutgoingRequest) newAttempt() *attempt {
	if r.Trace == nil || r.Trace.attempted {
		return new(attempt)
	}
	r.Trace.attempted = true
	return &r.Trace.attempt
}

// blankRequest has what all requests have. WithContext copies it.
var blankRequest = &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// sendTo makes one round trip. It repeats a request with a body only if the server has
// certainly not begun to work on it.
//
// The request has no GetBody. With one, net/http would itself repeat requests on weaker
// evidence: a header Idempotency-Key, or PROTOCOL_ERROR on an HTTP/2 stream.
func (e *Endpoint) sendTo(ctx context.Context, address *url.URL, r OutgoingRequest) (*http.Response, *HTTPError) {
	header, err := e.headerWithCookies(address, r.Header)
	if err != nil {
		return nil, e.notSentError("the request was not sent: "+err.Error(), "check the Jar of HTTP.Client", err)
	}
	for tries := 1; ; tries++ {
		if r.Trace != nil {
			r.Trace.reset()
		}
		header := header
		if r.credential != nil { // each attempt may need another one
			if header, err = e.withCredential(header, &r, address); err != nil {
				return nil, e.notSentError("the request was not sent: "+err.Error(), "", err)
			}
		}
		req := blankRequest.WithContext(ctx)
		req.Method, req.URL, req.Host, req.Header = r.Method, address, e.host, header
		a := r.newAttempt()
		if r.Body != nil {
			// net/http recognises NopCloser, and sends header and body in one write.
			a.content.Reset(r.Body)
			req.ContentLength, req.Body = int64(len(r.Body)), io.NopCloser(&a.content)
		}
		resp, err := e.roundTrip(req)
		if err == nil && resp == nil {
			err = errors.New("the RoundTripper returned neither a response nor an error")
		}
		if err == nil {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				// The request did not ask for an upgrade. net/http returns the raw connection
				// as body, and reading that would not end with the exchange.
				_ = resp.Body.Close()
				resp.Body = http.NoBody
			}
			e.keepCookies(address, resp)
			decompress(resp)
			return resp, nil
		}
		sent := r.Trace == nil || e.hostRoundTripper || r.Trace.connected.Load()
		if ctx.Err() != nil {
			return nil, e.canceledError(ctx, err, sent)
		}
		if e.hostRoundTripper {
			return nil, e.unknownIfHostRoundTripper(e.connectError(err, true))
		}
		// Nothing was sent if net/http read nothing of the body, or wrote nothing.
		notWritten := sent && r.Trace != nil && r.Body != nil && (a.content.Len() == len(r.Body) || r.Trace.neverWritten())
		switch {
		case notWritten && r.Trace.reused.Load() && tries <= maxPooled:
			continue // the server had closed the pooled connection while it was idle
		case !isUnprocessed(err):
			return nil, e.connectError(err, sent && !notWritten)
		case tries > MaxUnprocessedRetries:
			httpErr := e.notSentError(e.HostPort+" rejected the request without processing it: "+err.Error(), "try again later", err)
			httpErr.CauseKind = supervisor.CauseClosed
			return nil, httpErr
		}
	}
}

// unknownIfHostRoundTripper changes the outcome NotSent to Unknown, if the application's
// RoundTripper got the request. That RoundTripper may have repeated the request, and its
// last error does not show what happened to the first attempt.
func (e *Endpoint) unknownIfHostRoundTripper(httpErr *HTTPError) *HTTPError {
	if e.hostRoundTripper && httpErr.Outcome == mcpvisor.OutcomeNotSent {
		httpErr.Outcome = mcpvisor.OutcomeUnknown
	}
	return httpErr
}

// roundTrip calls the RoundTripper. It returns a panic as an error: net/http calls functions
// of the application in this goroutine, such as Proxy, and their panic must fail only one
// request.
func (e *Endpoint) roundTrip(req *http.Request) (*http.Response, error) {
	return hostcall.ValueHere("Transport", func() (*http.Response, error) { return e.RoundTripper.RoundTrip(req) })
}

// headerWithCookies returns the header of one request, with the cookies for its address.
func (e *Endpoint) headerWithCookies(address *url.URL, header http.Header) (http.Header, error) {
	if e.jar == nil && !e.hostRoundTripper {
		return header, nil
	}
	header = maps.Clone(header) // header may be shared, and RoundTrippers of applications modify theirs
	if e.jar == nil {
		return header, nil
	}
	cookies, err := hostcall.Value("cookie jar", func() ([]*http.Cookie, error) { return e.jar.Cookies(address), nil })
	if err != nil {
		return nil, err
	}
	carrier := http.Request{Header: header}
	for _, cookie := range cookies {
		if cookie != nil {
			carrier.AddCookie(cookie)
		}
	}
	return header, nil
}

// keepCookies records the cookies of a response.
func (e *Endpoint) keepCookies(address *url.URL, resp *http.Response) {
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if e.jar == nil {
		return
	}
	if cookies := resp.Cookies(); len(cookies) > 0 {
		// If the jar fails, the next request for cookies reports it.
		_ = hostcall.Call("cookie jar", func() error { e.jar.SetCookies(address, cookies); return nil })
	}
}

// isUnprocessed reports whether an HTTP/2 server declared that it did not process a
// request: REFUSED_STREAM, or GOAWAY with an earlier last stream (RFC 9113, section 8.7).
// net/http has no exported error for this. It reports it in the text of the error that it
// returns for a request without GetBody.
func isUnprocessed(err error) bool {
	text, found := strings.CutPrefix(err.Error(), "http2: Transport: cannot retry err [")
	reason, _, _ := strings.Cut(text, "] ")
	return found && (strings.HasSuffix(reason, "graceful shutdown GOAWAY") || strings.Contains(reason, "; REFUSED_STREAM"))
}

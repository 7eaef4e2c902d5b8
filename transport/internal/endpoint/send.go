package endpoint

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

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
	// credential is set by Do.
	credential oauth.Credential
}

// attempt is what one attempt to send a request needs besides the http.Request. Each attempt
// has its own, because net/http may still read the content of a failed one.
type attempt struct {
	content bytes.Reader  // of the request
	body    receivingBody // of the response
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

// sendTo makes one round trip. It repeats a request with a body only if the server has
// certainly not begun to work on it.
//
// The request has no GetBody. With one, net/http would itself repeat requests on weaker
// evidence: a header Idempotency-Key, or PROTOCOL_ERROR on an HTTP/2 stream.
func (e *Endpoint) sendTo(ctx context.Context, target *url.URL, r OutgoingRequest) (*http.Response, *HTTPError) {
	header, err := e.headerWithCookies(target, r.Header)
	if err != nil {
		return nil, e.notSentError("the request was not sent: "+err.Error(), "check the Jar of HTTP.Client", err)
	}
	for tries := 1; ; tries++ {
		if r.Trace != nil {
			r.Trace.reset()
		}
		header := header
		if r.credential.NeedsProof() { // each attempt needs its own
			if header, err = e.withProof(header, &r, target); err != nil {
				return nil, e.notSentError("the request was not sent: "+err.Error(), "", err)
			}
		}
		req := (&http.Request{Method: r.Method, URL: target, Host: e.host, Header: header,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
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
			e.noteResponse(target, resp)
			e.decompress(resp)
			a.body = receivingBody{resp.Body, e}
			resp.Body = &a.body
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
	return hostcall.Value("Transport", func() (*http.Response, error) { return e.RoundTripper.RoundTrip(req) })
}

// headerWithCookies returns the header of one request, with the cookies for its address.
func (e *Endpoint) headerWithCookies(target *url.URL, header http.Header) (http.Header, error) {
	if e.jar == nil && !e.hostRoundTripper {
		return header, nil
	}
	header = maps.Clone(header) // header may be shared, and RoundTrippers of applications modify theirs
	if e.jar == nil {
		return header, nil
	}
	cookies, err := hostcall.Value("cookie jar", func() ([]*http.Cookie, error) { return e.jar.Cookies(target), nil })
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

// noteResponse records when a response arrived, and its cookies.
func (e *Endpoint) noteResponse(target *url.URL, resp *http.Response) {
	e.NoteReceived()
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if e.jar == nil {
		return
	}
	if cookies := resp.Cookies(); len(cookies) > 0 {
		// If the jar fails, the next request for cookies reports it.
		_ = hostcall.Call("cookie jar", func() error { e.jar.SetCookies(target, cookies); return nil })
	}
}

// canceledError makes the error of a request whose context ended. err is the cause of
// that context. It may have nothing to do with this server, and is not interpreted.
func (e *Endpoint) canceledError(ctx context.Context, err error, sent bool) *HTTPError {
	switch {
	case sent:
		return AnswerLost("the request was canceled before "+e.HostPort+" answered", e.CleanError(err))
	case isDeadline(ctx):
		return e.notSentError(e.HostPort+" did not accept the connection in time", "check the network and the URL", err)
	}
	return e.notSentError("the request was canceled before there was a connection to "+e.HostPort, "", err)
}

// ConnectionLost makes the error of a request whose connection ended before the answer
// was complete. Its message is problem followed by the text of err.
func (e *Endpoint) ConnectionLost(problem string, err error) *HTTPError {
	return AnswerLost(display.Shorten(e.CleanText(problem+err.Error()), transport.MaxErrorText), e.CleanError(err))
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

// notSentError makes the error of a request that the server has certainly not seen.
func (e *Endpoint) notSentError(problem, hint string, err error) *HTTPError {
	return &HTTPError{Message: display.Shorten(e.CleanText(problem), transport.MaxErrorText), Hint: hint, Err: e.CleanError(err),
		Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, CauseKind: supervisor.CauseSpawn}
}

// isDeadline reports whether a context ended because its time was up.
func isDeadline(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// offerGzip makes every request offer gzip, as net/http does, and the endpoint decompress
// the responses. net/http would do both by itself, but it would build a second header for
// every request. offerGzip does nothing where net/http would not offer gzip: if the
// application has disabled compression, or has set the header itself.
func (e *Endpoint) offerGzip(t *http.Transport) {
	if t.DisableCompression || e.specHeaders["Accept-Encoding"] != nil || e.specHeaders["Range"] != nil {
		return
	}
	e.specHeaders["Accept-Encoding"] = []string{"gzip"}
	e.decompresses = true
}

// decompress replaces the body of a compressed response. Like net/http it removes the
// headers that describe the compressed body.
func (e *Endpoint) decompress(resp *http.Response) {
	if !e.decompresses || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Body = &gzipBody{packed: resp.Body}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
}

// gzipBody is the decompressed body of a response. The goroutine that reads it owns zip and
// err. Close may be called by any goroutine.
type gzipBody struct {
	packed io.ReadCloser
	zip    *gzip.Reader // nil before the first Read
	err    error        // why zip cannot be made
}

// Read implements io.Reader. The first Read reads the header of the compressed data, which
// may arrive much later than the header of the response.
func (b *gzipBody) Read(p []byte) (int, error) {
	if b.zip == nil && b.err == nil {
		b.zip, b.err = gzip.NewReader(b.packed)
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.zip.Read(p)
}

// Close implements io.Closer.
func (b *gzipBody) Close() error { return b.packed.Close() }

// postTarget is the address for POSTs on a session over HTTP+SSE.
type postTarget struct {
	url     *url.URL
	secrets *strings.Replacer // replaces the secrets of url, which authorize messages of the session
}

// SendPostsTo makes the endpoint send all later POSTs to target, which has its origin.
func (e *Endpoint) SendPostsTo(target *url.URL) {
	e.postTarget.Store(&postTarget{url: target, secrets: endpointSecrets(target, nil)})
}

// urlFor returns the address for requests with this method.
func (e *Endpoint) urlFor(method string) *url.URL {
	if p := e.postTarget.Load(); p != nil && method == http.MethodPost {
		return p.url
	}
	return e.URL
}

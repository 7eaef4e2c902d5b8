package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/supervisor"
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
	header, err := e.headerWithCookies(ctx, target, r.Header)
	if err != nil {
		return nil, e.notSentError("the request was not sent: "+err.Error(), "check the Jar of HTTP.Client", err)
	}
	for tries := 1; ; tries++ {
		if r.Trace != nil {
			r.Trace.reset()
		}
		req := (&http.Request{Method: r.Method, URL: target, Host: e.host, Header: header,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
		a := r.newAttempt()
		if r.Body != nil {
			// net/http recognises NopCloser, and sends header and body in one write.
			a.content.Reset(r.Body)
			req.ContentLength, req.Body = int64(len(r.Body)), io.NopCloser(&a.content)
		}
		resp, err := e.roundTrip(req, r.Trace, a)
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
			e.noteResponse(ctx, target, resp)
			e.decompress(resp)
			a.body.ReadCloser, a.body.endpoint = resp.Body, e
			if a.body.conn != nil && resp.Body == http.NoBody {
				a.body.release()
			}
			resp.Body = &a.body
			return resp, nil
		}
		if errors.Is(err, guard.ErrTooManyAbandoned) {
			return nil, e.notSentError(err.Error(), "fix the Transport of HTTP.Client", err)
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

// roundTrip sends a POST on a connection of the pool, if there is one, and any other request
// through the RoundTripper. It returns a panic as an error: net/http calls functions of the
// application in this goroutine, and their panic must fail only one request.
func (e *Endpoint) roundTrip(req *http.Request, trace *ConnTrace, a *attempt) (resp *http.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			resp, err = nil, guard.PanicError("Transport", v)
		}
	}()
	if e.pool != nil && req.Method == http.MethodPost && trace.isSole(req.Context()) {
		resp, a.body.conn, err = e.pool.roundTrip(req, trace)
		return resp, err
	}
	if trace != nil {
		trace.install()
	}
	return e.RoundTripper.RoundTrip(req)
}

// headerWithCookies returns the header of one request, with the cookies for its address.
func (e *Endpoint) headerWithCookies(ctx context.Context, target *url.URL, header http.Header) (http.Header, error) {
	if e.jar.IsNil() && !e.hostRoundTripper {
		return header, nil
	}
	header = maps.Clone(header) // header may be shared, and RoundTrippers of applications modify theirs
	if e.jar.IsNil() {
		return header, nil
	}
	cookies, err := e.jar.Cookies(ctx, target)
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
func (e *Endpoint) noteResponse(ctx context.Context, target *url.URL, resp *http.Response) {
	e.NoteReceived()
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if e.jar.IsNil() {
		return
	}
	if cookies := resp.Cookies(); len(cookies) > 0 {
		// If the jar fails, the next request for cookies reports it.
		_ = e.jar.SetCookies(ctx, target, cookies)
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
	return AnswerLost(e.CleanText(problem+err.Error()), e.CleanError(err))
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
	return &HTTPError{Message: e.CleanText(problem), Hint: hint, Err: e.CleanError(err),
		Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, CauseKind: supervisor.CauseSpawn}
}

// isDeadline reports whether a context ended because its time was up.
func isDeadline(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

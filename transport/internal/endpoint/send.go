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
	Body   []byte      // nil: the request has none
	Header http.Header // only read
	// Trace records the connection of the request; see [ConnTrace.Attach]. Without it
	// the server may have seen the request as soon as Do is called.
	Trace *ConnTrace
}

// sendTo makes one round trip. It repeats a request with a body only if the server
// has certainly not begun to work on it.
//
// net/http gets no GetBody, because it would repeat requests on weaker evidence: a
// header Idempotency-Key, or PROTOCOL_ERROR on an HTTP/2 stream.
func (e *Endpoint) sendTo(ctx context.Context, target *url.URL, r OutgoingRequest) (*http.Response, *HTTPError) {
	header, err := e.headerWithCookies(ctx, target, r.Header)
	if err != nil {
		return nil, e.notSentError("the request was given up before it was sent: "+err.Error(), "look at the Jar of HTTP.Client", err)
	}
	for tries := 1; ; tries++ {
		if r.Trace != nil {
			r.Trace.reset()
		}
		req := (&http.Request{Method: r.Method, URL: target, Host: e.host, Header: header,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
		content := bytes.NewReader(r.Body)
		if r.Body != nil {
			// net/http recognises NopCloser, and sends header and body in one write.
			req.ContentLength, req.Body = int64(len(r.Body)), io.NopCloser(content)
		}
		resp, err := e.roundTrip(req)
		if err == nil && resp == nil {
			err = errors.New("the RoundTripper returned nothing")
		}
		if err == nil {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				// The request asked for no upgrade. net/http hands out the raw connection as
				// body, and reading it would not end with the exchange.
				_ = resp.Body.Close()
				resp.Body = http.NoBody
			}
			e.noteResponse(ctx, target, resp)
			return resp, nil
		}
		if errors.Is(err, guard.ErrTooManyAbandoned) {
			return nil, e.notSentError(err.Error(), "mend the Transport of HTTP.Client", err)
		}
		sent := r.Trace == nil || e.hostTripper || r.Trace.connected.Load()
		if ctx.Err() != nil {
			return nil, e.canceledError(ctx, err, sent)
		}
		if e.hostTripper {
			return nil, e.unknownIfHostTripper(e.connectError(err, true))
		}
		unread := sent && r.Trace != nil && r.Body != nil && (content.Len() == len(r.Body) || r.Trace.neverWritten())
		switch {
		case unread && r.Trace.reused.Load() && tries <= maxPooled:
			continue // the pooled connection had been closed while it was idle
		case !isUnprocessed(err):
			return nil, e.connectError(err, sent && !unread)
		case tries > MaxUnprocessedRetries:
			f := e.notSentError(e.HostPort+" turned the request away unread: "+err.Error(), "try again later", err)
			f.Cause = supervisor.CauseClosed
			return nil, f
		}
	}
}

// unknownIfHostTripper turns the outcome NotSent into Unknown, if the host's
// RoundTripper got the request. That may have repeated the request itself, and its
// last error says nothing about the first attempt.
func (e *Endpoint) unknownIfHostTripper(f *HTTPError) *HTTPError {
	if e.hostTripper && f.Outcome == mcpvisor.OutcomeNotSent {
		f.Outcome = mcpvisor.OutcomeUnknown
	}
	return f
}

// roundTrip calls the RoundTripper. A panic in a function of the host, which
// net/http calls in this goroutine, fails the one request.
func (e *Endpoint) roundTrip(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			resp, err = nil, guard.PanicError("Transport", v)
		}
	}()
	return e.RoundTripper.RoundTrip(req)
}

// headerWithCookies is the header of one request, with the cookies for its address.
func (e *Endpoint) headerWithCookies(ctx context.Context, target *url.URL, header http.Header) (http.Header, error) {
	if e.jar.IsNil() && !e.hostTripper {
		return header, nil
	}
	header = maps.Clone(header) // RoundTrippers of hosts are known to modify it
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

// noteResponse records the time and the cookies of a response.
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

// canceledError explains a request whose context ended. err is then the cause of
// that context, such as the failed connection of another request, and says nothing
// about this server.
func (e *Endpoint) canceledError(ctx context.Context, err error, sent bool) *HTTPError {
	switch {
	case sent:
		return ConnectionLost("the request was given up before "+e.HostPort+" answered", e.CleanError(err))
	case isDeadline(ctx):
		return e.notSentError(e.HostPort+" did not accept the connection in time", "check the network and the URL", err)
	}
	return e.notSentError("the request was given up before there was a connection to "+e.HostPort, "", err)
}

// ConnectionLost explains a connection that ended before the answer was complete. It
// appends the text of err to problem.
func (e *Endpoint) ConnectionLost(problem string, err error) *HTTPError {
	return ConnectionLost(e.Clean(problem+err.Error()), e.CleanError(err))
}

// isUnprocessed reports whether an HTTP/2 server declared that it did not process a
// request: REFUSED_STREAM, or GOAWAY with an earlier last stream (RFC 9113, section
// 8.7). net/http has no exported error for it. The text is that of its demand for a
// GetBody.
func isUnprocessed(err error) bool {
	text, found := strings.CutPrefix(err.Error(), "http2: Transport: cannot retry err [")
	said, _, _ := strings.Cut(text, "] ")
	return found && (strings.HasSuffix(said, "graceful shutdown GOAWAY") || strings.Contains(said, "; REFUSED_STREAM"))
}

// notSentError is an error of a request that the server has certainly not seen.
func (e *Endpoint) notSentError(problem, hint string, err error) *HTTPError {
	return &HTTPError{Message: e.Clean(problem), Hint: hint, Err: e.CleanError(err),
		Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: supervisor.CauseSpawn}
}

// isDeadline reports whether a context ended because its time was up.
func isDeadline(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

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

// MaxUnprocessedRetries is how often one request is repeated because the server turned
// it away unread.
const MaxUnprocessedRetries = 3

// OutgoingRequest is one request to the endpoint.
type OutgoingRequest struct {
	Method string
	Body   []byte      // nil: the request has none
	Header http.Header // only read
	// Trace records the connection of the request; the context of the request
	// reports to it. Without it the server may always have seen the request.
	Trace *ConnTrace
}

// sendTo makes one round trip. A request with a body is repeated only if it is
// certain that the server has not begun to work on it; net/http is given no
// GetBody, because it takes more than that for leave to repeat: a header
// Idempotency-Key, or PROTOCOL_ERROR on a stream of HTTP/2.
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
			// net/http sees through NopCloser, and sends header and body in one write.
			req.ContentLength, req.Body = int64(len(r.Body)), io.NopCloser(content)
		}
		resp, err := e.roundTrip(req)
		if err == nil && resp == nil {
			err = errors.New("the RoundTripper returned nothing")
		}
		if err == nil {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				// Nobody asked for it, and net/http hands out the connection itself, of
				// which reading ends with nothing that ends the exchange.
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
			continue // a connection that had died while it was idle
		case !isUnprocessed(err):
			return nil, e.connectError(err, sent && !unread)
		case tries > MaxUnprocessedRetries:
			f := e.notSentError(e.HostPort+" turned the request away unread: "+err.Error(), "try again later", err)
			f.Cause = supervisor.CauseClosed
			return nil, f
		}
	}
}

// unknownIfHostTripper makes the outcome of a request Unknown where it would be NotSent,
// if a RoundTripper of the host's was given the request. That may try a request
// several times by itself, and its last error says nothing about the first try.
func (e *Endpoint) unknownIfHostTripper(f *HTTPError) *HTTPError {
	if e.hostTripper && f.Outcome == mcpvisor.OutcomeNotSent {
		f.Outcome = mcpvisor.OutcomeUnknown
	}
	return f
}

// roundTrip makes one round trip. A function of the host's that net/http calls in
// this goroutine, and that panics, costs the one request.
func (e *Endpoint) roundTrip(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			resp, err = nil, guard.PanicError("Transport", v)
		}
	}()
	return e.RoundTripper.RoundTrip(req)
}

// headerWithCookies is the header of one request, with the cookies that belong to it.
func (e *Endpoint) headerWithCookies(ctx context.Context, target *url.URL, header http.Header) (http.Header, error) {
	if e.jar.IsNil() && !e.hostTripper {
		return header, nil
	}
	header = maps.Clone(header) // foreign code is known to write to it
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

// noteResponse notes what every reply tells.
func (e *Endpoint) noteResponse(ctx context.Context, target *url.URL, resp *http.Response) {
	e.NoteReceived()
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if e.jar.IsNil() {
		return
	}
	if cookies := resp.Cookies(); len(cookies) > 0 {
		// One that fails says so when it is asked for cookies.
		_ = e.jar.SetCookies(ctx, target, cookies)
	}
}

// canceledError is the fault of a request whose context ended. The error is then
// whatever somebody gave as the cause of that, another's failed dial perhaps:
// it says nothing about this server.
func (e *Endpoint) canceledError(ctx context.Context, err error, sent bool) *HTTPError {
	switch {
	case sent:
		return ConnectionLost("the request was given up before "+e.HostPort+" answered", e.CleanError(err))
	case isDeadline(ctx):
		return e.notSentError(e.HostPort+" did not accept the connection in time", "check the network and the URL", err)
	}
	return e.notSentError("the request was given up before there was a connection to "+e.HostPort, "", err)
}

// ConnectionLost is the fault of a connection that ended before the answer was whole.
// The error goes behind the problem.
func (e *Endpoint) ConnectionLost(problem string, err error) *HTTPError {
	return ConnectionLost(e.Clean(problem+err.Error()), e.CleanError(err))
}

// isUnprocessed reports whether an HTTP/2 server said that it will not look at a
// request: REFUSED_STREAM, or GOAWAY with an earlier last stream (RFC 9113,
// section 8.7). net/http offers no other handle for it than the text with
// which it asks for a GetBody.
func isUnprocessed(err error) bool {
	text, found := strings.CutPrefix(err.Error(), "http2: Transport: cannot retry err [")
	said, _, _ := strings.Cut(text, "] ")
	return found && (strings.HasSuffix(said, "graceful shutdown GOAWAY") || strings.Contains(said, "; REFUSED_STREAM"))
}

// notSentError is a fault of which it is certain that the server has not seen
// the request.
func (e *Endpoint) notSentError(problem, hint string, err error) *HTTPError {
	return &HTTPError{Message: e.Clean(problem), Hint: hint, Err: e.CleanError(err),
		Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: supervisor.CauseSpawn}
}

// isDeadline reports whether a context ended because its time was up.
func isDeadline(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

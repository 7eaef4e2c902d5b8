package streamable

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// maxStreamResumes bounds how often the event stream of one call is resumed without a
	// new event in between.
	maxStreamResumes = 5
	// firstRetryDelay and maxRetryDelay bound the growing wait between two attempts to open
	// or resume an event stream.
	firstRetryDelay = 500 * time.Millisecond
	maxRetryDelay   = 30 * time.Second
)

// streamProgress is how far the event stream of one call has been read, over all its
// responses.
type streamProgress struct {
	lastID string        // of the last event that has an id
	retry  time.Duration // the delay for which the server asked last
	tries  int           // attempts to resume since the last event with a new id
}

// readStreamAnswer reads events until the answer arrives. It returns the response that it
// read last, for the caller to close; nil if that is closed already. ended says whether the
// end of the stream was reached.
//
// A stream that ends early is resumed if its events carry ids. MCP 2025-03-26 to
// 2025-11-25, Streamable HTTP, "Resumability and Redelivery": the client "SHOULD issue an
// HTTP GET to the MCP endpoint, and include the Last-Event-ID header". MCP 2026-07-28 has
// no resumption.
func (e *exchanger) readStreamAnswer(ex *exchange, resp *http.Response, id int64, ref endpoint.SessionRef) (_ *http.Response, got reply, ended bool, httpErr *endpoint.HTTPError) {
	var p streamProgress
	for {
		got, found, ended, httpErr, err := e.readAnswerEvent(ex, resp, id, &p)
		if found || httpErr != nil {
			return resp, got, ended, httpErr
		}
		_ = resp.Body.Close()
		if ex.ctx.Err() != nil || p.lastID == "" || e.server.isModern() {
			if errors.Is(err, io.EOF) {
				return nil, reply{}, true, endpoint.AnswerLost("the event stream ended without the answer", err)
			}
			return nil, reply{}, true, e.server.endpoint.ConnectionLost("the event stream broke before the answer came: ", err)
		}
		if resp, httpErr = e.resumeStream(ex, &p, ref); httpErr != nil {
			return nil, reply{}, true, httpErr
		}
	}
}

// readAnswerEvent reads the events of one response until the answer arrives. err is why it
// did not. ended says whether the end of the stream was reached. An error without an id is
// the answer if no other one comes within jsonrpc.OrphanGrace.
func (e *exchanger) readAnswerEvent(ex *exchange, resp *http.Response, id int64, p *streamProgress) (got reply, found, ended bool, httpErr *endpoint.HTTPError, err error) {
	events := httpbody.NewEventReader(resp.Body, e.server.spec.Limits.MaxMessageBytes)
	defer events.Close()
	events.Reserver = &ex.reserver
	var orphan *reply
	for {
		event, err := events.Next()
		if err == nil && event.Skipped {
			err = jsonrpc.ErrNoRoom // the exchange ended while the reader waited for memory
		}
		if err != nil && orphan != nil && ex.ctx.Err() == nil {
			return *orphan, true, true, nil, nil
		}
		if err != nil {
			return reply{}, false, events.Ended(), nil, err
		}
		if event.Retry > 0 {
			p.retry = event.Retry
		}
		if event.HasID && event.ID != p.lastID {
			p.lastID, p.tries = event.ID, 0
		}
		got, found, httpErr := e.receiver.handleEvent(event, id)
		switch {
		case found && got.orphan:
			if ex.failAfterGrace(func() { _ = resp.Body.Close() }) {
				orphan = got.orphanAnswer(e.server.endpoint)
			}
		case found || httpErr != nil:
			return got, found, events.Ended(), httpErr, nil
		}
	}
}

// resumeStream asks the server for the rest of a call's event stream, until it succeeds,
// fails for good, or has tried maxStreamResumes times.
func (e *exchanger) resumeStream(ex *exchange, p *streamProgress, ref endpoint.SessionRef) (*http.Response, *endpoint.HTTPError) {
	last := endpoint.AnswerLost("the event stream ended without the answer", nil)
	retry := p.retry // longer if a response to the GET asks for that
	for p.tries < maxStreamResumes {
		p.tries++
		if backoff.Sleep(ex.ctx, nextRetryDelay(p.tries, retry)) != nil {
			return nil, endpoint.AnswerLost("the event stream ended without the answer", ex.ctx.Err())
		}
		resp, httpErr := ex.get(e.server.endpoint, e.server.streamHeader("", p.lastID))
		switch {
		case httpErr != nil && httpErr.ServerGone:
			httpErr.Outcome = mcpvisor.OutcomeUnknown // only the GET was not sent; the call was
			return nil, httpErr
		case httpErr != nil:
			last = httpErr
		case resp.StatusCode == http.StatusOK && endpoint.IsEventStream(resp):
			return resp, nil
		default:
			httpErr = e.streamRefusedError(resp, ref)
			if httpErr.SessionLost || !isTransient(resp.StatusCode) {
				httpErr.Outcome = mcpvisor.OutcomeUnknown
				httpErr.Message = "the event stream ended without the answer and could not be resumed: " + httpErr.Message
				return nil, httpErr
			}
			last = httpErr
			retry = max(retry, httpErr.RetryAfter)
		}
	}
	last.Outcome, last.ConnBroken = mcpvisor.OutcomeUnknown, true
	return nil, last
}

// streamRefusedError makes the error of a GET whose response is not an event stream. It
// closes the response.
func (e *exchanger) streamRefusedError(resp *http.Response, ref endpoint.SessionRef) *endpoint.HTTPError {
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		return endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the server answered HTTP %d without an event stream", resp.StatusCode)
	}
	return e.server.endpoint.StatusError(resp, endpoint.ReadErrorBody(resp), ref)
}

// isTransient reports whether a later attempt to open a stream again may get another
// status. A server that still holds the stream that broke answers 409: the TypeScript SDK
// allows one stream for each session, and one for each call.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status != http.StatusNotImplemented
}

// nextRetryDelay returns the wait before attempt n, counted from 1. serverDelay is the
// delay that the server asked for; 0 if none. Before the first attempt it is the wait, but
// at least reopenDelay. Later the wait grows with n, and is at least serverDelay.
func nextRetryDelay(n int, serverDelay time.Duration) time.Duration {
	if n == 1 && serverDelay > 0 {
		return min(max(serverDelay, reopenDelay), maxRetryDelay)
	}
	d := backoff.Backoff{First: firstRetryDelay, Max: maxRetryDelay}.Delay(n)
	return backoff.WithJitter(min(max(d, serverDelay), maxRetryDelay))
}

package streamable

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/transport"
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
func (s *session) readStreamAnswer(x *exchange, resp *http.Response, id int64, ref endpoint.SessionRef) (_ *http.Response, got reply, ended bool, httpErr *endpoint.HTTPError) {
	var p streamProgress
	for {
		got, found, ended, httpErr, err := s.readAnswerEvent(x, resp, id, &p)
		if found || httpErr != nil {
			return resp, got, ended, httpErr
		}
		_ = resp.Body.Close()
		if x.ctx.Err() != nil || p.lastID == "" || s.isModern() {
			if errors.Is(err, io.EOF) {
				return nil, reply{}, true, endpoint.AnswerLost("the event stream ended without the answer", err)
			}
			return nil, reply{}, true, s.endpoint.ConnectionLost("the event stream broke before the answer came: ", err)
		}
		if resp, httpErr = s.resumeStream(x, &p, ref); httpErr != nil {
			return nil, reply{}, true, httpErr
		}
	}
}

// readAnswerEvent reads the events of one response until the answer arrives. err is why it
// did not. ended says whether the end of the stream was reached. An error without an id is
// the answer if no other one comes within jsonrpc.OrphanGrace.
func (s *session) readAnswerEvent(x *exchange, resp *http.Response, id int64, p *streamProgress) (got reply, found, ended bool, httpErr *endpoint.HTTPError, err error) {
	events := httpbody.NewEventReader(resp.Body, s.spec.Limits.MaxMessageBytes)
	defer events.Close()
	events.Memory = &x.memory
	var orphan *reply
	for {
		e, err := events.Next()
		if err == nil && e.Skipped {
			err = jsonrpc.ErrNoRoom // the exchange ended while the reader waited for memory
		}
		if err != nil && orphan != nil && x.ctx.Err() == nil {
			return *orphan, true, true, nil, nil
		}
		if err != nil {
			return reply{}, false, events.Ended(), nil, err
		}
		if e.Retry > 0 {
			p.retry = e.Retry
		}
		if e.HasID && e.ID != p.lastID {
			p.lastID, p.tries = e.ID, 0
		}
		got, found, httpErr := s.handleEvent(e, id)
		switch {
		case found && got.orphan:
			if x.failAfterGrace(func() { _ = resp.Body.Close() }) {
				orphan = s.smallOrphan(got)
			}
		case found || httpErr != nil:
			return got, found, events.Ended(), httpErr, nil
		}
	}
}

// smallOrphan returns an error without an id as it is kept for jsonrpc.OrphanGrace.
func (s *session) smallOrphan(got reply) *reply {
	e := jsonrpc.ServerError(s.endpoint.CleanJSON(got.errorMember))
	rpc := &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: e.Cause.Error()}
	_ = errors.As(transport.KeptError(e.Cause), &rpc)
	got.errorMember, _ = json.Marshal(rpc) // valid JSON, so it marshals
	return &got
}

// handleEvent handles one event, and returns the answer to the request with this id if
// the event contains it.
func (s *session) handleEvent(e httpbody.Event, id int64) (got reply, found bool, httpErr *endpoint.HTTPError) {
	if e.Skipped {
		s.discarded.Oversize.Add(1)
		return reply{}, false, nil
	}
	if e.Oversize {
		s.discarded.Oversize.Add(1)
		if n, ok := jsonrpc.FindID(e.Data, e.Tail); ok && n == id || !ok && !bytes.Contains(e.Data, []byte(`"method"`)) {
			return reply{}, false, endpoint.OversizeReply(s.spec.Limits.MaxMessageBytes)
		}
		return reply{}, false, nil
	}
	if e.Name != "" && e.Name != "message" {
		return reply{}, false, nil
	}
	text := bytes.TrimSpace(e.Data)
	if len(text) == 0 {
		return reply{}, false, nil
	}
	got, found, httpErr = s.handleMessage(text, id, id != noRequestID) // the stream of a request carries no other answer
	got.result = cloneSmallPart(got.result, text)
	return got, found, httpErr
}

// resumeStream asks the server for the rest of a call's event stream, until it succeeds,
// fails for good, or has tried maxStreamResumes times.
func (s *session) resumeStream(x *exchange, p *streamProgress, ref endpoint.SessionRef) (*http.Response, *endpoint.HTTPError) {
	last := endpoint.AnswerLost("the event stream ended without the answer", nil)
	retry := p.retry // longer if a response to the GET asks for that
	for p.tries < maxStreamResumes {
		p.tries++
		if backoff.Sleep(x.ctx, nextRetryDelay(p.tries, retry)) != nil {
			return nil, endpoint.AnswerLost("the event stream ended without the answer", x.ctx.Err())
		}
		resp, httpErr := x.get(s.endpoint, s.streamHeader(p.lastID, ""))
		switch {
		case httpErr != nil && httpErr.ServerGone:
			httpErr.Outcome = mcpvisor.OutcomeUnknown // only the GET was not sent; the call was
			return nil, httpErr
		case httpErr != nil:
			last = httpErr
		case resp.StatusCode == http.StatusOK && endpoint.IsEventStream(resp):
			return resp, nil
		default:
			httpErr = s.streamRefusedError(resp, ref)
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

// streamHeader returns the header of a GET. version is the protocol version of a session
// that is not open yet; empty for an open session.
func (s *session) streamHeader(lastID, version string) http.Header {
	h := s.sessionHeader(s.agreed.Load())
	if version != "" {
		h["Mcp-Protocol-Version"] = []string{version}
	}
	h["Accept"] = headerEvents
	if lastID != "" {
		h["Last-Event-Id"] = []string{lastID}
	}
	return h
}

// streamRefusedError makes the error of a GET whose response is not an event stream. It
// closes the response.
func (s *session) streamRefusedError(resp *http.Response, ref endpoint.SessionRef) *endpoint.HTTPError {
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		return endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the server answered HTTP %d without an event stream", resp.StatusCode)
	}
	return s.endpoint.StatusError(resp, endpoint.ReadErrorBody(resp), ref)
}

// isModern reports whether the negotiated version is MCP 2026-07-28 or later.
func (s *session) isModern() bool {
	a := s.agreed.Load()
	return a != nil && a.modern
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
// delay that the server asked for; 0 if none. Before the first attempt it is the wait.
// Later the wait grows with n, and is at least serverDelay.
func nextRetryDelay(n int, serverDelay time.Duration) time.Duration {
	if n == 1 && serverDelay > 0 {
		return min(serverDelay, maxRetryDelay)
	}
	d := backoff.Backoff{First: firstRetryDelay, Max: maxRetryDelay}.Delay(n)
	return backoff.WithJitter(min(max(d, serverDelay), maxRetryDelay))
}

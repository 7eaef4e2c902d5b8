package streamable

import (
	"bytes"
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
	// maxStreamResumes bounds how often in a row the stream of one call is resumed
	// without a new event.
	maxStreamResumes = 5
	// firstPause and longestPause bound the growing wait between two tries.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
)

// readStreamAnswer reads events until the answer comes. A stream that ends early is
// resumed if its events carry ids (MCP 2025-03-26 to 2025-11-25, Streamable HTTP,
// "Resumability and Redelivery"). It returns the response that was read last; nil if
// that is already closed.
func (s *session) readStreamAnswer(x *exchange, resp *http.Response, id int64, ref endpoint.SessionRef) (*http.Response, reply, *endpoint.HTTPError) {
	var (
		lastID string
		retry  time.Duration
		tries  int
	)
	for {
		events := httpbody.NewEventReader(resp.Body, s.spec.Limits.MaxMessageBytes)
		events.Reserve, events.Release = x.reserve, x.share.Release
		var err error
		for {
			var e httpbody.Event
			if e, err = events.Next(); err == nil && e.Skipped {
				err = jsonrpc.ErrNoRoom // the exchange has ended meanwhile
			}
			if err != nil {
				break
			}
			if e.Retry > 0 {
				retry = e.Retry
			}
			if e.HasID && e.ID != lastID {
				lastID, tries = e.ID, 0
			}
			if got, found, f := s.handleEvent(e, id); found || f != nil {
				return resp, got, f
			}
		}
		_ = resp.Body.Close()
		if x.ctx.Err() != nil || lastID == "" || s.isModern() {
			if errors.Is(err, io.EOF) {
				return nil, reply{}, endpoint.ConnectionLost("the event stream ended without the answer", err)
			}
			return nil, reply{}, s.endpoint.ConnectionLost("the event stream broke before the answer came: ", err)
		}
		var f *endpoint.HTTPError
		if resp, f = s.resumeStream(x, lastID, retry, &tries, ref); f != nil {
			return nil, reply{}, f
		}
	}
}

// handleEvent handles one event and looks for the answer to the request with this
// id.
func (s *session) handleEvent(e httpbody.Event, id int64) (got reply, found bool, f *endpoint.HTTPError) {
	if e.Skipped {
		s.noise.Oversize.Add(1)
		return reply{}, false, nil
	}
	if e.Oversize {
		s.noise.Oversize.Add(1)
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
	got, found, f = s.handleMessage(text, id, id != noRequestID) // every answer on the stream of a request is meant for that request
	got.result = detachPart(got.result, text)
	return got, found, f
}

// resumeStream asks for the rest of a call's event stream. tries counts the attempts
// since the last event.
func (s *session) resumeStream(x *exchange, lastID string, retry time.Duration, tries *int, ref endpoint.SessionRef) (*http.Response, *endpoint.HTTPError) {
	last := endpoint.ConnectionLost("the event stream ended without the answer", nil)
	for *tries < maxStreamResumes {
		*tries++
		if backoff.Sleep(x.ctx, nextPause(*tries, retry)) != nil {
			return nil, endpoint.ConnectionLost("the event stream ended without the answer", x.ctx.Err())
		}
		resp, f := x.get(s.endpoint, s.streamHeader(lastID, ""))
		switch {
		case f != nil && f.Gone:
			f.Outcome = mcpvisor.OutcomeUnknown // the call itself had been sent
			return nil, f
		case f != nil:
			last = f
		case resp.StatusCode == http.StatusOK && endpoint.IsEventStream(resp):
			return resp, nil
		default:
			f = s.streamRefusedError(resp, ref)
			if f.Lost || !isTransient(resp.StatusCode) {
				f.Outcome = mcpvisor.OutcomeUnknown
				f.Message = "the event stream ended without the answer and could not be resumed: " + f.Message
				return nil, f
			}
			last = f
			retry = max(retry, f.RetryAfter)
		}
	}
	last.Outcome, last.Broken = mcpvisor.OutcomeUnknown, true
	return nil, last
}

// streamHeader is the header of a GET. version is the protocol version for a session
// that is being opened; empty for one that is open.
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

// streamRefusedError explains a response to a GET that is no event stream, and
// closes it.
func (s *session) streamRefusedError(resp *http.Response, ref endpoint.SessionRef) *endpoint.HTTPError {
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		return endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the server answered HTTP %d without an event stream", resp.StatusCode)
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, endpoint.MaxErrorBody))
	return s.endpoint.StatusError(resp, body, ref)
}

func (s *session) isModern() bool {
	a := s.agreed.Load()
	return a != nil && a.modern
}

// isTransient reports whether a later try may get another status.
func isTransient(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
}

// nextPause is the wait before try n, counted from 1: the delay that the server
// asked for at first, growing after that.
func nextPause(n int, asked time.Duration) time.Duration {
	if n == 1 && asked > 0 {
		return min(asked, longestPause)
	}
	d := backoff.Backoff{First: firstPause, Max: longestPause}.Delay(n)
	return backoff.WithJitter(min(max(d, asked), longestPause))
}

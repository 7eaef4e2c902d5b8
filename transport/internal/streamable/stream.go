package streamable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// maxStreamResumes is how often in a row the stream of one call is resumed without
	// a new event.
	maxStreamResumes = 5
	// firstPause and longestPause bound the growing wait between two tries.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
)

// readStreamAnswer reads events until the answer comes. A stream that ends early is
// resumed where its events carry ids (MCP 2025-03-26 to 2025-11-25,
// "Resumability"). It returns the response that was read last; nil if that is
// closed already.
func (s *httpSession) readStreamAnswer(x *exchange, resp *http.Response, id int64, ref sessionRef) (*http.Response, reply, *httpError) {
	var (
		lastID string
		retry  time.Duration
		tries  int
	)
	for {
		events := newSSEReader(resp.Body, s.spec.Limits.MaxMessageBytes)
		events.reserve, events.releaseShare = x.reserve, x.share.Release
		var err error
		for {
			var e sseEvent
			if e, err = events.next(); err == nil && e.crowded {
				err = jsonrpc.ErrNoRoom // the exchange has ended
			}
			if err != nil {
				break
			}
			if e.retry > 0 {
				retry = e.retry
			}
			if e.hasID && e.id != lastID {
				lastID, tries = e.id, 0
			}
			if got, found, f := s.handleEvent(e, id); found || f != nil {
				return resp, got, f
			}
		}
		_ = resp.Body.Close()
		if x.ctx.Err() != nil || lastID == "" || s.isModern() {
			if errors.Is(err, io.EOF) {
				return nil, reply{}, connectionLost("the event stream ended without the answer", err)
			}
			return nil, reply{}, s.endpoint.connectionLost("the event stream broke before the answer came: ", err)
		}
		var f *httpError
		if resp, f = s.resumeStream(x, lastID, retry, &tries, ref); f != nil {
			return nil, reply{}, f
		}
	}
}

// handleEvent looks for the answer to id in one event.
func (s *httpSession) handleEvent(e sseEvent, id int64) (got reply, found bool, f *httpError) {
	if e.crowded {
		s.noise.Oversize.Add(1)
		return reply{}, false, nil
	}
	if e.over {
		s.noise.Oversize.Add(1)
		if n, ok := jsonrpc.FindID(e.data, e.tail); ok && n == id || !ok && !bytes.Contains(e.data, []byte(`"method"`)) {
			return reply{}, false, oversizeReply(s.spec.Limits.MaxMessageBytes)
		}
		return reply{}, false, nil
	}
	if e.name != "" && e.name != "message" {
		return reply{}, false, nil
	}
	text := bytes.TrimSpace(e.data)
	if len(text) == 0 {
		return reply{}, false, nil
	}
	got, found, f = s.handleMessage(text, id, id != noRequestID) // the stream of a request has no error of another
	got.result = detachPart(got.result, text)
	return got, found, f
}

// resumeStream asks for the rest of a call's stream. tries counts what was spent
// since the last event.
func (s *httpSession) resumeStream(x *exchange, lastID string, retry time.Duration, tries *int, ref sessionRef) (*http.Response, *httpError) {
	last := connectionLost("the event stream ended without the answer", nil)
	for *tries < maxStreamResumes {
		*tries++
		if !pause(x.ctx, nextPause(*tries, retry)) {
			return nil, connectionLost("the event stream ended without the answer", x.ctx.Err())
		}
		resp, f := x.get(s.endpoint, s.streamHeader(lastID, ""))
		switch {
		case f != nil && f.gone:
			f.outcome = mcpvisor.OutcomeUnknown // the call itself had been sent
			return nil, f
		case f != nil:
			last = f
		case resp.StatusCode == http.StatusOK && isEventStream(resp):
			return resp, nil
		default:
			f = s.streamRefusedError(resp, ref)
			if f.lost || !isTransient(resp.StatusCode) {
				f.outcome = mcpvisor.OutcomeUnknown
				f.problem = "the event stream ended without the answer and could not be resumed: " + f.problem
				return nil, f
			}
			last = f
			retry = max(retry, f.retryAfter)
		}
	}
	last.outcome, last.broken = mcpvisor.OutcomeUnknown, true
	return nil, last
}

// streamHeader is the header of a GET. version is the protocol version while the
// session is still being opened, when that is not yet agreed.
func (s *httpSession) streamHeader(lastID, version string) http.Header {
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

// streamRefusedError closes a reply to a GET that is no stream and explains it.
func (s *httpSession) streamRefusedError(resp *http.Response, ref sessionRef) *httpError {
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		return invalidReply(mcpvisor.OutcomeUnknown, "the server answered HTTP %d without an event stream", resp.StatusCode)
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return s.endpoint.statusError(resp, body, ref)
}

func (s *httpSession) isModern() bool {
	a := s.agreed.Load()
	return a != nil && a.modern
}

// isTransient reports whether a status may be another one in a moment.
func isTransient(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
}

// nextPause is the wait before try n, from 1: what the server asked for the
// first time, growing after that.
func nextPause(n int, asked time.Duration) time.Duration {
	d := firstPause << min(n-1, 10)
	if n == 1 && asked > 0 {
		return min(asked, longestPause)
	}
	d = min(max(d, asked), longestPause)
	return d + rand.N(d/4+1)
}

// pause waits, and reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

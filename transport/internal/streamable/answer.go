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
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// drainTimeout and maxDrained bound the time and the bytes spent on the rest of a
	// body after its answer. A body that ends within them leaves its connection
	// reusable.
	drainTimeout = time.Second
	maxDrained   = 64 << 10
)

// reply is the answer to one request: a result or an error member, and the session
// id of the response's header.
type reply struct {
	result      json.RawMessage
	errorMember json.RawMessage
	sessionID   string
	// status is the HTTP status if that is an error status; else 0.
	status int
}

// roundTrip sends one request and waits for its answer: in a JSON body, on an event
// stream, or under an error status. It handles the other messages that come before
// the answer.
func (s *session) roundTrip(x *exchange, id int64, body []byte, header http.Header) (reply, *endpoint.HTTPError) {
	if c := s.sse.Load(); c != nil {
		return c.exchange(x, id, body, header)
	}
	ref := endpoint.SessionRefOf(header)
	resp, f := x.post(s.endpoint, body, header)
	if f != nil {
		return reply{}, f
	}
	named := resp.Header.Get("Mcp-Session-Id")
	var got reply
	ended := false // the body was read to its end
	switch {
	case resp.StatusCode < 200 || resp.StatusCode >= 300:
		got, ended, f = s.readRefusal(resp, id, ref, x.reserve)
	case endpoint.IsEventStream(resp):
		resp, got, f = s.readStreamAnswer(x, resp, id, ref) //nolint:bodyclose // leave closes it
	default:
		got, ended, f = s.readBodyAnswer(resp, id, x.reserve)
	}
	if resp != nil {
		s.closeBody(resp.Body, x, f == nil && !ended)
	}
	got.sessionID = named
	if got.errorMember != nil {
		got.errorMember = s.endpoint.CleanJSON(got.errorMember)
	}
	return got, f
}

// closeBody closes the body of an exchange. If the body may continue behind the
// answer, the rest is read in the background, so that the connection can be reused.
func (s *session) closeBody(body io.ReadCloser, x *exchange, more bool) {
	if !more || !x.detach() {
		_ = body.Close()
		return
	}
	s.drainBody(body, x)
}

// drainBody reads the rest of a body in the background and closes it.
func (s *session) drainBody(body io.ReadCloser, x *exchange) {
	if !s.startTask() {
		_ = body.Close()
		x.finishDetached()
		return
	}
	go func() {
		defer s.tasks.Done()
		defer x.finishDetached()
		defer body.Close()
		limit := time.AfterFunc(drainTimeout, x.finishDetached)
		defer limit.Stop()
		_, _ = io.CopyN(io.Discard, body, maxDrained)
	}()
}

// readBodyAnswer finds the answer in a body that is no event stream. It returns as
// soon as the answer is complete. ended says whether the end of the body was
// reached.
func (s *session) readBodyAnswer(resp *http.Response, id int64, reserve func(int) bool) (got reply, ended bool, f *endpoint.HTTPError) {
	limit := s.spec.Limits.MaxMessageBytes
	contentType := resp.Header.Get("Content-Type")
	if endpoint.IsHTML(contentType, nil) {
		return reply{}, true, s.endpoint.HTMLReply(resp.StatusCode)
	}
	b := httpbody.BodyReader{Body: resp.Body, Reserve: reserve}
	body, ended, err := b.ReadUpTo(limit, resp.ContentLength, completeAnswer(resp, id))
	switch {
	case err == httpbody.ErrTooLong:
		s.noise.Oversize.Add(1)
		return reply{}, true, endpoint.OversizeReply(limit)
	case err != nil:
		return reply{}, true, s.endpoint.ConnectionLost("the connection broke in the middle of the answer: ", err)
	}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return reply{}, true, endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the server accepted the request with HTTP %d and did not answer it", resp.StatusCode)
	case endpoint.IsHTML("", body):
		return reply{}, true, s.endpoint.HTMLReply(resp.StatusCode)
	}
	if got, found, f := s.handleMessage(body, id, true); found || f != nil {
		got.result = detachPart(got.result, body)
		return got, ended, f
	}
	if !jsonscan.Valid(body) {
		s.noise.Malformed.Add(1)
		return reply{}, true, endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the answer is not valid JSON, or cut short")
	}
	return reply{}, true, endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the reply holds no answer to the request")
}

// handleMessage handles one message of the server, or a batch, and looks for the
// answer to the request with this id in it. sole says that the text is the whole
// response to that request, so that an error without an id answers it.
func (s *session) handleMessage(text []byte, id int64, sole bool) (got reply, found bool, f *endpoint.HTTPError) {
	if len(text) > 0 && text[0] == '[' {
		return s.handleBatch(text, id, sole)
	}
	env, ok := jsonrpc.ScanEnvelope(text)
	if !ok {
		s.noise.Malformed.Add(1)
		return reply{}, false, nil
	}
	if env.Method == nil && (env.Result != nil || env.Error != nil) {
		n, numeric := env.NumericID()
		orphan := sole && env.Error != nil && (env.ID == nil || string(env.ID) == "null")
		switch {
		case !(numeric && n == id) && !orphan:
			s.noise.Unmatched.Add(1)
			return reply{}, false, nil
		case env.Error != nil:
			return reply{errorMember: env.Error}, true, nil
		case env.Malformed:
			return reply{}, false, endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the result is not valid JSON")
		}
		return reply{result: env.Result}, true, nil
	}
	if env.Method == nil {
		s.noise.Malformed.Add(1)
		return reply{}, false, nil
	}
	if s.notifications.Dispatch(&env, &s.exchanges.requests, &s.noise) {
		return reply{}, false, nil
	}
	s.receiveMessage(text, &env, id)
	return reply{}, false, nil
}

// handleBatch does so for each message of a batch (MCP 2025-03-26). A batch within a
// batch is malformed.
func (s *session) handleBatch(text []byte, id int64, sole bool) (got reply, found bool, f *endpoint.HTTPError) {
	if !jsonscan.Valid(text) {
		return reply{}, false, nil
	}
	if sole {
		n := 0
		jsonscan.EachItem(text, func([]byte) bool { n++; return n < 2 })
		sole = n == 1
	}
	jsonscan.EachItem(text, func(one []byte) bool {
		if one[0] != '{' {
			s.noise.Malformed.Add(1)
			return true
		}
		r, yes, bad := s.handleMessage(one, id, sole)
		if yes {
			got, found = r, true
		}
		f = bad
		return f == nil
	})
	if f != nil {
		return reply{}, false, f
	}
	return got, found, nil
}

// readRefusal interprets a response with an error status. A JSON-RPC error with the
// id of the request is an answer, whatever it says: the server may have worked on
// the request. Under a 404 it may also end the session. An error without an id is an
// answer too, unless the status says more.
func (s *session) readRefusal(resp *http.Response, id int64, ref endpoint.SessionRef, reserve func(int) bool) (got reply, ended bool, f *endpoint.HTTPError) {
	body, ended := s.errorBody(resp, id, reserve)
	f = s.endpoint.StatusError(resp, body[:min(len(body), endpoint.MaxErrorBody)], ref)
	env, ok := jsonrpc.ScanEnvelope(bytes.TrimSpace(body))
	if !ok || env.Error == nil || env.Method != nil {
		return reply{}, ended, f
	}
	var rpc *sdkrpc.Error
	n, numeric := env.NumericID()
	ours := numeric && n == id
	if errors.As(jsonrpc.ServerError(s.endpoint.CleanJSON(env.Error)), &rpc) {
		f.Err = rpc
	}
	switch {
	case f.Kind == mcpvisor.KindAuthRequired, f.Kind == mcpvisor.KindUnavailable:
		return reply{}, ended, f
	case ours:
		if f.Lost && f.Status == http.StatusNotFound && f.Outcome == mcpvisor.OutcomeNotSent {
			s.endWithError(f)
		}
		return reply{errorMember: env.Error, status: resp.StatusCode}, ended, nil
	case !f.Lost && (env.ID == nil || string(env.ID) == "null"):
		return reply{errorMember: env.Error, status: resp.StatusCode}, ended, nil
	}
	return reply{}, ended, f
}

// completeAnswer returns the function that ends the reading of a body early, as soon
// as it holds the answer to the request with this id. It returns nil for a body that
// is complete only at its end: one with a length must be read whole (RFC 9112,
// section 8), and the checksum of a compressed one comes last.
func completeAnswer(resp *http.Response, id int64) func(text []byte) bool {
	if resp.ContentLength >= 0 || resp.Uncompressed {
		return nil
	}
	return func(text []byte) bool { return holdsAnswer(text, id) }
}

// holdsAnswer reports whether a complete body answers the request with this id, or
// refuses a request without an id.
func holdsAnswer(text []byte, id int64) (yes bool) {
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '[' {
		jsonscan.EachItem(text, func(item []byte) bool {
			yes = item[0] == '{' && holdsAnswer(item, id)
			return !yes
		})
		return yes
	}
	env, ok := jsonrpc.ScanEnvelope(text)
	if !ok || env.Method != nil || env.Result == nil && env.Error == nil {
		return false
	}
	n, numeric := env.NumericID()
	return numeric && n == id || env.Error != nil && (env.ID == nil || string(env.ID) == "null")
}

// errorBody reads the body of an error status: its first bytes, or all of it if it
// looks like a JSON-RPC answer. ended says whether the end of the body was reached.
func (s *session) errorBody(resp *http.Response, id int64, reserve func(int) bool) (body []byte, ended bool) {
	b := httpbody.BodyReader{Body: resp.Body, Reserve: reserve}
	enough := completeAnswer(resp, id)
	ended, err := b.Read(endpoint.MaxErrorBody, enough)
	if err == nil && !ended && len(b.Text) == endpoint.MaxErrorBody && bytes.HasPrefix(bytes.TrimSpace(b.Text), []byte("{")) {
		ended, _ = b.Read(s.spec.Limits.MaxMessageBytes, enough)
	}
	return b.Text, ended
}

// maxWaste is how many bytes of a body a kept part of it may hold in memory.
const maxWaste = 1 << 10

// detachPart copies a part of a body that uses less than half of the memory of the
// whole. Otherwise, and where there is little to save, it returns the part itself.
func detachPart(part, whole []byte) []byte {
	if rest := cap(whole) - len(part); rest <= maxWaste || rest <= len(part) {
		return part
	}
	return bytes.Clone(part)
}

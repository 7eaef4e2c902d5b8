package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/messages"
)

const (
	// drainWait and drainMost bound what is spent on an event stream after its
	// answer, so that its connection can be used again.
	drainWait = time.Second
	drainMost = 64 << 10
	// trusted is the longest body for which memory is set aside because the
	// server says so.
	trusted = 1 << 20
)

// reply is the answer to one request: a result or an error member, and the
// session that the server named beside it.
type reply struct {
	result    json.RawMessage
	errorm    json.RawMessage
	sessionID string
}

// exchange sends one request and waits for its answer, in whichever of the
// allowed forms it comes. What else the server says on the way is passed on.
func (s *httpSession) exchange(b *bond, id int64, body []byte, header http.Header) (reply, *fault) {
	hadSession := header["Mcp-Session-Id"] != nil
	resp, f := s.endpoint.do(b, http.MethodPost, body, header)
	if f != nil {
		return reply{}, f
	}
	named := resp.Header.Get("Mcp-Session-Id")
	var got reply
	switch {
	case resp.StatusCode < 200 || resp.StatusCode >= 300:
		got, f = s.refusal(resp, id, hadSession)
	case isEventStream(resp):
		resp, got, f = s.fromStream(b, resp, id, hadSession)
		if f == nil && b.lend() {
			s.drain(resp.Body, b)
			resp = nil
		}
	default:
		got, f = s.fromBody(resp, id)
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	got.sessionID = named
	if got.errorm != nil {
		got.errorm = s.endpoint.cleanJSON(got.errorm)
	}
	return got, f
}

// drain reads the rest of a stream in the background and closes it.
func (s *httpSession) drain(body io.ReadCloser, b *bond) {
	if !s.enter() {
		_ = body.Close()
		b.finishLent()
		return
	}
	go func() {
		defer s.work.Done()
		defer b.finishLent()
		defer body.Close()
		limit := time.AfterFunc(drainWait, b.finishLent)
		defer limit.Stop()
		_, _ = io.CopyN(io.Discard, body, drainMost)
	}()
}

// fromBody finds the answer in a body that is no stream.
func (s *httpSession) fromBody(resp *http.Response, id int64) (reply, *fault) {
	limit := s.spec.Limits.Line
	contentType := resp.Header.Get("Content-Type")
	if isHTML(contentType, nil) {
		return reply{}, s.endpoint.htmlReply(resp.StatusCode)
	}
	body, err := readUpTo(resp.Body, limit, resp.ContentLength)
	switch {
	case err == errTooLong:
		s.noise.oversize.Add(1)
		return reply{}, oversizeReply(limit)
	case err != nil:
		return reply{}, s.endpoint.broken("the connection broke in the middle of the answer: ", err)
	}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return reply{}, badReply(messages.Unknown, "the server accepted the request with HTTP %d and did not answer it", resp.StatusCode)
	case isHTML("", body):
		return reply{}, s.endpoint.htmlReply(resp.StatusCode)
	}
	if got, found, f := s.answerIn(body, id, true); found || f != nil {
		return got, f
	}
	if !jsonscan.Valid(body) {
		s.noise.junk.Add(1)
		return reply{}, badReply(messages.Unknown, "the answer is not valid JSON, or cut short")
	}
	return reply{}, badReply(messages.Unknown, "the reply holds no answer to the request")
}

// answerIn looks for the answer to id in one message or a batch, and passes
// everything else on. sole means that the text is the whole reply to that one
// request, so that an error without id is meant for it.
func (s *httpSession) answerIn(text []byte, id int64, sole bool) (got reply, found bool, f *fault) {
	if len(text) > 0 && text[0] == '[' {
		return s.answerInBatch(text, id, sole)
	}
	env, ok := scanEnvelope(text)
	if !ok {
		s.noise.junk.Add(1)
		return reply{}, false, nil
	}
	if env.method == nil && (env.result != nil || env.errorm != nil) {
		n, numeric := env.numericID()
		orphan := sole && env.errorm != nil && (env.id == nil || string(env.id) == "null")
		switch {
		case !(numeric && n == id) && !orphan:
			s.noise.unmatched.Add(1)
			return reply{}, false, nil
		case env.errorm != nil:
			return reply{errorm: env.errorm}, true, nil
		case env.malformed:
			return reply{}, false, badReply(messages.Answered, "the result is not valid JSON")
		}
		return reply{result: env.result}, true, nil
	}
	if env.method == nil {
		s.noise.junk.Add(1)
		return reply{}, false, nil
	}
	if string(env.method) == methodProgress && env.id == nil && !env.malformed {
		s.progressed(env.params)
		return reply{}, false, nil
	}
	if env.id == nil && !env.malformed {
		switch s.notices.take(env.method, env.params) {
		case noNotice:
		case noticeBad:
			s.noise.junk.Add(1)
			return reply{}, false, nil
		case noticeDropped:
			s.noise.dropped.Add(1)
			return reply{}, false, nil
		default:
			return reply{}, false, nil
		}
	}
	s.heardMessage(text, id)
	return reply{}, false, nil
}

// answerInBatch does that for each message of a batch (2025-03-26). A batch in
// a batch is junk.
func (s *httpSession) answerInBatch(text []byte, id int64, sole bool) (got reply, found bool, f *fault) {
	if !jsonscan.Valid(text) {
		return reply{}, false, nil
	}
	if sole {
		n := 0
		eachItem(text, func([]byte) bool { n++; return n < 2 })
		sole = n == 1
	}
	eachItem(text, func(one []byte) bool {
		if one[0] != '{' {
			s.noise.junk.Add(1)
			return true
		}
		r, yes, bad := s.answerIn(one, id, sole)
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

// refusal makes sense of a reply with an error status. A JSON-RPC error with
// the request's id is an answer like any other, whatever it says: the server may
// have worked on the request. Under a 404 it can end the session besides. An
// error without id is an answer too, unless the status says more.
func (s *httpSession) refusal(resp *http.Response, id int64, hadSession bool) (reply, *fault) {
	body := s.errorBody(resp)
	f := s.endpoint.statusFault(resp, body[:min(len(body), maxErrorBody)], hadSession)
	env, ok := scanEnvelope(bytes.TrimSpace(body))
	if !ok || env.errorm == nil || env.method != nil {
		return reply{}, f
	}
	var rpc *jsonrpc.Error
	n, numeric := env.numericID()
	ours := numeric && n == id
	if errors.As(rpcError(s.endpoint.cleanJSON(env.errorm)), &rpc) {
		f.err = rpc
	}
	switch {
	case f.kind == messages.KindAuthRequired, f.kind == messages.KindUnavailable:
		return reply{}, f
	case ours:
		if f.lost && f.status == http.StatusNotFound && f.outcome == messages.NotSent {
			s.endBy(f)
		}
		return reply{errorm: env.errorm}, nil
	case !f.lost && (env.id == nil || string(env.id) == "null"):
		return reply{errorm: env.errorm}, nil
	}
	return reply{}, f
}

// errorBody reads the body of an error status: the beginning of what it says, or
// all of what may be an answer.
func (s *httpSession) errorBody(resp *http.Response) []byte {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if more := int64(s.spec.Limits.Line - len(body)); more > 0 && len(body) == maxErrorBody && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		rest, _ := io.ReadAll(io.LimitReader(resp.Body, more))
		body = append(body, rest...)
	}
	return body
}

var errTooLong = errors.New("too long")

// readUpTo reads everything, or fails with errTooLong beyond limit bytes.
func readUpTo(r io.Reader, limit int, expected int64) ([]byte, error) {
	if expected > int64(limit) {
		return nil, errTooLong
	}
	if expected >= 0 && expected <= trusted {
		whole := make([]byte, expected)
		_, err := io.ReadFull(r, whole)
		return whole, err
	}
	var buf bytes.Buffer
	if expected > 0 {
		buf.Grow(trusted + bytes.MinRead)
	}
	most := min(int64(limit), math.MaxInt64-1)
	n, err := buf.ReadFrom(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, errTooLong
	}
	return buf.Bytes(), nil
}

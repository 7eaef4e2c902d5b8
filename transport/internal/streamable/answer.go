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
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// reply is the answer to one request: a result or an error member, and the session id in
// the header of the response.
type reply struct {
	result      json.RawMessage
	errorMember json.RawMessage
	sessionID   string
	// status is the HTTP status of an error; 0 if the status was 2xx.
	status int
	// orphan: errorMember is of an error without an id, which may be about another message;
	// see jsonrpc/remarks.go.
	orphan bool
}

// callError returns the error of a call with this answer; nil if it is a result.
func (r reply) callError() error {
	if r.errorMember == nil {
		return nil
	}
	e := jsonrpc.ServerError(r.errorMember)
	if r.orphan {
		e = jsonrpc.OrphanError(e)
	}
	return e
}

// orphanAnswer returns an error without an id as it is kept for jsonrpc.OrphanGrace: small.
func (r reply) orphanAnswer(from *endpoint.Endpoint) *reply {
	e := jsonrpc.ServerError(from.CleanJSON(r.errorMember))
	rpc := &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: e.Cause.Error()}
	_ = errors.As(transport.KeptError(e.Cause), &rpc)
	r.errorMember, _ = json.Marshal(rpc) // valid JSON, so it marshals
	return &r
}

// roundTrip sends one request and waits for its answer: in a JSON body, on an event
// stream, or in the body of an error status. It handles the other messages that arrive
// before the answer.
func (e *exchanger) roundTrip(ex *exchange, id int64, body []byte, header http.Header) (got reply, httpErr *endpoint.HTTPError) {
	if c := e.sse.Load(); c != nil {
		got, httpErr = c.roundTrip(ex, id, body, header)
	} else {
		got, httpErr = e.postAndReceive(ex, id, body, header)
	}
	if httpErr == nil && got.errorMember == nil && !e.life.answered.Load() {
		e.life.answered.Store(true)
	}
	// An error with an error status may be that of a proxy whose backend is gone.
	if httpErr == nil && (verdictOf(got, nil) == provesLife || got.errorMember != nil && got.status < http.StatusMultipleChoices) {
		e.life.received.Note()
	}
	return got, httpErr
}

// postAndReceive is roundTrip over Streamable HTTP.
func (e *exchanger) postAndReceive(ex *exchange, id int64, body []byte, header http.Header) (reply, *endpoint.HTTPError) {
	ref := e.sessionRef()
	resp, httpErr := ex.post(e.server.endpoint, body, header)
	if httpErr != nil {
		return reply{}, httpErr
	}
	named := resp.Header.Get("Mcp-Session-Id")
	var got reply
	var ended bool // the body was read to its end
	switch {
	case resp.StatusCode < 200 || resp.StatusCode >= 300:
		got, ended, httpErr = e.readErrorStatus(resp, id, ref, &ex.reserver)
	case endpoint.IsEventStream(resp):
		resp, got, ended, httpErr = e.readStreamAnswer(ex, resp, id, ref) //nolint:bodyclose // closeBody closes it
	default:
		got, ended, httpErr = e.readBodyAnswer(resp, id, &ex.reserver)
	}
	if resp != nil {
		e.closeBody(resp.Body, ex, httpErr == nil && !ended)
	}
	got.sessionID = named
	if got.errorMember != nil {
		got.errorMember = e.server.endpoint.CleanJSON(got.errorMember)
	}
	return got, httpErr
}

// readBodyAnswer reads the answer from a body that is not an event stream. It returns as
// soon as the answer is complete. reserver is for a large body. ended says whether the end
// of the body was reached.
func (e *exchanger) readBodyAnswer(resp *http.Response, id int64, reserver httpbody.Reserver) (got reply, ended bool, httpErr *endpoint.HTTPError) {
	limit := e.server.spec.Limits.MaxMessageBytes
	contentType := resp.Header.Get("Content-Type")
	if endpoint.IsHTML(contentType, nil) {
		return reply{}, true, e.server.endpoint.HTMLReply(resp.StatusCode)
	}
	b := httpbody.BodyReader{Body: resp.Body, Reserver: reserver}
	body, ended, err := b.ReadUpTo(limit, resp.ContentLength, completeAnswer(resp, id))
	switch {
	case err == httpbody.ErrTooLong:
		e.receiver.discarded.Oversize.Add(1)
		return reply{}, true, endpoint.OversizeReply(limit)
	case err != nil:
		return reply{}, true, e.server.endpoint.ConnectionLost("the connection broke in the middle of the answer: ", err)
	}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return reply{}, true, endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the server accepted the request with HTTP %d and did not answer it", resp.StatusCode)
	case endpoint.IsHTML("", body):
		return reply{}, true, e.server.endpoint.HTMLReply(resp.StatusCode)
	}
	if got, found, httpErr := e.receiver.handleMessage(body, id, true); found || httpErr != nil {
		got.result = cloneSmallPart(got.result, body)
		got.orphan = false // the whole response is that error
		return got, ended, httpErr
	}
	if !jsonscan.Valid(body) {
		e.receiver.discarded.Malformed.Add(1)
		return reply{}, true, endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the answer is not valid JSON, or cut short")
	}
	return reply{}, true, endpoint.InvalidReply(mcpvisor.OutcomeUnknown, "the reply holds no answer to the request")
}

// readErrorStatus interprets a response with an error status.
//
//   - A JSON-RPC error with the id of the request is an answer, whatever its message says,
//     because the server may have acted on the request. A 404 whose message repeats the
//     status, or is that of an SDK, also ends the session.
//   - An error without an id is an answer, unless the status explains more.
//   - Otherwise the status is the error.
//
// A body that breaks, or stalls for BodyTimeout, is used as far as it has arrived. It proves
// nothing about the request: it may have been going to say that a tool has acted.
func (e *exchanger) readErrorStatus(resp *http.Response, id int64, ref endpoint.SessionRef, reserver httpbody.Reserver) (got reply, ended bool, httpErr *endpoint.HTTPError) {
	late := endpoint.LimitTime(resp.Body)
	body, ended, broke := e.errorBody(resp, &progressReader{resp.Body, late}, id, reserver)
	late.Stop()
	httpErr = e.server.endpoint.StatusError(resp, body[:min(len(body), endpoint.MaxErrorBody)], ref)
	if broke && httpErr.Outcome == mcpvisor.OutcomeNotSent {
		httpErr.Outcome = mcpvisor.OutcomeUnknown
	}
	env, ok := jsonrpc.ScanEnvelope(bytes.TrimSpace(body))
	if !ok || env.Error == nil || env.Method != nil {
		return reply{}, ended, httpErr
	}
	var rpc *sdkrpc.Error
	n, numeric := env.NumericID()
	hasOurID := numeric && n == id
	if errors.As(jsonrpc.ServerError(e.server.endpoint.CleanJSON(env.Error)), &rpc) {
		httpErr.Err = rpc
	}
	switch {
	case httpErr.Kind == mcpvisor.ErrAuthRequired, httpErr.Kind == mcpvisor.ErrUnavailable:
		return reply{}, ended, httpErr
	case hasOurID:
		if httpErr.SessionLost && httpErr.Status == http.StatusNotFound && httpErr.Outcome == mcpvisor.OutcomeNotSent {
			e.life.lose(httpErr)
		}
		return reply{errorMember: env.Error, status: resp.StatusCode}, ended, nil
	case !httpErr.SessionLost && isErrorWithoutID(&env):
		return reply{errorMember: env.Error, status: resp.StatusCode}, ended, nil
	}
	return reply{}, ended, httpErr
}

// completeAnswer returns the function that stops the reading of a body as soon as the body
// contains the answer to the request with this id. It returns nil for a body that must be
// read to its end: a body with a length (RFC 9112, section 8), and a compressed body,
// whose checksum comes last.
func completeAnswer(resp *http.Response, id int64) func(text []byte) bool {
	if resp.ContentLength >= 0 || resp.Uncompressed {
		return nil
	}
	return func(text []byte) bool { return holdsAnswer(text, id) }
}

// holdsAnswer reports whether a text is the answer to the request with this id, or an
// error without an id, or a batch that contains one of them.
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
	return numeric && n == id || isErrorWithoutID(&env)
}

// isErrorWithoutID reports whether a response is an error that does not name its request
// (JSON-RPC 2.0, section 5: "If there was an error in detecting the id in the Request
// object […], it MUST be Null"). Some servers omit the id instead.
func isErrorWithoutID(env *jsonrpc.Envelope) bool {
	return env.Error != nil && (env.ID == nil || string(env.ID) == "null")
}

// progressReader reads a body, and gives the server BodyTimeout again for each piece of it.
type progressReader struct {
	body io.Reader
	late *overdue.Timer // of LimitTime
}

// Read implements io.Reader.
func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if n > 0 {
		r.late.Reset(endpoint.BodyTimeout)
	}
	return n, err
}

// errorBody reads the body of an error status from r: its first MaxErrorBody bytes, or all of
// it if it may be a JSON-RPC answer. ended says whether the end of the body was reached, and
// broke whether reading failed before.
func (e *exchanger) errorBody(resp *http.Response, r io.Reader, id int64, reserver httpbody.Reserver) (body []byte, ended, broke bool) {
	b := httpbody.BodyReader{Body: r, Reserver: reserver}
	enough := completeAnswer(resp, id)
	ended, err := b.Read(endpoint.MaxErrorBody, enough)
	if err == nil && !ended && len(b.Text) == endpoint.MaxErrorBody && bytes.HasPrefix(bytes.TrimSpace(b.Content()), []byte("{")) {
		ended, err = b.Read(e.server.spec.Limits.MaxMessageBytes, enough)
	}
	return b.Content(), ended, err != nil
}

// maxExtraRetained bounds how many bytes of a body a small result may keep in memory.
const maxExtraRetained = 1 << 10

// cloneSmallPart returns a copy of part, so that part does not keep the memory of whole.
// It returns part itself if that is at least half of whole, or if the copy would free at
// most maxExtraRetained bytes. Then part has no spare capacity, because other messages in
// whole belong to other callers.
func cloneSmallPart(part, whole []byte) []byte {
	if rest := cap(whole) - len(part); rest <= maxExtraRetained || rest <= len(part) {
		return part[:len(part):len(part)]
	}
	return bytes.Clone(part)
}

const (
	// drainTimeout and maxDrained bound the time and the bytes spent on the rest of a body
	// after its answer. If the body ends within these bounds, its connection can be reused.
	drainTimeout = time.Second
	maxDrained   = 64 << 10
	// maxDrains bounds how many bodies of one session are read after their answers at the
	// same time. Each occupies a connection, and some servers never end a body.
	maxDrains = 64
)

// startDrain lets an answered exchange continue, so that its response can be read to its end.
// The caller calls endDrain after that. It reports false if the exchange is to end now:
// because its caller is gone, or because too many are read already.
func (e *exchanger) startDrain(ex *exchange) bool {
	if e.draining.Add(1) <= maxDrains && ex.detach() {
		return true
	}
	e.draining.Add(-1)
	return false
}

func (e *exchanger) endDrain(ex *exchange) {
	ex.finishDetached()
	e.draining.Add(-1)
}

// closeBody closes the body of an exchange. more says that the body may continue after the
// answer. Then the rest is read in the background, so that the connection can be reused.
func (e *exchanger) closeBody(body io.ReadCloser, ex *exchange, more bool) {
	if !more || !e.startDrain(ex) {
		_ = body.Close()
		return
	}
	started := e.life.goTask(func() {
		defer e.endDrain(ex)
		defer body.Close()
		limit := time.AfterFunc(drainTimeout, ex.finishDetached)
		defer limit.Stop()
		_, _ = io.CopyN(io.Discard, body, maxDrained)
	})
	if !started {
		_ = body.Close()
		e.endDrain(ex)
	}
}

package streamable

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxStreamDelay bounds how long the opening of the event stream may delay the opening of
// the session.
const maxStreamDelay = 2 * time.Second

// sdkTransport is the RoundTripper of the go-sdk's streamable client. The go-sdk ends its
// session after one response that it does not accept: an error status, a truncated body, a
// rejected reconnect. Therefore sdkTransport returns only responses that it accepts, or the
// error of one exchange.
type sdkTransport struct{ n *negotiation }

// RoundTrip implements http.RoundTripper.
func (t *sdkTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodPost:
		defer req.Body.Close()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		env, _ := jsonrpc.ScanEnvelope(body)
		if id, ok := env.NumericID(); ok && env.Method != nil {
			return t.sendRequest(req, id, string(bytes.Trim(env.Method, `"`)), body)
		}
		return t.sendNotification(req, body)
	case http.MethodGet:
		return t.openStream(req), nil
	default:
		// A DELETE. The session sends its own, because Close of the go-sdk would wait for it
		// with a bound of its own.
		return newResponse(req, http.StatusNoContent, "", http.NoBody), nil
	}
}

// sendRequest sends a request of the go-sdk, and returns its answer as a JSON
// response.
//
// It decides what a failure of server/discover means for the following initialize, and
// falls back to HTTP+SSE. It stores in lastError what explains a failed start.
func (t *sdkTransport) sendRequest(req *http.Request, id int64, method string, body []byte) (*http.Response, error) {
	n := t.n
	var unauthorized *endpoint.HTTPError // the error of server/discover, if it explains a later error better
	if earlier := n.lastError.Load(); method == "initialize" && earlier != nil {
		switch {
		case earlier.IsUnavailable():
			return nil, earlier
		case earlier.Kind == mcpvisor.KindAuthRequired:
			unauthorized = earlier
		}
	}
	if method == "initialize" && n.era == mcpvisor.EraModern && n.server.spec.Era == mcpvisor.EraModern {
		httpErr := n.modernEraError()
		n.lastError.Store(httpErr)
		return nil, httpErr
	}
	// After any error of server/discover the go-sdk sends initialize. While the era is
	// unknown, Timeouts.Negotiate bounds server/discover; otherwise only the start does.
	timeout := time.Duration(0)
	if method == "server/discover" && n.era == mcpvisor.EraAuto {
		timeout = n.server.spec.Timeouts.Negotiate
	}
	ex := n.exchanger.table.start(req.Context(), timeout)
	defer ex.finish()
	defer ex.reserver.share.Release()
	got, httpErr := n.exchanger.roundTrip(ex, id, body, t.header(req))
	if method == "initialize" && n.shouldTrySSE(got, httpErr) {
		// ex ends when the body of the rejected POST is read to its end, so the fallback
		// needs its own exchange.
		fallback := n.exchanger.table.start(req.Context(), 0)
		defer fallback.finish()
		defer fallback.reserver.share.Release()
		got, httpErr = n.retryOverSSE(fallback, id, body, t.header(req), got, httpErr)
	}
	switch {
	case httpErr != nil:
		n.eraUncertain = n.eraUncertain || method == "server/discover" && !httpErr.RejectsRequest()
		n.lastError.Store(cmp.Or(unauthorized, httpErr))
		if httpErr.SessionLost || httpErr.ServerGone && n.server.agreed.Load() != nil {
			n.life.lose(httpErr)
		}
		return nil, httpErr
	case got.errorMember != nil:
		n.lastError.Store(unauthorized)
	default:
		n.lastError.Store(nil)
	}
	if err := jsonrpc.CheckBounds(got.result, jsonrpc.AnswerBounds); err != nil {
		httpErr := endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q holds %v", method, err)
		n.lastError.Store(httpErr)
		return nil, httpErr
	}
	message, err := got.message(id)
	if err != nil {
		httpErr := endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q is not valid JSON-RPC", method)
		httpErr.Err = err
		n.lastError.Store(httpErr)
		return nil, httpErr
	}
	if method == "server/discover" && got.errorMember != nil {
		httpErr := discoveryError(got.errorMember)
		n.eraUncertain = httpErr != nil
		n.lastError.Store(httpErr)
	}
	resp := newResponse(req, http.StatusOK, "application/json", io.NopCloser(bytes.NewReader(message)))
	if method == "initialize" && got.sessionID != "" {
		// MCP 2025-11-25, Streamable HTTP, "Session Management": the server assigns the id
		// in the response to initialize. The first id counts; later ids are ignored.
		n.server.sessionID.CompareAndSwap(nil, &got.sessionID)
		resp.Header.Set("Mcp-Session-Id", got.sessionID)
	}
	return resp, nil
}

// sendNotification sends a notification of the go-sdk. It ignores an error status, unless
// that means that the session is lost or authorization is required.
func (t *sdkTransport) sendNotification(req *http.Request, body []byte) (*http.Response, error) {
	ex := t.n.exchanger.table.start(req.Context(), 0)
	defer ex.finish()
	if httpErr := t.n.exchanger.post(ex, body, t.header(req)); httpErr != nil {
		t.n.lastError.Store(httpErr)
		return nil, httpErr
	}
	return newResponse(req, http.StatusAccepted, "", http.NoBody), nil
}

// openStream opens the event stream of the server when the go-sdk asks for it. The go-sdk
// itself gets the answer that there is none, because it needs no message of the server.
//
// A standaloneStream keeps the stream open as long as the session lasts. A server that sends
// no header before its first event delays the opening of the session by at most
// maxStreamDelay.
func (t *sdkTransport) openStream(req *http.Request) *http.Response {
	n := t.n
	none := newResponse(req, http.StatusMethodNotAllowed, "", http.NoBody)
	if n.exchanger.sse.Load() != nil || !n.life.startTask() { // HTTP+SSE has one stream, which is open already
		return none
	}
	stream := &standaloneStream{exchanger: n.exchanger, ex: n.exchanger.table.start(req.Context(), 0),
		version: req.Header.Get("Mcp-Protocol-Version"), ready: make(chan struct{})}
	go func() {
		defer n.life.tasks.Done()
		defer stream.ex.finish()
		stream.maintain()
	}()
	limit := maxStreamDelay
	if negotiate := n.server.spec.Timeouts.Negotiate; negotiate > 0 {
		limit = min(limit, negotiate)
	}
	wait := time.NewTimer(limit)
	defer wait.Stop()
	select {
	case <-stream.ready:
	case <-wait.C:
	case <-stream.ex.ctx.Done():
	}
	return none
}

// header returns the header fields of the go-sdk that belong to the protocol, with those
// of the endpoint and the session id. Other fields of the go-sdk are dropped, because only
// the ServerSpec decides which headers are sent.
func (t *sdkTransport) header(req *http.Request) http.Header {
	h := t.n.server.endpoint.NewHeader(len(req.Header))
	for name, values := range req.Header {
		if endpoint.IsProtocolHeader(name) && name != "Content-Length" {
			h[name] = values
		}
	}
	h.Del("Mcp-Session-Id")
	if id := t.n.server.sessionID.Load(); id != nil {
		h.Set("Mcp-Session-Id", *id)
	}
	return h
}

// newResponse makes a response for the go-sdk.
func newResponse(req *http.Request, status int, contentType string, body io.ReadCloser) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Request: req, Body: body, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header),
	}
	if contentType != "" {
		resp.Header.Set("Content-Type", contentType)
	}
	return resp
}

// message returns an answer in the form that the go-sdk can read. Some servers repeat ids
// as strings, omit "jsonrpc", or send a string as error.
func (r reply) message(id int64) ([]byte, error) {
	m := struct {
		Version string          `json:"jsonrpc"`
		ID      int64           `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"`
		Error   *sdkrpc.Error   `json:"error,omitempty"`
	}{Version: "2.0", ID: id, Result: r.result}
	if r.errorMember != nil {
		m.Result = nil
		if e := jsonrpc.ServerError(r.errorMember); !errors.As(e, &m.Error) {
			return nil, e
		}
	}
	return json.Marshal(m)
}

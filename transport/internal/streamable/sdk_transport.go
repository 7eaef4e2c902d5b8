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

// sdkTransport is the RoundTripper of the go-sdk's streamable client. The go-sdk ends its
// session after one response that it does not accept: an error status, a truncated body, a
// rejected reconnect. Therefore sdkTransport returns only responses that it accepts, or the
// error of one exchange.
type sdkTransport struct{ s *session }

// RoundTrip implements http.RoundTripper.
func (c *sdkTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodPost:
		defer req.Body.Close()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		env, _ := jsonrpc.ScanEnvelope(body)
		if id, ok := env.NumericID(); ok && env.Method != nil {
			return c.sendRequest(req, id, string(bytes.Trim(env.Method, `"`)), body)
		}
		return c.sendNotification(req, body)
	case http.MethodGet:
		return c.s.openSDKStream(req)
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
func (c *sdkTransport) sendRequest(req *http.Request, id int64, method string, body []byte) (*http.Response, error) {
	s := c.s
	var unauthorized *endpoint.HTTPError // the error of server/discover, if it explains a later error better
	if earlier := s.lastError.Load(); method == "initialize" && earlier != nil {
		switch {
		case earlier.IsUnavailable():
			return nil, earlier
		case earlier.Kind == mcpvisor.KindAuthRequired:
			unauthorized = earlier
		}
	}
	if method == "initialize" && s.era == mcpvisor.EraModern && s.spec.Era == mcpvisor.EraModern {
		httpErr := s.modernEraError()
		s.lastError.Store(httpErr)
		return nil, httpErr
	}
	// After any error of server/discover the go-sdk sends initialize. While the era is
	// unknown, Timeouts.Negotiate bounds server/discover; otherwise only the start does.
	timeout := time.Duration(0)
	if method == "server/discover" && s.era == mcpvisor.EraAuto {
		timeout = s.spec.Timeouts.Negotiate
	}
	x := s.startExchange(req.Context(), timeout)
	defer x.finish()
	defer x.memory.share.Release()
	got, httpErr := s.roundTrip(x, id, body, c.header(req))
	if method == "initialize" && s.shouldTrySSE(got, httpErr) {
		// x ends when the body of the rejected POST is read to its end, so the fallback
		// needs its own exchange.
		fallback := s.startExchange(req.Context(), 0)
		defer fallback.finish()
		defer fallback.memory.share.Release()
		got, httpErr = s.retryOverSSE(fallback, id, body, c.header(req), got, httpErr)
	}
	switch {
	case httpErr != nil:
		s.eraUncertain = s.eraUncertain || method == "server/discover" && !httpErr.RejectsRequest()
		s.lastError.Store(cmp.Or(unauthorized, httpErr))
		if httpErr.SessionLost || httpErr.ServerGone && s.agreed.Load() != nil {
			s.endWithError(httpErr)
		}
		return nil, httpErr
	case got.errorMember != nil:
		s.lastError.Store(unauthorized)
	default:
		s.lastError.Store(nil)
	}
	if err := jsonrpc.CheckBounds(got.result, jsonrpc.AnswerBounds); err != nil {
		httpErr := endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q holds %v", method, err)
		s.lastError.Store(httpErr)
		return nil, httpErr
	}
	message, err := got.message(id)
	if err != nil {
		httpErr := endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q is not valid JSON-RPC", method)
		httpErr.Err = err
		s.lastError.Store(httpErr)
		return nil, httpErr
	}
	if method == "server/discover" && got.errorMember != nil {
		httpErr := s.discoveryError(got.errorMember)
		s.eraUncertain = httpErr != nil
		s.lastError.Store(httpErr)
	}
	resp := newResponse(req, http.StatusOK, "application/json", io.NopCloser(bytes.NewReader(message)))
	if method == "initialize" && got.sessionID != "" {
		// MCP 2025-11-25, Streamable HTTP, "Session Management": the server assigns the id
		// in the response to initialize. The first id counts; later ids are ignored.
		s.sessionID.CompareAndSwap(nil, &got.sessionID)
		resp.Header.Set("Mcp-Session-Id", got.sessionID)
	}
	return resp, nil
}

// sendNotification sends a notification of the go-sdk. It ignores an error status, unless
// that means that the session is lost or authorization is required.
func (c *sdkTransport) sendNotification(req *http.Request, body []byte) (*http.Response, error) {
	x := c.s.startExchange(req.Context(), 0)
	defer x.finish()
	if httpErr := c.s.postMessage(x, body, c.header(req)); httpErr != nil {
		return nil, httpErr
	}
	return newResponse(req, http.StatusAccepted, "", http.NoBody), nil
}

// postMessage sends a message that has no answer. It ends the session if the response
// shows that the session or the server is gone.
func (s *session) postMessage(x *exchange, body []byte, header http.Header) *endpoint.HTTPError {
	s.countPost()
	resp, httpErr := x.post(s.endpoint, body, header)
	if httpErr == nil {
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			httpErr = s.endpoint.StatusError(resp, endpoint.ReadErrorBody(resp), s.sessionRef())
			if !httpErr.SessionLost && httpErr.Kind != mcpvisor.KindAuthRequired {
				s.log.Debug().Str("reply", httpErr.Message).Msg("server did not accept a message")
				httpErr = nil
			}
		}
	}
	if httpErr != nil {
		s.lastError.Store(httpErr)
		if httpErr.SessionLost || httpErr.ServerGone && s.agreed.Load() != nil {
			s.endWithError(httpErr)
		}
	}
	return httpErr
}

// header returns the header fields of the go-sdk that belong to the protocol, with those
// of the endpoint and the session id. Other fields of the go-sdk are dropped, because only
// the ServerSpec decides which headers are sent.
func (c *sdkTransport) header(req *http.Request) http.Header {
	h := c.s.endpoint.NewHeader(len(req.Header))
	for name, values := range req.Header {
		if endpoint.IsProtocolHeader(name) && name != "Content-Length" {
			h[name] = values
		}
	}
	h.Del("Mcp-Session-Id")
	if id := c.s.sessionID.Load(); id != nil {
		h.Set("Mcp-Session-Id", *id)
	}
	return h
}

// endWithError ends the session because of an error that is SessionLost or ServerGone. The
// server then has no session to delete.
func (s *session) endWithError(httpErr *endpoint.HTTPError) {
	s.skipDelete.Store(true)
	s.end(httpErr.EndCause(s.endpoint.Target))
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

// streamHeaderTimeout returns how long the opening of the event stream may delay the
// opening of the session.
func (s *session) streamHeaderTimeout() time.Duration {
	const most = 2 * time.Second
	if limit := s.spec.Timeouts.Negotiate; limit > 0 {
		return min(limit, most)
	}
	return most
}

package streamable

import (
	"bytes"
	"cmp"
	"context"
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

// sdkTransport is the RoundTripper of the go-sdk's streamable client. The go-sdk
// ends its session after one response that it does not accept: a status, a truncated
// body, a refused reconnect. So it only gets responses that it accepts, or the error
// of one exchange.
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
		return c.deleteSession(req)
	}
}

// sendRequest sends a request of the go-sdk, and returns its answer as a JSON
// response.
func (c *sdkTransport) sendRequest(req *http.Request, id int64, method string, body []byte) (*http.Response, error) {
	s := c.s
	var unauthorized *endpoint.HTTPError // the refusal of server/discover, which may explain the next error
	if earlier := s.lastError.Load(); method == "initialize" && earlier != nil {
		switch {
		case earlier.IsUnavailable():
			return nil, earlier
		case earlier.Kind == mcpvisor.KindAuthRequired:
			unauthorized = earlier
		}
	}
	if method == "initialize" && s.era == mcpvisor.EraModern && s.spec.Era == mcpvisor.EraModern {
		f := s.modernEraError()
		s.lastError.Store(f)
		return nil, f
	}
	// After any error of server/discover the go-sdk sends initialize. A server that is
	// known to be modern gets all the time that it needs; any other one gets
	// Timeouts.Negotiate.
	patience := time.Duration(0)
	if method == "server/discover" && s.era == mcpvisor.EraAuto {
		patience = s.spec.Timeouts.Negotiate
	}
	x := s.startExchange(req.Context(), patience)
	defer x.finish()
	defer x.share.Release()
	got, f := s.roundTrip(x, id, body, c.header(req))
	if method == "initialize" && s.mayBeSSE(got, f) {
		// x ends with the rest of the refused POST, so HTTP+SSE needs an exchange of its
		// own.
		fallback := s.startExchange(req.Context(), 0)
		defer fallback.finish()
		defer fallback.share.Release()
		got, f = s.retryOverSSE(fallback, id, body, c.header(req), got, f)
	}
	switch {
	case f != nil:
		s.eraUncertain = s.eraUncertain || method == "server/discover" && !f.RejectsRequest()
		s.lastError.Store(cmp.Or(unauthorized, f))
		if f.Lost || f.Gone && s.agreed.Load() != nil {
			s.endWithError(f)
		}
		return nil, f
	case got.errorMember != nil:
		s.lastError.Store(unauthorized)
	default:
		s.lastError.Store(nil)
	}
	if err := jsonrpc.CheckBounds(got.result, jsonrpc.AnswerBounds); err != nil {
		f := endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q holds %v", method, err)
		s.lastError.Store(f)
		return nil, f
	}
	message, err := got.message(id)
	if err != nil {
		f := endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q is not valid JSON-RPC", method)
		f.Err = err
		s.lastError.Store(f)
		return nil, f
	}
	if method == "server/discover" && got.errorMember != nil {
		f := s.discoveryError(got.errorMember)
		s.eraUncertain = f != nil
		s.lastError.Store(f)
	}
	resp := plainResponse(req, http.StatusOK, "application/json", io.NopCloser(bytes.NewReader(message)))
	if method == "initialize" && got.sessionID != "" {
		// The first session id counts; later ones are ignored.
		s.sessionID.CompareAndSwap(nil, &got.sessionID)
		resp.Header.Set("Mcp-Session-Id", got.sessionID)
	}
	return resp, nil
}

// sendNotification sends a notification of the go-sdk. It ignores the response,
// unless that says that the session or the permission is missing.
func (c *sdkTransport) sendNotification(req *http.Request, body []byte) (*http.Response, error) {
	x := c.s.startExchange(req.Context(), 0)
	defer x.finish()
	if f := c.s.postMessage(x, body, c.header(req)); f != nil {
		return nil, f
	}
	return plainResponse(req, http.StatusAccepted, "", http.NoBody), nil
}

// postMessage sends a message that has no answer. It ends the session if the
// response says so.
func (s *session) postMessage(x *exchange, body []byte, header http.Header) *endpoint.HTTPError {
	s.countPost()
	resp, f := x.post(s.endpoint, body, header)
	if f == nil {
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			said, _ := io.ReadAll(io.LimitReader(resp.Body, endpoint.MaxErrorBody))
			f = s.endpoint.StatusError(resp, said, s.sessionRef())
			if !f.Lost && f.Kind != mcpvisor.KindAuthRequired {
				s.log.Debug().Str("reply", f.Message).Msg("server did not accept a message")
				f = nil
			}
		}
	}
	if f != nil {
		s.lastError.Store(f)
		if f.Lost || f.Gone && s.agreed.Load() != nil {
			s.endWithError(f)
		}
	}
	return f
}

// deleteSession sends the DELETE that ends a session at the server.
// Timeouts.Shutdown bounds it, and a failure is only logged.
func (c *sdkTransport) deleteSession(req *http.Request) (*http.Response, error) {
	s := c.s
	done := plainResponse(req, http.StatusNoContent, "", http.NoBody)
	if s.forgotten.Load() {
		return done, nil
	}
	ctx := req.Context()
	if limit := s.spec.Timeouts.Shutdown; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	resp, f := s.endpoint.Do(ctx, endpoint.OutgoingRequest{Method: http.MethodDelete, Header: c.header(req)})
	if f != nil {
		s.log.Debug().Str("reason", f.Message).Msg("session was not deleted at the server")
		return done, nil
	}
	_ = resp.Body.Close()
	return done, nil
}

// header keeps the header fields of the go-sdk that belong to the protocol, and adds
// those of the endpoint.
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

// endWithError ends the session because of an error that is Lost or Gone.
func (s *session) endWithError(f *endpoint.HTTPError) {
	s.forgotten.Store(true)
	s.end(f.EndCause(s.endpoint.Target))
}

func plainResponse(req *http.Request, status int, contentType string, body io.ReadCloser) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Request: req, Body: body, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header),
	}
	if contentType != "" {
		resp.Header.Set("Content-Type", contentType)
	}
	return resp
}

// message writes an answer in the form that the go-sdk can read. Some servers repeat
// ids as strings, omit "jsonrpc", or send a bare string as error.
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

// streamHeaderTimeout bounds how long the opening of the event stream delays the
// opening of the session.
func (s *session) streamHeaderTimeout() time.Duration {
	const most = 2 * time.Second
	if limit := s.spec.Timeouts.Negotiate; limit > 0 {
		return min(limit, most)
	}
	return most
}

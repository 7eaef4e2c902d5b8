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

// sdkTransport is the RoundTripper that the go-sdk's streamable client works
// through. The go-sdk gives the whole session up over one reply that it does
// not like (a status, a truncated body, a reconnect that is refused); so it
// only ever gets to see replies that it likes, or an error of one exchange.
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

// sendRequest sends a request of the go-sdk's and returns its answer.
func (c *sdkTransport) sendRequest(req *http.Request, id int64, method string, body []byte) (*http.Response, error) {
	s := c.s
	var unauthorized *endpoint.HTTPError // a refusal of server/discover that may be the reason for what comes next
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
	// Any error makes the go-sdk go on with initialize. A server whose era is
	// known to be modern is given the time that it needs.
	patience := time.Duration(0)
	if method == "server/discover" && s.era == mcpvisor.EraAuto {
		patience = s.spec.Timeouts.Negotiate
	}
	x := s.startExchange(req.Context(), patience)
	defer x.finish()
	defer x.share.Release()
	got, f := s.roundTrip(x, id, body, c.header(req))
	if method == "initialize" && s.mayBeSSE(got, f) {
		// x ends with the rest of the refused POST.
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
		// Later changes of it are not believed.
		s.sessionID.CompareAndSwap(nil, &got.sessionID)
		resp.Header.Set("Mcp-Session-Id", got.sessionID)
	}
	return resp, nil
}

// sendNotification sends a notification of the go-sdk's. What the server says
// to it is of no consequence, unless it is that the session or the permission
// is missing.
func (c *sdkTransport) sendNotification(req *http.Request, body []byte) (*http.Response, error) {
	x := c.s.startExchange(req.Context(), 0)
	defer x.finish()
	if f := c.s.postMessage(x, body, c.header(req)); f != nil {
		return nil, f
	}
	return plainResponse(req, http.StatusAccepted, "", http.NoBody), nil
}

// postMessage posts a message that has no answer, and draws the conclusions of
// what the server says to it.
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

// deleteSession sends the DELETE at the end of a session, for as long as there is time
// for politeness.
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

// header takes over what the go-sdk says about the protocol.
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

// endWithError ends the session because of a fault that means its end.
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

// message writes an answer the way the go-sdk can read it: servers have been
// seen to repeat ids as strings, to leave out "jsonrpc", and to send a bare
// string as error.
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

// streamHeaderTimeout is how long the opening of the event stream may hold up the
// opening of the session.
func (s *session) streamHeaderTimeout() time.Duration {
	const most = 2 * time.Second
	if limit := s.spec.Timeouts.Negotiate; limit > 0 {
		return min(limit, most)
	}
	return most
}

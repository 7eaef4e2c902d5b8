package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// confirmTimeout bounds the check whether a server is alive after a connection broke.
	// The error of the call is delayed by that check.
	confirmTimeout = time.Second
	// notifyTimeout bounds the POST of a notification, such as a cancellation.
	notifyTimeout = 2 * time.Second
)

// Shared header values; net/http does not change them.
var (
	headerJSON   = []string{"application/json"}
	headerBoth   = []string{"application/json, text/event-stream"}
	headerEvents = []string{"text/event-stream"}
)

// Request implements Session. "Every JSON-RPC message sent from the client MUST be a new
// HTTP POST request to the MCP endpoint" (MCP 2025-11-25, Streamable HTTP, "Sending Messages
// to the Server").
func (s *session) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if died := s.Cause(); died != nil {
		return nil, jsonrpc.DeathError(died, mcpvisor.OutcomeNotSent)
	}
	a := s.agreed.Load()
	if a == nil {
		return nil, &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: jsonrpc.ErrNotOpen}
	}
	if err := ctx.Err(); err != nil {
		return nil, jsonrpc.RequestError(ctx, nil, mcpvisor.OutcomeNotSent, err)
	}
	return a.sender.Request(ctx, r)
}

// sendRequest sends a request once and returns its result. The shutdown of the session
// waits for the exchange, but not for the caller's Progress function.
func (s *session) sendRequest(ctx context.Context, a *agreement, r transport.Request) (json.RawMessage, error) {
	if !s.startTask() {
		return nil, jsonrpc.DeathError(s.Cause(), mcpvisor.OutcomeNotSent)
	}
	x := s.startRequest(ctx, r)
	jsonrpc.NotifySent(&r, x.id())
	if x.entry.Progress != nil {
		return s.sendWithProgress(x, a, r)
	}
	defer s.tasks.Done()
	defer x.finish()
	result, err := s.sendExchange(x, a, r)
	x.handOverBuffer(r, err)
	return result, err
}

// sendExchange runs the exchange of a request, and turns its answer into a result or an
// error.
func (s *session) sendExchange(x *exchange, a *agreement, r transport.Request) (json.RawMessage, error) {
	header, err := s.callHeader(a, r)
	if err != nil {
		return nil, &mcpvisor.Error{Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	got, httpErr := s.roundTrip(x, x.id(), requestBody(x.id(), r, a.meta), header)
	if httpErr != nil {
		return nil, s.callError(x, a, httpErr)
	}
	if err := got.callError(); err != nil {
		return nil, err
	}
	return got.result, nil
}

// requestBody returns a request as the body of a POST, in one allocation.
func requestBody(id int64, r transport.Request, meta json.RawMessage) []byte {
	const rest = 128 // enough for the other members and the progress token
	return jsonrpc.AppendRequest(make([]byte, 0, len(r.Method)+len(r.Params)+len(r.Meta)+len(meta)+rest), id, r, meta)
}

// sendWithProgress sends a request whose caller gets progress reports. The exchange runs
// in its own goroutine. The calling goroutine only calls the caller's Progress function,
// which may block. If that function panics, the exchange is canceled.
func (s *session) sendWithProgress(x *exchange, a *agreement, r transport.Request) (result json.RawMessage, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.tasks.Done()
		defer x.finish()
		result, err = s.sendExchange(x, a, r)
	}()
	finished := false
	defer func() {
		if !finished {
			x.end(context.Canceled, context.Canceled)
			<-done
			x.handOverBuffer(r, context.Canceled)
		}
	}()
	for answered := false; !answered; {
		select {
		case <-done:
			answered = true
		case <-x.entry.Progress.Ready:
		}
		x.entry.Progress.Deliver()
	}
	finished = true
	x.handOverBuffer(r, err)
	return result, err
}

// callHeader returns the header of a request on the call channel. Calls of a legacy
// session share it, so it must not be changed. It fails if arguments of the call that
// headers must repeat do not fit into them.
//
// Building a header for each call would allocate on the hot path. Only a modern session
// needs that, because its headers repeat the method, the name and arguments of the call
// (MCP 2026-07-28, Streamable HTTP). Two goroutines may build the shared header at the same
// time; both results are equal, and the last one is kept.
func (s *session) callHeader(a *agreement, r transport.Request) (http.Header, error) {
	id := s.sessionID.Load()
	shared := s.sharedHeader.Load()
	if shared == nil || shared.agreed != a || shared.sessionID != id {
		shared = &sharedHeader{agreed: a, sessionID: id, header: s.sessionHeader(a)}
		shared.header["Content-Type"], shared.header["Accept"] = headerJSON, headerBoth
		s.sharedHeader.Store(shared)
	}
	if !a.modern {
		return shared.header, nil
	}
	h := make(http.Header, len(shared.header)+3)
	maps.Copy(h, shared.header)
	h["Mcp-Method"] = []string{r.Method}
	switch r.Method {
	case "tools/call", "prompts/get", "resources/read":
		h["Mcp-Name"] = []string{headerparams.Value(r.Target)}
	}
	if r.Method == "tools/call" {
		return h, s.params.AddTo(h, r)
	}
	return h, nil
}

// sharedHeader is the header that all calls of a legacy session share, with the agreement
// and the session id for which it was built. It is not changed.
type sharedHeader struct {
	agreed    *agreement
	sessionID *string
	header    http.Header
}

// sessionHeader returns a new header with the session id and the protocol version. MCP
// 2025-11-25, Streamable HTTP, "Session Management": clients "MUST include it in the
// MCP-Session-Id header on all of their subsequent HTTP requests". a is nil before the
// negotiation has ended.
func (s *session) sessionHeader(a *agreement) http.Header {
	h := s.endpoint.NewHeader(8)
	if a != nil {
		h["Mcp-Protocol-Version"] = []string{a.info.ProtocolVersion}
	}
	if id := s.sessionID.Load(); id != nil {
		h["Mcp-Session-Id"] = []string{*id}
	}
	return h
}

// callError returns the error of a call that failed with httpErr. It ends the session if
// httpErr proves that the session or the server is gone. After a broken connection it
// checks whether the server is alive. It cancels a request on which a legacy server may
// still work.
func (s *session) callError(x *exchange, a *agreement, httpErr *endpoint.HTTPError) error {
	s.serverRequests.CancelOfCall(x.id())
	switch {
	case httpErr.SessionLost || httpErr.ServerGone:
		s.endWithError(httpErr)
	case httpErr.ConnBroken && x.ctx.Err() == nil:
		s.confirmAlive(x.ctx, a)
	}
	if httpErr.Outcome == mcpvisor.OutcomeAnswered {
		return httpErr.CallError()
	}
	if died := s.Cause(); died != nil {
		return jsonrpc.DeathError(died, httpErr.Outcome)
	}
	if x.ctx.Err() != nil {
		if httpErr.Outcome == mcpvisor.OutcomeUnknown && !a.modern { // for a modern server the end of the connection is the cancellation
			s.notifyCancelled(x, a)
		}
		e := jsonrpc.RequestError(x.ctx, nil, httpErr.Outcome, httpErr)
		if e.Kind == mcpvisor.KindTimeout && e.Cause == nil {
			e.Cause = httpErr.Remark
		}
		return e
	}
	return httpErr.CallError()
}

// confirmAlive checks whether a server whose connection broke is still alive, and ends
// the session if not. So a crash is not reported as an invalid reply. Calls that broke
// together share one check. confirmAlive returns when the check ends, when ctx ends, when
// the session dies, or after confirmTimeout.
func (s *session) confirmAlive(ctx context.Context, a *agreement) {
	s.mu.Lock()
	checked := s.aliveCheck
	if checked == nil {
		if !s.startTaskLocked() {
			s.mu.Unlock()
			return
		}
		checked = make(chan struct{})
		s.aliveCheck = checked
		go func() {
			defer s.tasks.Done()
			s.pingServer(a)
			s.mu.Lock()
			s.aliveCheck = nil
			s.mu.Unlock()
			close(checked)
		}()
	}
	s.mu.Unlock()
	select {
	case <-checked:
	case <-s.Dead():
	case <-ctx.Done():
	}
}

// pingServer sends the cheapest request of the protocol. Any answer proves that the server
// is alive. It ends the session if the server or the session is gone.
func (s *session) pingServer(a *agreement) {
	ctx, cancel := context.WithTimeout(s.ctx, confirmTimeout)
	defer cancel()
	r := transport.Request{Method: "ping"}
	if a.modern {
		r.Method = "server/discover"
	}
	x := s.startRequest(ctx, r)
	defer x.finish()
	defer x.memory.share.Release()
	header, _ := s.callHeader(a, r) // it fails for tools only
	_, httpErr := s.roundTrip(x, x.id(), requestBody(x.id(), r, a.meta), header)
	if httpErr != nil && (httpErr.SessionLost || httpErr.ServerGone) {
		s.endWithError(httpErr)
	}
}

// notifyCancelled notifies a legacy server that a request is canceled (MCP 2025-11-25,
// Cancellation), because for a legacy server the end of the connection is not a
// cancellation: "Disconnection SHOULD NOT be interpreted as the client cancelling its
// request" (Streamable HTTP). It does not wait for the delivery.
func (s *session) notifyCancelled(x *exchange, a *agreement) {
	err, _ := jsonrpc.ContextEnd(x.ctx)
	s.notifyServer(a, jsonrpc.Cancelled(x.id(), errors.Is(err, context.DeadlineExceeded)))
}

// notifyServer sends a notification to the server in the background. It does not wait for
// the delivery.
func (s *session) notifyServer(a *agreement, body []byte) {
	if !s.startTask() {
		return
	}
	go func() {
		defer s.tasks.Done()
		ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
		defer cancel()
		h := s.sessionHeader(a)
		h["Content-Type"], h["Accept"] = headerJSON, headerBoth
		s.countPost()
		resp, httpErr := s.endpoint.Do(ctx, endpoint.OutgoingRequest{Method: http.MethodPost, Body: body, Header: h})
		if httpErr == nil {
			_ = resp.Body.Close()
		}
	}()
}

package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// confirmTimeout bounds the check whether a server is alive after a connection
	// broke, and so the delay of the error of a broken call.
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

// Request implements Session.
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
	if !a.modern {
		result, err := s.sendRequest(ctx, a, r)
		if list := s.handshake.Observe(r.Method, err); list != "" {
			s.checkHandshake(a, list)
		}
		return result, err
	}
	began := time.Now()
	result, err := s.sendRequest(ctx, a, r)
	if err == nil && inbound.NeedsInput(r.Method, result) {
		return s.handler.ContinueWithInput(ctx, r, began, result, func(ctx context.Context, r transport.Request) (json.RawMessage, error) {
			return s.sendRequest(ctx, a, r)
		})
	}
	return result, err
}

// checkHandshake ends the session if the server has lost its handshake. It does so
// in the background.
func (s *session) checkHandshake(a *agreement, list string) {
	if !s.startTask() {
		return
	}
	go func() {
		defer s.tasks.Done()
		cause := s.handshake.Check(s.ctx, list, func(ctx context.Context, r transport.Request) (json.RawMessage, error) {
			return s.sendRequest(ctx, a, r)
		})
		if cause != nil {
			s.end(cause)
		}
	}()
}

// sendRequest sends a request once. The shutdown of the session waits for the
// exchange, and not for functions of the caller.
func (s *session) sendRequest(ctx context.Context, a *agreement, r transport.Request) (json.RawMessage, error) {
	if !s.startTask() {
		return nil, jsonrpc.DeathError(s.Cause(), mcpvisor.OutcomeNotSent)
	}
	x := s.startRequest(ctx, r)
	jsonrpc.NotifySent(r.Stream, x.id())
	if x.entry.Progress != nil {
		return s.sendWithProgress(x, a, r)
	}
	defer s.tasks.Done()
	defer x.finish()
	result, err := s.sendExchange(x, a, r)
	x.keep(r, err)
	return result, err
}

func (s *session) sendExchange(x *exchange, a *agreement, r transport.Request) (json.RawMessage, error) {
	got, f := s.roundTrip(x, x.id(), jsonrpc.AppendRequest(nil, x.id(), r, a.meta), s.callHeader(a, r))
	if f != nil {
		return nil, s.callError(x, a, f)
	}
	if got.errorMember != nil {
		return nil, jsonrpc.ServerError(got.errorMember)
	}
	if a.modern && r.Method == "tools/list" {
		s.params.Learn(got.result, isFirstPage(r.Params), s.spec.Limits.MaxItems)
	}
	return got.result, nil
}

// isFirstPage reports whether a list request asks for the first page.
func isFirstPage(params json.RawMessage) bool { return !bytes.Contains(params, []byte(`"cursor"`)) }

// sendWithProgress sends a request whose caller gets progress reports. The exchange
// runs in a goroutine of its own, and this one only calls the caller's function, for
// as long as that takes. If that panics, the exchange is cancelled.
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
			x.keep(r, context.Canceled)
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
	x.keep(r, err)
	return result, err
}

// callHeader is the header of a request on the call channel. It may be shared
// between calls and must not be changed.
func (s *session) callHeader(a *agreement, r transport.Request) http.Header {
	id := s.sessionID.Load()
	plain := s.sharedHeader.Load()
	if plain == nil || plain.agreed != a || plain.sessionID != id {
		plain = &sharedHeader{agreed: a, sessionID: id, header: s.sessionHeader(a)}
		plain.header["Content-Type"], plain.header["Accept"] = headerJSON, headerBoth
		s.sharedHeader.Store(plain)
	}
	if !a.modern {
		return plain.header
	}
	h := make(http.Header, len(plain.header)+3)
	maps.Copy(h, plain.header)
	h["Mcp-Method"] = []string{r.Method}
	switch r.Method {
	case "tools/call", "prompts/get", "resources/read":
		h["Mcp-Name"] = []string{headerparams.Value(r.Target)}
	}
	if r.Method == "tools/call" {
		s.params.AddTo(h, r)
	}
	return h
}

// sharedHeader is the header that all calls of a legacy session share, with the
// agreement and the session id for which it was built.
type sharedHeader struct {
	agreed    *agreement
	sessionID *string
	header    http.Header
}

// sessionHeader begins a header that names the session and the protocol version.
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

// callError is the error of a call that failed with f. It ends the session if f says
// so, checks whether the server is alive after a broken connection, and cancels a
// request on which a legacy server may still work.
func (s *session) callError(x *exchange, a *agreement, f *endpoint.HTTPError) error {
	s.serverRequests.CancelOfCall(x.id())
	switch {
	case f.Lost || f.Gone:
		s.endWithError(f)
	case f.Broken && x.ctx.Err() == nil:
		s.confirmAlive(x.ctx, a)
	}
	if f.Outcome == mcpvisor.OutcomeAnswered {
		return f.CallError()
	}
	if died := s.Cause(); died != nil {
		return jsonrpc.DeathError(died, f.Outcome)
	}
	if x.ctx.Err() != nil {
		if f.Outcome == mcpvisor.OutcomeUnknown && !a.modern { // a modern server is told by the end of the connection
			s.notifyCancelled(x, a)
		}
		e := jsonrpc.RequestError(x.ctx, nil, f.Outcome, f)
		if e.Kind == mcpvisor.KindTimeout && e.Cause == nil {
			e.Cause = f.Remark
		}
		return e
	}
	return f.CallError()
}

// confirmAlive checks whether a server whose connection broke is still there, so
// that a crash is not reported as an invalid reply. Calls that broke together share
// one check. It returns when the result is known, when ctx ends, or after
// confirmTimeout.
func (s *session) confirmAlive(ctx context.Context, a *agreement) {
	s.mu.Lock()
	known := s.confirming
	if known == nil {
		if !s.startTaskLocked() {
			s.mu.Unlock()
			return
		}
		known = make(chan struct{})
		s.confirming = known
		go func() {
			defer s.tasks.Done()
			s.pingServer(a)
			s.mu.Lock()
			s.confirming = nil
			s.mu.Unlock()
			close(known)
		}()
	}
	s.mu.Unlock()
	select {
	case <-known:
	case <-s.Dead():
	case <-ctx.Done():
	}
}

// pingServer sends the cheapest request of the protocol. Any answer proves that the
// server is alive.
func (s *session) pingServer(a *agreement) {
	ctx, cancel := context.WithTimeout(s.ctx, confirmTimeout)
	defer cancel()
	r := transport.Request{Method: "ping"}
	if a.modern {
		r.Method = "server/discover"
	}
	x := s.startRequest(ctx, r)
	defer x.finish()
	defer x.share.Release()
	_, f := s.roundTrip(x, x.id(), jsonrpc.AppendRequest(nil, x.id(), r, a.meta), s.callHeader(a, r))
	if f != nil && (f.Lost || f.Gone) {
		s.endWithError(f)
	}
}

// notifyCancelled tells a legacy server that a request is cancelled (MCP 2025-11-25,
// Cancellation): the end of the connection does not mean that there. It does not
// wait for the delivery.
func (s *session) notifyCancelled(x *exchange, a *agreement) {
	reason := "canceled"
	if err, _ := jsonrpc.ContextEnd(x.ctx); errors.Is(err, context.DeadlineExceeded) {
		reason = "timed out"
	}
	s.notifyServer(a, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, x.id(), reason))
}

// notifyServer sends a notification to the server. It does not wait for the
// delivery.
func (s *session) notifyServer(a *agreement, body []byte) { s.postInBackground(a, body, func() {}) }

// postInBackground sends a message to the server, and calls then when the POST has
// ended.
func (s *session) postInBackground(a *agreement, body []byte, then func()) {
	if !s.startTask() {
		then()
		return
	}
	go func() {
		defer s.tasks.Done()
		defer then()
		ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
		defer cancel()
		h := s.sessionHeader(a)
		h["Content-Type"], h["Accept"] = headerJSON, headerBoth
		s.countPost()
		resp, f := s.endpoint.Do(ctx, endpoint.OutgoingRequest{Method: http.MethodPost, Body: body, Header: h})
		if f == nil {
			_ = resp.Body.Close()
		}
	}()
}

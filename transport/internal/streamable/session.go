package streamable

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// session is one session over Streamable HTTP, or over the older HTTP+SSE.
//
// It has two channels to one endpoint. On the call channel the session sends the requests
// of its callers, each as one POST. On the control channel the client of the go-sdk
// negotiates and gets notifications. The go-sdk uses HTTP only through [sdkTransport],
// which keeps from it every response that would end its session.
//
// Fields without a remark are set by NewSession and not changed afterwards.
type session struct {
	// lifetime records the death and the release. It has its own mutex.
	lifetime    *jsonrpc.Lifetime
	dialer      *dialer
	spec        mcpvisor.ServerSpec
	log         zerolog.Logger
	endpoint    *endpoint.Endpoint
	endpointErr error // why there is no endpoint; nil otherwise
	// era is what was known about the server when Open was called. Set by Open.
	era mcpvisor.Era
	// eraUncertain: server/discover failed in a way that does not show which era the
	// server speaks. Then this session uses the legacy era, and the dialer does not
	// remember it. Goroutines of the handshake use it, one after the other.
	eraUncertain bool

	// ctx ends when the session dies. The session's own exchanges derive from it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu sync.Mutex // guards the start of tasks, closing, connecting and aliveCheck
	// tasks counts the goroutines and calls that must return before the release.
	tasks   sync.WaitGroup
	closing bool // shutdown has begun; no further task starts
	// connecting is closed when the go-sdk's Connect has returned; nil if it was never
	// called. client and attached are written before it is closed.
	connecting chan struct{}
	client     *mcp.ClientSession
	attached   bool          // this session is attached to the authorizer of the endpoint
	aliveCheck chan struct{} // closed when the running check ends; nil if no check runs; see confirmAlive

	agreed atomic.Pointer[agreement] // nil until the negotiation has succeeded
	// sse is the event stream of a session over HTTP+SSE; nil over Streamable HTTP.
	sse atomic.Pointer[sseConn]
	// openingSSE: the session waits for the endpoint event of HTTP+SSE.
	openingSSE atomic.Bool
	sessionID  atomic.Pointer[string] // of the header Mcp-Session-Id; nil if the server sent none
	// skipDelete: the server has no session that a DELETE could end.
	skipDelete atomic.Bool
	// lastError is the error of the last exchange on the control channel; nil after a
	// success. It explains a failed start.
	lastError atomic.Pointer[endpoint.HTTPError]

	exchanges      exchangeTable
	drains         drains
	handler        *inbound.Handler
	sharedHeader   atomic.Pointer[sharedHeader]
	sdkStream      *sdkStream
	serverRequests inbound.Requests
	discarded      jsonrpc.Discarded
	params         headerparams.Table // set by UseTools
	toolsKnown     atomic.Bool        // UseTools was called
	// handshake detects a legacy server that was restarted behind its address.
	handshake jsonrpc.HandshakeWatch
	// onMessage, if set before Open, gets every request and notification of the
	// server, from every stream. The goroutine that reads calls it, so it must not
	// block. For tests.
	onMessage func(sdkrpc.Message)
	// notifications passes notifications of the server to the function of OnNotice. It
	// has its own mutex; every goroutine that reads from the server calls it.
	notifications jsonrpc.Notifications
}

// agreement is the result of the negotiation. It is not changed.
type agreement struct {
	info   mcpvisor.SessionInfo
	meta   json.RawMessage       // the _meta of every request; nil before MCP 2026-07-28
	modern bool                  // MCP 2026-07-28 or later
	sender inbound.RequestSender // sends the requests of callers
}

// newRequestSender makes the sender of the requests of callers.
func (s *session) newRequestSender(a *agreement) inbound.RequestSender {
	return inbound.RequestSender{Modern: a.modern, Handler: s.handler, Handshake: &s.handshake, Abort: s.end,
		Send: func(ctx context.Context, r transport.Request) (json.RawMessage, error) {
			return s.sendRequest(ctx, a, r)
		},
		Go: func(check func(context.Context)) { s.goTask(func() { check(s.ctx) }) }}
}

// startTask registers a task that the release of the session waits for; tasks.Done
// ends it. It reports false if the session is shutting down.
func (s *session) startTask() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startTaskLocked()
}

func (s *session) startTaskLocked() bool {
	if s.closing {
		return false
	}
	s.tasks.Add(1)
	return true
}

// goTask runs a task in a goroutine. It reports false, and does not run the task, if the
// session is shutting down.
func (s *session) goTask(task func()) bool {
	if !s.startTask() {
		return false
	}
	go func() {
		defer s.tasks.Done()
		task()
	}()
	return true
}

// OnNotice implements Session.
func (s *session) OnNotice(notify func(transport.Notice)) { s.notifications.OnNotice(notify) }

// InFlight implements [transport.RequestLister].
func (s *session) InFlight() []transport.InFlight {
	return s.handler.Waiting.AppendTo(s.exchanges.requests.InFlight())
}

// OnServerRequest implements [transport.ServerRequestSource].
func (s *session) OnServerRequest(observe transport.ServerRequestObserver) {
	s.handler.Observe = observe
}

// Dead implements Session.
func (s *session) Dead() <-chan struct{} { return s.lifetime.Dead() }

// Cause implements Session.
func (s *session) Cause() *supervisor.Cause { return s.lifetime.Cause() }

// Released implements Session.
func (s *session) Released() <-chan struct{} { return s.lifetime.Released() }

// OnDead implements Session.
func (s *session) OnDead(f func()) { s.lifetime.OnDead(f) }

// OnReleased implements Session.
func (s *session) OnReleased(f func()) { s.lifetime.OnReleased(f) }

// Left implements Session.
func (s *session) Left() error { return s.lifetime.Left() }

// Abort implements Session.
func (s *session) Abort(cause *supervisor.Cause) { s.end(cause) }

// end ends the session, unless it has ended. It returns at once; shutdown runs in the
// background.
func (s *session) end(cause *supervisor.Cause) {
	if s.lifetime.End(cause) {
		s.cancel(cause)
		s.exchanges.endAll(cause)
		go s.shutdown()
	}
}

// shutdown sends the DELETE, waits for all tasks, closes all connections, and releases the
// session, all within Timeouts.Shutdown. What the server may delay, the DELETE and a token
// request, has three quarters of it.
func (s *session) shutdown() {
	s.mu.Lock()
	s.closing = true
	connecting := s.connecting
	s.mu.Unlock()
	replyBy := time.Now().Add(s.spec.Timeouts.Shutdown * 3 / 4)
	if connecting != nil {
		<-connecting // Connect returns soon: its context has ended, and sdkTransport waits for nothing
		if s.client != nil {
			_ = s.client.Close()
		}
		s.deleteSession(replyBy)
	}
	s.tasks.Wait()
	if s.attached {
		s.endpoint.Auth.Detach(time.Until(replyBy))
	}
	if s.endpoint != nil {
		s.endpoint.Close()
	}
	s.lifetime.Release()
}

// deleteSession sends the DELETE that ends the session at the server (MCP 2025-11-25,
// Streamable HTTP, "Session Management"), if the server assigned a session id. A failure is
// only logged.
func (s *session) deleteSession(deadline time.Time) {
	if s.skipDelete.Load() || s.sessionID.Load() == nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	header := s.sessionHeader(s.agreed.Load())
	if s.client != nil { // the session may have ended before it was agreed
		header["Mcp-Protocol-Version"] = []string{s.client.InitializeResult().ProtocolVersion}
	}
	resp, httpErr := s.endpoint.Do(ctx, endpoint.OutgoingRequest{Method: http.MethodDelete, Header: header})
	if httpErr != nil {
		s.log.Debug().Str("reason", httpErr.Message).Msg("session was not deleted at the server")
		return
	}
	_ = resp.Body.Close()
}

// Info implements Session.
func (s *session) Info() mcpvisor.SessionInfo {
	var info mcpvisor.SessionInfo
	if a := s.agreed.Load(); a != nil {
		info = a.info
	}
	info.AbandonedRequests = s.dialer.held.Count()
	info.Discarded = s.discarded.Counts()
	return info
}

// LastReceived implements Session.
func (s *session) LastReceived() time.Time {
	if s.endpoint == nil {
		return time.Time{}
	}
	return s.endpoint.LastReceived.Time()
}

// sessionRef returns how requests currently identify the session.
func (s *session) sessionRef() endpoint.SessionRef {
	switch {
	case s.sse.Load() != nil:
		return endpoint.StreamSession
	case s.sessionID.Load() != nil:
		return endpoint.HeaderSession
	}
	return endpoint.NoSession
}

// CheckInputSchema implements [transport.InputSchemaChecker]. Before MCP 2026-07-28 the
// annotations of a schema have no meaning, and every schema passes.
func (s *session) CheckInputSchema(schema json.RawMessage) (kept int, err error) {
	if !s.isModern() {
		return 0, nil
	}
	return headerparams.Check(schema)
}

// UseTools implements [transport.InputSchemaChecker].
func (s *session) UseTools(tools []mcpvisor.Tool, partial bool) {
	if s.isModern() && !(s.toolsKnown.Swap(true) && partial) {
		s.params.Replace(tools)
	}
}

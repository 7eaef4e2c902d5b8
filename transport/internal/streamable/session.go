package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// session is one session over Streamable HTTP, or over the older HTTP+SSE. It implements
// transport.Session, and only connects its parts; each part owns its fields.
//
// The session has two channels to one endpoint. On the call channel it sends the requests of
// its callers, each as one POST. On the control channel the client of the go-sdk negotiates.
// Notifications go to the handlers of the host, by the receiver.
type session struct {
	transport.Base
	dialer      *dialer
	server      *peer        // where requests go, and how they name the session
	life        *liveness    // whether the session lives, and its tasks
	receiver    *receiver    // gets the messages of the server
	exchanger   *exchanger   // sends messages, and reads the responses
	calls       *calls       // the call channel
	negotiation *negotiation // the control channel
}

// NewSession implements Dialer.
func (d *dialer) NewSession() transport.Session {
	s := &session{dialer: d, server: &peer{spec: d.spec, log: d.opts.Logger.With().Str("server", d.spec.Name).Logger()}, life: newLiveness()}
	s.life.onEnd = func(cause *supervisor.Cause) {
		s.exchanger.table.endAll(cause)
		if s.calls.pingRefused.Load() {
			d.pingsDoubted.Store(true)
		}
		go s.shutdown()
	}
	if e, err := endpoint.New(d.spec); err == nil { // without an endpoint Open fails
		e.Auth = d.auth
		e.OnUnauthorized = func(httpErr *endpoint.HTTPError) { s.life.end(httpErr.StartCause()) }
		s.server.endpoint, s.life.shownURL = e, e.ShownURL
	}
	s.exchanger = &exchanger{server: s.server, life: s.life, table: exchangeTable{buffer: d.buffer}}
	s.receiver = newReceiver(s.exchanger, d.handlers.NewHandler(s.life.lifetime))
	s.exchanger.receiver = s.receiver
	s.calls = &calls{server: s.server, life: s.life, exchanger: s.exchanger, receiver: s.receiver, pingsDoubted: &d.pingsDoubted}
	s.negotiation = &negotiation{server: s.server, life: s.life, exchanger: s.exchanger, receiver: s.receiver, dialer: d, connected: make(chan struct{})}
	return s
}

// peer is what the session knows about its server: where requests go, what was agreed, and
// how requests name the session. Fields without a remark are set by NewSession and not changed afterwards.
type peer struct {
	spec     mcpvisor.ServerSpec
	log      zerolog.Logger
	endpoint *endpoint.Endpoint // nil: the URL cannot be parsed
	// agreed is set once, when the negotiation has succeeded.
	agreed atomic.Pointer[agreement]
	// sessionID is of the header Mcp-Session-Id; nil if the server sent none. The negotiation
	// sets it once.
	sessionID atomic.Pointer[string]
}

// agreement is the result of the negotiation. It is not changed.
type agreement struct {
	info   mcpvisor.SessionInfo
	meta   json.RawMessage // the _meta of every request; nil before MCP 2026-07-28
	modern bool            // MCP 2026-07-28 or later
	header http.Header     // of a POST
	sender inbound.RequestSender
}

// isModern reports whether the negotiated version is MCP 2026-07-28 or later.
func (p *peer) isModern() bool {
	a := p.agreed.Load()
	return a != nil && a.modern
}

// newHeader returns a new header with the session id and the protocol version. version is
// for a session that is not open yet; "" stands for the agreed one. MCP 2025-11-25,
// Streamable HTTP, "Session Management": clients "MUST include it in the MCP-Session-Id
// header on all of their subsequent HTTP requests".
func (p *peer) newHeader(version string) http.Header {
	h := p.endpoint.NewHeader(8)
	if a := p.agreed.Load(); version == "" && a != nil {
		version = a.info.ProtocolVersion
	}
	if version != "" {
		h["Mcp-Protocol-Version"] = []string{version}
	}
	if id := p.sessionID.Load(); id != nil {
		h["Mcp-Session-Id"] = []string{*id}
	}
	return h
}

// streamHeader returns the header of a GET that opens an event stream. lastID is the id of
// the last event of a stream that is resumed. version is as for newHeader.
func (p *peer) streamHeader(version, lastID string) http.Header {
	h := p.newHeader(version)
	h["Accept"] = headerEvents
	if lastID != "" {
		h["Last-Event-Id"] = []string{lastID}
	}
	return h
}

// shutdown sends the DELETE, waits for all tasks, closes all connections, and releases the
// session, all within Timeouts.Shutdown. What the server may delay, the DELETE and a token
// request, has three quarters of it.
func (s *session) shutdown() {
	s.life.refuseTasks()
	replyBy := time.Now().Add(s.server.spec.Timeouts.Shutdown * 3 / 4)
	s.negotiation.close(replyBy)
	s.life.tasks.Wait()
	if s.negotiation.attached {
		_ = hostcall.Call("Auth", func() error { s.server.endpoint.Auth.Detach(time.Until(replyBy)); return nil })
	}
	if s.server.endpoint != nil {
		s.server.endpoint.Close()
	}
	s.life.lifetime.Release()
}

// Open implements Session.
func (s *session) Open(ctx context.Context) error {
	if cause := s.negotiation.open(ctx, s.calls.send); cause != nil {
		return cause
	}
	return nil
}

// Request implements Session.
func (s *session) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	return s.calls.request(ctx, &r)
}

// AnswerInputs implements [transport.Session].
func (s *session) AnswerInputs(ctx context.Context, caller *transport.Caller, requests json.RawMessage) (json.RawMessage, error) {
	if a := s.server.agreed.Load(); a != nil {
		return a.sender.AnswerInputs(ctx, caller, requests)
	}
	return nil, &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: jsonrpc.ErrNotOpen}
}

// Stateless implements [transport.Session].
func (s *session) Stateless() bool {
	return s.server.sessionID.Load() == nil && s.exchanger.sse.Load() == nil
}

// RedactJSON implements [transport.Session].
func (s *session) RedactJSON(raw json.RawMessage) json.RawMessage {
	return s.server.endpoint.CleanJSON(raw)
}

// OnNotice implements Session.
func (s *session) OnNotice(notify func(transport.Notice)) { s.receiver.notifications.OnNotice(notify) }

// InFlight implements [transport.Session].
func (s *session) InFlight() []transport.InFlight {
	return s.receiver.handler.Waiting.AppendTo(s.exchanger.table.requests.InFlight())
}

// CancelRequest implements [transport.Session].
func (s *session) CancelRequest(id int64) bool {
	return s.receiver.handler.Waiting.Cancel(id) || s.exchanger.table.requests.Cancel(id)
}

// OnServerRequest implements [transport.Session].
func (s *session) OnServerRequest(observe transport.ServerRequestObserver) {
	s.receiver.handler.Observe = observe
}

// The liveness implements these methods of [transport.Session].

func (s *session) Abort(cause *supervisor.Cause) { s.life.end(cause) }
func (s *session) Kill(cause *supervisor.Cause)  { s.life.end(cause) }
func (s *session) Dead() <-chan struct{}         { return s.life.lifetime.Dead() }
func (s *session) Cause() *supervisor.Cause      { return s.life.cause() }
func (s *session) Released() <-chan struct{}     { return s.life.lifetime.Released() }
func (s *session) OnDead(f func())               { s.life.lifetime.OnDead(f) }
func (s *session) OnReleased(f func())           { s.life.lifetime.OnReleased(f) }
func (s *session) Left() error                   { return s.life.lifetime.Left() }

// Info implements Session.
func (s *session) Info() mcpvisor.SessionInfo {
	var info mcpvisor.SessionInfo
	if a := s.server.agreed.Load(); a != nil {
		info = a.info
	}
	info.Discarded = s.receiver.discarded.Counts()
	return info
}

// LastReceived implements Session.
func (s *session) LastReceived() time.Time { return s.life.received.Time() }

// CheckInputSchema implements [transport.Session]. Before MCP 2026-07-28 the
// annotations of a schema have no meaning, and every schema passes.
func (s *session) CheckInputSchema(schema json.RawMessage) (kept int, err error) {
	if !s.server.isModern() {
		return 0, nil
	}
	return headerparams.Check(schema)
}

// ToolSettings implements [transport.Session].
func (s *session) ToolSettings() map[string]mcpvisor.ToolSetting { return s.server.spec.ToolSettings }

// UseTools implements [transport.Session].
func (s *session) UseTools(tools []mcpvisor.Tool, partial bool) { s.calls.useTools(tools, partial) }

// dialer makes sessions over Streamable HTTP. It remembers the protocol era and the
// transport of the server, so that later sessions need not detect them. Safe for
// concurrent use.
type dialer struct {
	spec mcpvisor.ServerSpec
	opts transport.Options
	// auth supplies the credentials; nil: the only ones are in the headers of the spec, or
	// authErr says why there is no authorizer.
	auth    mcpvisor.Authorizer
	authErr error

	handlers *inbound.HandlerPool
	buffer   *budget.Budget // bounds the memory for large replies of all sessions

	era atomic.Value // mcpvisor.Era, found by an earlier session; EraAuto or nil: unknown
	sse atomic.Bool  // an earlier session found that the server speaks HTTP+SSE

	pingsDoubted atomic.Bool // an earlier session ended after the server had refused a ping
}

// NewDialer makes the dialer for a server over Streamable HTTP. spec must be valid, and
// WithDefaults applied.
func NewDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	d := &dialer{spec: spec, opts: opts, handlers: inbound.NewHandlerPool(spec.Name, opts),
		buffer: budget.New(spec.Limits.MaxBufferBytes, opts.Buffer)}
	if auth := spec.HTTP.Auth; auth != nil {
		log := opts.Logger.With().Str("server", spec.Name).Logger()
		d.auth, d.authErr = hostcall.Value("Auth", func() (mcpvisor.Authorizer, error) {
			return auth.NewAuthorizer(spec.HTTP, func(text string) { log.Warn().Msg(text) })
		})
		if d.auth == nil && d.authErr == nil {
			d.authErr = errors.New("it returned neither an authorizer nor an error")
		}
	}
	return d
}

// Authorizer returns what supplies the credentials; nil if the spec has no Auth.
func (d *dialer) Authorizer() mcpvisor.Authorizer { return d.auth }

// knownEra returns the era with which a session begins: that of the spec, or the one that
// an earlier session found. EraAuto: the session has to find it.
func (d *dialer) knownEra() mcpvisor.Era {
	if take := d.opts.TakeLegacy; take != nil && take() {
		return mcpvisor.EraLegacy
	}
	if found, ok := d.era.Load().(mcpvisor.Era); ok && d.spec.Era == mcpvisor.EraAuto {
		return found
	}
	return d.spec.Era
}

package streamable

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// dialer makes sessions over Streamable HTTP. It remembers the protocol era and the
// transport of the server, so that later sessions need not find them out. Safe for
// concurrent use.
type dialer struct {
	spec mcpvisor.ServerSpec
	opts transport.Options
	auth *oauth.Authorizer // nil: the only tokens are headers of the specification

	handlers *inbound.HandlerPool
	// abandoned counts the requests, of all sessions, that the host's RoundTripper
	// does not return.
	abandoned guard.Abandoned
	buffer    *budget.Budget

	mu  sync.Mutex
	era mcpvisor.Era
	sse bool // an earlier session found that the server speaks HTTP+SSE
}

// NewDialer makes the sessions of a server over Streamable HTTP. spec must be valid and have
// its defaults.
func NewDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	return &dialer{spec: spec, opts: opts, auth: newAuthorizer(spec, opts), handlers: inbound.NewHandlerPool(spec.Name, opts),
		buffer: budget.New(spec.Limits.MaxBufferBytes, opts.Buffer)}
}

// Authorizer is what obtains the tokens; nil if the spec has no Auth.
func (d *dialer) Authorizer() transport.Authorizer {
	if d.auth == nil {
		return nil
	}
	return d.auth
}

// NewSession implements Dialer.
func (d *dialer) NewSession() transport.Session {
	s := &session{
		lifetime:  jsonrpc.NewLifetime(),
		dialer:    d,
		spec:      d.spec,
		log:       d.opts.Logger.With().Str("server", d.spec.Name).Logger(),
		sdkStream: newSDKStream(),
	}
	s.exchanges.buffer = d.buffer
	s.handler = d.handlers.NewHandler(s.lifetime)
	s.serverRequests = inbound.Requests{Handler: s.handler, Calls: &s.exchanges.requests, Go: s.goTask, Reply: s.reply,
		Room: inbound.Allowance{Max: sdkStreamSize}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if s.endpoint, s.endpointErr = endpoint.New(d.spec); s.endpoint != nil {
		s.notifications.Redact = s.endpoint.Redact
		s.endpoint.Auth = d.auth
		if t, ok := s.endpoint.RoundTripper.(*guard.RoundTripper); ok {
			t.UseCounter(&d.abandoned)
		}
		s.handler.Redactor = s.endpoint.Redact
		s.endpoint.OnUnauthorized = func(f *endpoint.HTTPError) { s.end(f.StartCause()) }
	}
	return s
}

// knownEra is the era with which a session begins: that of the specification, or the
// one that an earlier session found.
func (d *dialer) knownEra() mcpvisor.Era {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.spec.Era != mcpvisor.EraAuto {
		return d.spec.Era
	}
	return d.era
}

func (d *dialer) rememberEra(era mcpvisor.Era) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.era = era
}

// session is one session over Streamable HTTP, or over the older HTTP+SSE.
//
// It carries two channels to one endpoint. The call channel sends the requests of this
// client, each as one POST. On the control channel the go-sdk negotiates, and gets
// notifications. The go-sdk sees HTTP only through [sdkTransport], which hides from it
// what would end its session.
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
	// server speaks. Then this session speaks the legacy one, and the dialer does not
	// remember it. Used by the goroutines of the handshake, one after the other.
	eraUncertain bool

	// ctx ends when the session dies. Every exchange without a caller derives from it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu sync.Mutex
	// tasks counts the goroutines and calls that must return before the release. mu
	// orders their start and the beginning of the shutdown.
	tasks   sync.WaitGroup
	closing bool
	// connecting is closed when the go-sdk's Connect has returned; nil if it was never
	// called. client and attached are written before it is closed.
	connecting chan struct{}
	client     *mcp.ClientSession
	attached   bool          // this session is attached to the authorizer of the endpoint
	confirming chan struct{} // closed when the running check is over; nil if there is none; see confirmAlive

	agreed atomic.Pointer[agreement]
	// sse is the event stream of a session over HTTP+SSE; nil over Streamable HTTP.
	sse atomic.Pointer[sseConn]
	// openingSSE: the session waits for the endpoint event of HTTP+SSE.
	openingSSE atomic.Bool
	sessionID  atomic.Pointer[string]
	// forgotten: the server has no session that a DELETE would end.
	forgotten atomic.Bool
	// lastError is the last error of an exchange on the control channel; nil after a
	// success. It explains a failed start.
	lastError atomic.Pointer[endpoint.HTTPError]

	exchanges      exchangeTable
	handler        *inbound.Handler
	sharedHeader   atomic.Pointer[sharedHeader]
	sdkStream      *sdkStream
	serverRequests inbound.Requests
	noise          jsonrpc.Discarded
	params         headerparams.Table
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

// agreement is the result of the negotiation.
type agreement struct {
	info   mcpvisor.SessionInfo
	meta   json.RawMessage
	modern bool
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

// goTask runs a task in a goroutine. It reports false if the session is shutting
// down.
func (s *session) goTask(f func()) bool {
	if !s.startTask() {
		return false
	}
	go func() {
		defer s.tasks.Done()
		f()
	}()
	return true
}

// OnNotice implements Session.
func (s *session) OnNotice(notify func(transport.Notice)) { s.notifications.OnNotice(notify) }

// Dead implements Session.
func (s *session) Dead() <-chan struct{} { return s.lifetime.Dead() }

// Cause implements Session.
func (s *session) Cause() *supervisor.Cause { return s.lifetime.Cause() }

// Released implements Session.
func (s *session) Released() <-chan struct{} { return s.lifetime.Released() }

// Left implements Session.
func (s *session) Left() error { return s.lifetime.Left() }

// Abort implements Session.
func (s *session) Abort(cause *supervisor.Cause) { s.end(cause) }

func (s *session) end(cause *supervisor.Cause) {
	if s.lifetime.End(cause) {
		s.cancel(cause)
		s.exchanges.endAll(cause)
		go s.shutdown()
	}
}

// shutdown ends every task and connection, sends the DELETE, and releases the
// session. Each of its waits is bounded.
func (s *session) shutdown() {
	s.mu.Lock()
	s.closing = true
	connecting := s.connecting
	s.mu.Unlock()
	if connecting != nil {
		<-connecting // it returns soon: its context has ended
		if s.client != nil {
			_ = s.client.Close() // sends the DELETE, which sdkTransport bounds
		}
	}
	s.tasks.Wait()
	if s.attached {
		s.endpoint.Auth.Detach(s.spec.Timeouts.Shutdown)
	}
	if s.endpoint != nil {
		if left := s.endpoint.AwaitRoundTripper(s.spec.Timeouts.Shutdown); left > 0 {
			s.log.Warn().Int("goroutines", left).Msg("the RoundTripper of HTTP.Client ignores the context of its requests; goroutines are left behind in it")
		}
		s.endpoint.Close()
	}
	s.lifetime.Release()
}

// Info implements Session.
func (s *session) Info() mcpvisor.SessionInfo {
	var info mcpvisor.SessionInfo
	if a := s.agreed.Load(); a != nil {
		info = a.info
	}
	info.AbandonedRequests = s.dialer.abandoned.Count()
	info.Discarded = s.noise.Counts()
	return info
}

// LastReceived implements Session.
func (s *session) LastReceived() time.Time {
	if s.endpoint == nil {
		return time.Time{}
	}
	return s.endpoint.LastReceived.Time()
}

// newAuthorizer returns what obtains the tokens for all sessions of a dialer; nil if
// the specification asks for none.
func newAuthorizer(spec mcpvisor.ServerSpec, opts transport.Options) *oauth.Authorizer {
	if spec.HTTP.Auth == nil {
		return nil
	}
	log := opts.Logger.With().Str("server", spec.Name).Logger()
	a, err := oauth.New(spec.HTTP, func(text string) { log.Warn().Msg(text) })
	if err != nil {
		return nil // the URL is invalid, so no session gets an endpoint
	}
	return a
}

// sessionRef says how requests name the session at present.
func (s *session) sessionRef() endpoint.SessionRef {
	switch {
	case s.sse.Load() != nil:
		return endpoint.StreamSession
	case s.sessionID.Load() != nil:
		return endpoint.HeaderSession
	}
	return endpoint.NoSession
}

// CheckInputSchema implements [InputSchemaChecker]. Before 2026-07-28 the annotations of a
// schema mean nothing, and every schema passes.
func (s *session) CheckInputSchema(schema json.RawMessage) error {
	if !s.isModern() {
		return nil
	}
	return headerparams.Check(schema)
}

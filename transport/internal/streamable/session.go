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

// dialer makes sessions over Streamable HTTP and remembers the server's
// era, so that later sessions need not ask for it.
type dialer struct {
	spec mcpvisor.ServerSpec
	opts transport.Options
	auth *oauth.Authorizer // nil: tokens are headers of the spec, if there are any

	asked *inbound.HandlerPool
	// abandoned counts the requests that the host's RoundTripper does not return,
	// those of earlier sessions included.
	abandoned guard.Abandoned
	buffer    *budget.Budget

	mu  sync.Mutex
	era mcpvisor.Era
	sse bool // the server was found to speak HTTP+SSE
}

// NewDialer makes the sessions of a server over Streamable HTTP. spec must be valid and have
// its defaults.
func NewDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	return &dialer{spec: spec, opts: opts, auth: newAuthorizer(spec, opts), asked: inbound.NewHandlerPool(spec.Name, opts),
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
		Lifetime:  jsonrpc.NewLifetime(),
		dialer:    d,
		spec:      d.spec,
		log:       d.opts.Logger.With().Str("server", d.spec.Name).Logger(),
		sdkStream: newSDKStream(),
	}
	s.exchanges.buffer = d.buffer
	s.answers = d.asked.NewHandler(s.Lifetime)
	s.asked = inbound.Requests{Handler: s.answers, Calls: &s.exchanges, Go: s.goTask, Reply: s.reply,
		Room: inbound.Allowance{Max: sdkStreamSize}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if s.endpoint, s.endpointErr = endpoint.New(d.spec); s.endpoint != nil {
		s.Notifications.Redact = s.endpoint.Redact
		s.endpoint.Auth = d.auth
		if t, ok := s.endpoint.RoundTripper.(*guard.RoundTripper); ok {
			t.UseCounter(&d.abandoned)
		}
		s.answers.Redactor = s.endpoint.Redact
		s.endpoint.OnUnauthorized = func(f *endpoint.HTTPError) { s.end(f.StartCause()) }
	}
	return s
}

// knownEra is the era to begin with; remember and forget keep it.
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

// session is one life of a session over Streamable HTTP.
//
// Two lanes share one endpoint. The go-sdk drives the control lane and sees
// HTTP only through controlLane, which answers it in clean JSON whatever the
// server did. Requests of ours are POSTs of their own.
type session struct {
	*jsonrpc.Lifetime
	dialer      *dialer
	spec        mcpvisor.ServerSpec
	log         zerolog.Logger
	endpoint    *endpoint.Endpoint
	endpointErr error // why there is no endpoint
	// era is what was known when the session was opened.
	era mcpvisor.Era
	// eraUncertain: server/discover failed in a way that says nothing about the
	// protocol, so that an older version is spoken this once. Of the handshake.
	eraUncertain bool

	// ctx ends when the session dies; everything under way hangs on it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu sync.Mutex
	// tasks counts what must have returned before release. Entering it and dying
	// exclude each other.
	tasks   sync.WaitGroup
	closing bool
	// connecting is closed when the go-sdk's Connect has returned; nil if it was
	// never called.
	connecting chan struct{}
	client     *mcp.ClientSession
	attached   bool          // to the endpoint's auth; written before connecting is closed
	confirming chan struct{} // see confirm

	agreed atomic.Pointer[agreement]
	// sse is the channel of a session over HTTP+SSE; nil over Streamable HTTP.
	sse atomic.Pointer[sseConn]
	// openingSSE: the endpoint event of HTTP+SSE is being waited for.
	openingSSE atomic.Bool
	sessionID  atomic.Pointer[string]
	// forgotten: there is no session at the server that would need a DELETE.
	forgotten atomic.Bool
	// lastError is the last fault on the control lane, until an exchange works.
	lastError atomic.Pointer[endpoint.HTTPError]

	exchanges    exchangeTable
	answers      *inbound.Handler
	sharedHeader atomic.Pointer[sharedHeader]
	sdkStream    *sdkStream
	asked        inbound.Requests
	noise        jsonrpc.Discarded
	params       headerparams.HeaderParams
	// handshake notices that a legacy server was restarted behind its address.
	handshake jsonrpc.HandshakeWatch
	// onMessage, if set before Open, sees every request and notification of the
	// server's, whether it came on the way to an answer or on the standalone
	// stream. On legacy sessions the go-sdk gets them too, and answers pings. It
	// is called by whoever reads, so it must not block.
	onMessage func(sdkrpc.Message)
	jsonrpc.Notifications
}

// agreement is what negotiation came to.
type agreement struct {
	info   mcpvisor.SessionInfo
	meta   json.RawMessage
	modern bool
}

// startTask begins a piece of work; work.Done ends it. It fails once the session
// is dying.
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

// goTask runs a piece of work in a goroutine, unless the session is dying.
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

// Abort implements Session.
func (s *session) Abort(cause *supervisor.Cause) { s.end(cause) }

func (s *session) end(cause *supervisor.Cause) {
	if s.End(cause) {
		s.cancel(cause)
		s.exchanges.endAll(cause)
		go s.shutdown()
	}
}

// shutdown takes everything down, politely where that is bounded.
func (s *session) shutdown() {
	s.mu.Lock()
	s.closing = true
	connecting := s.connecting
	s.mu.Unlock()
	if connecting != nil {
		<-connecting // its context has ended
		if s.client != nil {
			_ = s.client.Close() // sends the DELETE; controlLane bounds it
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
	s.Release()
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

// LastHeard implements Session.
func (s *session) LastHeard() time.Time {
	if s.endpoint == nil {
		return time.Time{}
	}
	return s.endpoint.LastReceived.Time()
}

// newAuthorizer makes what obtains tokens for the sessions of a dialer; nil if
// the spec wants none.
func newAuthorizer(spec mcpvisor.ServerSpec, opts transport.Options) *oauth.Authorizer {
	if spec.HTTP.Auth == nil {
		return nil
	}
	log := opts.Logger.With().Str("server", spec.Name).Logger()
	a, err := oauth.New(spec.HTTP, func(text string) { log.Warn().Msg(text) })
	if err != nil {
		return nil // no session will have an endpoint either
	}
	return a
}

// sessionRef is how the requests of the session name it at present.
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
	return headerparams.CheckHeaderParams(schema)
}

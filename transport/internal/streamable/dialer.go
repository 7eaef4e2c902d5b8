package streamable

import (
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
)

// dialer makes sessions over Streamable HTTP. It remembers the protocol era and the
// transport of the server, so that later sessions need not detect them. Safe for
// concurrent use.
type dialer struct {
	spec mcpvisor.ServerSpec
	opts transport.Options
	auth *oauth.Authorizer // nil: the only tokens are in the headers of the spec

	handlers *inbound.HandlerPool
	// held counts the requests of all sessions that the application's RoundTripper holds
	// after they have ended.
	held   hostcall.HeldRequests
	buffer *budget.Budget // bounds the memory for large replies of all sessions

	mu  sync.Mutex   // guards era and sse
	era mcpvisor.Era // found by an earlier session; EraAuto: unknown
	sse bool         // an earlier session found that the server speaks HTTP+SSE
}

// NewDialer makes the dialer for a server over Streamable HTTP. spec must be valid, and
// WithDefaults applied.
func NewDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	return &dialer{spec: spec, opts: opts, auth: newAuthorizer(spec, opts), handlers: inbound.NewHandlerPool(spec.Name, opts),
		buffer: budget.New(spec.Limits.MaxBufferBytes, opts.Buffer)}
}

// Authorizer returns what obtains the access tokens; nil if the spec has no Auth.
func (d *dialer) Authorizer() transport.Authorizer {
	if d.auth == nil {
		return nil
	}
	return d.auth
}

// knownEra returns the era with which a session begins: that of the spec, or the one that
// an earlier session found. EraAuto: the session has to find it.
func (d *dialer) knownEra() mcpvisor.Era {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.spec.Era != mcpvisor.EraAuto {
		return d.spec.Era
	}
	return d.era
}

// rememberEra stores the era for later sessions; EraAuto makes them find it again.
func (d *dialer) rememberEra(era mcpvisor.Era) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.era = era
}

// knownSSE reports whether the server speaks HTTP+SSE according to its spec or to an
// earlier session.
func (d *dialer) knownSSE() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spec.HTTP.SSE || d.sse
}

// rememberSSE stores for later sessions whether the server speaks HTTP+SSE. It reports
// whether the value has changed.
func (d *dialer) rememberSSE(found bool) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = d.sse != found
	d.sse = found
	return changed
}

// newAuthorizer returns what obtains the access tokens for all sessions of a dialer; nil
// if the spec has no Auth.
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

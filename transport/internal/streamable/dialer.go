package streamable

import (
	"errors"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
)

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
	// held counts the requests of all sessions that the application's RoundTripper holds
	// after they have ended.
	held   hostcall.HeldRequests
	buffer *budget.Budget // bounds the memory for large replies of all sessions

	era atomic.Value // mcpvisor.Era, found by an earlier session; EraAuto or nil: unknown
	sse atomic.Bool  // an earlier session found that the server speaks HTTP+SSE
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
	if found, ok := d.era.Load().(mcpvisor.Era); ok && d.spec.Era == mcpvisor.EraAuto {
		return found
	}
	return d.spec.Era
}

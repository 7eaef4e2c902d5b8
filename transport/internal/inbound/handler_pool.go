package inbound

import (
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// MaxHandlers is how many handlers of the host may run at a time for one registration.
	// Handlers that ignored the end of their context count. Further requests wait.
	MaxHandlers = 64
	// maxWaiting is how many requests may wait for a handler. Further ones are rejected.
	maxWaiting = 1024
)

// HandlerPool runs the handlers of the host for one registration. It outlives the sessions,
// because a handler may ignore the end of its session. Safe for concurrent use.
type HandlerPool struct {
	// Set by NewHandlerPool, never changed.
	serverName string
	Handlers   transport.Handlers
	log        zerolog.Logger

	slots   chan struct{} // holds a value for each handler that runs; capacity MaxHandlers
	waiting atomic.Int64  // requests that wait for a slot

	checking sync.Mutex // one form is checked at a time, whatever number a server sends
}

// NewHandlerPool makes the pool of one registration. server is the name of the registration.
func NewHandlerPool(server string, opts transport.Options) *HandlerPool {
	return &HandlerPool{serverName: server, Handlers: opts.Handlers, log: opts.Logger,
		slots: make(chan struct{}, MaxHandlers)}
}

// Log returns a logger that names the server. It is made when it is needed, because most
// servers need none.
func (p *HandlerPool) Log() *zerolog.Logger {
	log := p.log.With().Str("server", p.serverName).Logger()
	return &log
}

// checkForm is CheckForm for a request of the server.
func (p *HandlerPool) checkForm(schema any) error {
	p.checking.Lock()
	defer p.checking.Unlock()
	return CheckForm(schema)
}

// Running returns how many handlers run.
func (p *HandlerPool) Running() int { return len(p.slots) }

// Waiting returns how many requests wait for a slot.
func (p *HandlerPool) Waiting() int { return int(p.waiting.Load()) }

// NewHandler makes the handler of one session. life is the lifetime of the session.
func (p *HandlerPool) NewHandler(life *jsonrpc.Lifetime) *Handler {
	h := &Handler{Pool: p, lifetime: life}
	for i, roots := range h.roots() {
		if roots != nil {
			_, h.rootsRevisions[i] = roots.Current()
		}
	}
	return h
}

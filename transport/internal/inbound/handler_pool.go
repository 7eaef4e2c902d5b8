package inbound

import (
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// MaxHandlers is how many handlers may run at a time for one registration,
	// those that were left behind included. Further questions wait.
	MaxHandlers = 64
	// maxWaiting is how many may wait. Further ones are refused.
	maxWaiting = 1024
)

// HandlerPool is what the servers of one registration ask. It outlives sessions,
// as handlers may that were left behind.
type HandlerPool struct {
	serverName string
	Handlers   transport.Handlers
	Log        zerolog.Logger
	slots      chan struct{} // holds one for each handler that runs
	waiting    atomic.Int64
}

// NewHandlerPool makes the pool of one registration. server is its name.
func NewHandlerPool(server string, opts transport.Options) *HandlerPool {
	return &HandlerPool{serverName: server, Handlers: opts.Handlers, Log: opts.Logger.With().Str("server", server).Logger(),
		slots: make(chan struct{}, MaxHandlers)}
}

// Running is how many handlers run, and Waiting how many wait for a slot.
func (q *HandlerPool) Running() int { return len(q.slots) }

// Waiting is how many requests wait for a slot.
func (q *HandlerPool) Waiting() int { return int(q.waiting.Load()) }

// NewHandler makes what answers the requests of one session.
func (q *HandlerPool) NewHandler(life *jsonrpc.Lifetime) *Handler {
	a := &Handler{HandlerPool: q, lifetime: life, sessionSet: make(chan struct{})}
	if q.Handlers.Roots != nil {
		_, a.rootsRevision = q.Handlers.Roots.Current()
	}
	return a
}

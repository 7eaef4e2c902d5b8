// Package dial is not part of the stable API. It chooses the transport for a specification.
// It is apart from package transport, because every transport imports that package.
package dial

import (
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio"
	"github.com/mcpvisor/mcpvisor/transport/internal/streamable"
)

// New returns the dialer for a valid specification. An actor calls it, so it does no I/O and
// writes to no log.
func New(spec mcpvisor.ServerSpec, opts transport.Options) (transport.Dialer, error) {
	spec = spec.WithDefaults()
	switch {
	case spec.Stdio != nil || spec.InMemory != nil || spec.Transport != nil:
		return stdio.NewDialer(spec, opts), nil
	case spec.HTTP != nil:
		return streamable.NewDialer(spec, opts), nil
	}
	return nil, fmt.Errorf("server %q has no transport: set one of Stdio, HTTP, InMemory and Transport", spec.Name)
}

// Hook chooses the dialer in place of [New]; see relay.WithDialer. It is opaque, so that the API
// of the facade shows no type of package transport.
type Hook struct {
	dialer func(mcpvisor.ServerSpec, transport.Options) (transport.Dialer, error)
	refuse func(server string, o Order) error
}

// Order is something that the program of a hook may refuse for a server, because it decides that itself.
type Order string

const (
	// OrderStop: the server is to be stopped.
	OrderStop Order = "stop"
	// OrderGroup: the server is to be in a group.
	OrderGroup Order = "group"
)

// NewHook makes a hook. f is called once for each registration, must not block, and may call [New]. refuse says why a
// server, which need not be registered, cannot have an order; nil: it can. It must not block.
func NewHook(f func(mcpvisor.ServerSpec, transport.Options) (transport.Dialer, error), refuse func(server string, o Order) error) *Hook {
	return &Hook{f, refuse}
}

// Refuse returns why a server cannot have an order; nil: it can, or h is nil.
func (h *Hook) Refuse(server string, o Order) error {
	if h == nil {
		return nil
	}
	return h.refuse(server, o)
}

// ByHook returns the dialer that a hook chooses; that of New if h is nil.
func ByHook(h *Hook, spec mcpvisor.ServerSpec, opts transport.Options) (transport.Dialer, error) {
	if h == nil {
		return New(spec, opts)
	}
	return h.dialer(spec, opts)
}

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
}

// NewHook makes a hook. f is called once for each registration, must not block, and may call [New].
func NewHook(f func(mcpvisor.ServerSpec, transport.Options) (transport.Dialer, error)) *Hook {
	return &Hook{f}
}

// ByHook returns the dialer that a hook chooses; that of New if h is nil.
func ByHook(h *Hook, spec mcpvisor.ServerSpec, opts transport.Options) (transport.Dialer, error) {
	if h == nil {
		return New(spec, opts)
	}
	return h.dialer(spec, opts)
}

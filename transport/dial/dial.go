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

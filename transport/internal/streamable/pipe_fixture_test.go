package streamable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// newPipePartner makes a server whose messages the test writes, connected by pipes. It is
// for tests over both transports.
func newPipePartner(t *testing.T, modern bool) *transporttest.Partner {
	return transporttest.NewPartner(t, modern, stdio.NewDialer)
}

// openPipes opens a session with a server in memory, connected by pipes. It is for tests
// over both transports.
func openPipes(t *testing.T, serve transporttest.ServeFunc) transport.Session {
	t.Helper()
	s := stdio.NewDialer(mcpvisor.ServerSpec{Name: "tiny", InMemory: &mcpvisor.InMemory{Serve: serve}}, transporttest.MemoryOptions).NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	return s
}

// newDialer is NewDialer, for tests over both transports.
func newDialer(spec mcpvisor.ServerSpec, opts transport.Options) (transport.Dialer, error) {
	if spec.HTTP == nil {
		return stdio.NewDialer(spec.WithDefaults(), opts), nil
	}
	return NewDialer(spec.WithDefaults(), opts), nil
}

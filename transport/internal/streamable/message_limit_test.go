package streamable

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// The largest possible Limits.MaxMessageBytes works over HTTP and over pipes.
func TestMaxMessageBytes_maxInt(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	spec.Limits.MaxMessageBytes = math.MaxInt
	requireServing(t, openSession(t, spec))

	d := stdio.NewDialer(mcpvisor.ServerSpec{Name: "tiny", Limits: mcpvisor.Limits{MaxMessageBytes: math.MaxInt},
		InMemory: &mcpvisor.InMemory{Serve: transporttest.LegacyServer(nil)}}, transporttest.MemoryOptions)
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	_, err := s.Request(transporttest.Context(t), transporttest.TinyCall("any"))
	require.NoError(t, err)
}

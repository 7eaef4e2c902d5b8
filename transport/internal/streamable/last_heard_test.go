package streamable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// Only a time with a monotonic reading keeps its distance to the present when
// the wall clock is set. There is none in a bubble.
func TestLastReceived_monotonic(t *testing.T) {
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"memory": {Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})},
		"HTTP":   newMemoryTransport(t).spec(),
	} {
		dialer, err := newDialer(spec, transport.Options{ClientInfo: transporttest.ClientInfo})
		require.NoError(t, err)
		s := dialer.NewSession()
		require.Zero(t, s.LastReceived(), name)
		began := time.Now()
		require.NoError(t, s.Open(t.Context()))
		heard := s.LastReceived()
		require.Contains(t, heard.String(), " m=+", "%s: a monotonic reading", name)
		require.False(t, heard.Before(began), name)
		require.False(t, heard.After(time.Now()), name)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
	}
}

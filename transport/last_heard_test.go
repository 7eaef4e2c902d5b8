package transport

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Only a time with a monotonic reading keeps its distance to the present when
// the wall clock is set. There is none in a bubble.
func TestLastHeardIsMonotonic(t *testing.T) {
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"memory": {Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})},
		"HTTP":   newWireless(t).spec(),
	} {
		dialer, err := NewDialer(spec, Options{ClientInfo: testInfo})
		require.NoError(t, err)
		s := dialer.NewSession()
		require.Zero(t, s.LastHeard(), name)
		began := time.Now()
		require.NoError(t, s.Open(t.Context()))
		heard := s.LastHeard()
		require.Contains(t, heard.String(), " m=+", "%s: a monotonic reading", name)
		require.False(t, heard.Before(began), name)
		require.False(t, heard.After(time.Now()), name)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
	}
}

func TestLastHeard(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		heard := NewLastReceived()
		require.Zero(t, heard.Time())
		for _, at := range []time.Duration{0, time.Nanosecond, time.Hour} {
			time.Sleep(at)
			heard.Note()
			require.True(t, heard.Time().Equal(time.Now()))
			time.Sleep(time.Minute)
			require.Equal(t, time.Minute, time.Since(heard.Time()))
		}
	})
}

package transport

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A look passes over the servers that live. The number of one that is reaped may
// be that of a descendant next, and is looked at.
func TestALookPassesOverLivingServersOnly(t *testing.T) {
	s, err := stdioSession(t, messages.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{}),
		Timeouts: messages.Timeouts{Shutdown: time.Second}})
	require.NoError(t, err)
	pid := s.Info().PID
	require.True(t, census.isChild(pid))
	require.NotEmpty(t, lineageOf(pid, nil), "it carries the mark")
	for _, pids := range census.take() {
		require.NotContains(t, pids, pid)
	}
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test ends"})
	<-s.Released()
	require.False(t, census.isChild(pid))
}

//go:build unix

package transport

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// TestExitStatusTakenBySomebodyElse: the system reaps the children of a host
// that ignores SIGCHLD, as some hosts do by themselves. The end is seen all the
// same.
func TestExitStatusTakenBySomebodyElse(t *testing.T) {
	signal.Ignore(syscall.SIGCHLD)
	defer func() { // Reset would leave it ignored
		notified := make(chan os.Signal, 1)
		signal.Notify(notified, syscall.SIGCHLD)
		signal.Stop(notified)
	}()
	s, err := stdioSession(t, messages.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{})})
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(s.Info().PID, syscall.SIGKILL))
	requireClosed(t, s.Released(), "nothing is left")
	require.Equal(t, supervisor.CauseExit, s.Cause().Kind)
	require.Equal(t, "server process ended, exit status unknown", s.Cause().Error())
	require.Nil(t, s.Cause().ExitCode)
	require.False(t, s.Cause().Permanent)
}

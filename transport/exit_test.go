//go:build unix

package transport

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
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
	s, err := stdioSession(t, mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{})})
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(s.Info().PID, syscall.SIGKILL))
	requireClosed(t, s.Released(), "nothing is left")
	require.Equal(t, supervisor.CauseExit, s.Cause().Kind)
	require.Equal(t, "server process ended, exit status unknown", s.Cause().Error())
	require.Nil(t, s.Cause().ExitCode)
	require.False(t, s.Cause().Permanent)
}

// The status is read before the process is reaped.
func TestExitStatus(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                     "server process ended with exit status 0",
		"exit 7":                     "server process ended with exit status 7",
		"exit 255":                   "server process ended with exit status 255",
		"kill -9 $$":                 "server process was ended by signal: killed",
		"kill -TERM $$":              "server process was ended by signal: terminated",
		"ulimit -c 0; kill -SEGV $$": "server process was ended by signal: segmentation fault",
	} {
		t.Run(script, func(t *testing.T) {
			c, cause := startChild(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script}}, 5, nil)
			require.Nil(t, cause)
			requireClosed(t, c.Exited(), "it ends by itself")
			require.Equal(t, want, c.Exit().Error())
			require.NoError(t, c.Release())
			require.Equal(t, want, exitCause(waitStatusOf(c)).Error(), "what wait4 says")
		})
	}
}

func waitStatusOf(c *child) *syscall.WaitStatus {
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return &status
}

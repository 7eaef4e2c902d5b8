//go:build unix

package process

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The kernel reaps the children of a host that ignores SIGCHLD. The exit is still
// reported, without a status.
func TestExitCause_status_not_available(t *testing.T) {
	signal.Ignore(syscall.SIGCHLD)
	defer func() { // signal.Reset would leave it ignored
		notified := make(chan os.Signal, 1)
		signal.Notify(notified, syscall.SIGCHLD)
		signal.Stop(notified)
	}()
	c, cause := Start(mcptest.Stdio(mcptest.Script{}), 1, 5, nil)
	require.Nil(t, cause)
	require.NoError(t, syscall.Kill(c.PID(), syscall.SIGKILL))
	requireClosed(t, c.Exited(), "the exit is not reported")
	require.NoError(t, c.Release())
	got := c.ExitCause()
	require.Equal(t, supervisor.CauseExit, got.Kind)
	require.Equal(t, "server process ended, exit status unknown", got.Error())
	require.Nil(t, got.ExitCode)
	require.False(t, got.Permanent)
}

// The status is read before the process is reaped, and is the one that wait4(2) returns.
func TestExitCause(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                       "server process ended with exit status 0",
		"exit 7":                       "server process ended with exit status 7",
		"exit 255":                     "server process ended with exit status 255",
		"exit 136":                     "server process ended with exit status 136",
		"sh -c 'kill -9 $$'; exit $?":  "server process ended with exit status 137: what it ran was ended by signal: killed",
		"sh -c 'kill -15 $$'; exit $?": "server process ended with exit status 143: what it ran was ended by signal: terminated",
		"exit 130":                     "server process ended with exit status 130: what it ran was ended by signal: interrupt",
		"kill -9 $$":                   "server process was ended by signal: killed",
		"kill -TERM $$":                "server process was ended by signal: terminated",
		"ulimit -c 0; kill -SEGV $$":   "server process was ended by signal: segmentation fault",
	} {
		t.Run(script, func(t *testing.T) {
			c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script}}, 1, 5, nil)
			require.Nil(t, cause)
			requireClosed(t, c.Exited(), "the server does not exit")
			require.Equal(t, want, c.ExitCause().Error())
			require.NoError(t, c.Release())
			same := exec.Command("/bin/sh", "-c", script)
			_ = same.Run()
			status := same.ProcessState.Sys().(syscall.WaitStatus)
			require.Equal(t, want, exitCause(&status).Error(), "the status that wait4 returns")
		})
	}
}

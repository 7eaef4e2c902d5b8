package transport

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The system tells a process that has begun to exit from one that runs.
func TestExiting_of_a_process(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.False(t, isExiting(cmd.Process.Pid))
	require.NoError(t, stdin.Close())
	require.NoError(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	require.True(t, isExiting(cmd.Process.Pid), "a zombie")
	require.NoError(t, cmd.Wait())
	require.False(t, isExiting(cmd.Process.Pid), "it is gone")
}

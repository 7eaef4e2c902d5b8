package process

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestIsExiting(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.False(t, isExiting(cmd.Process.Pid), "the process runs")
	require.NoError(t, stdin.Close())
	require.NoError(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	require.True(t, isExiting(cmd.Process.Pid), "the process is a zombie")
	require.NoError(t, cmd.Wait())
	require.False(t, isExiting(cmd.Process.Pid), "the process is reaped")
}

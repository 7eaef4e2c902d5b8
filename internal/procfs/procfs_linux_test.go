package procfs

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	text := "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 150 50 25 25 20 0 3 0 1234 1000000 2 18446744073709551615\n"
	require.Equal(t, Stat{Name: "a) b (c", Parent: 7, Group: 42, Start: "1234", CPU: 2500 * time.Millisecond, Memory: 2 * int64(os.Getpagesize())}, ParseStat([]byte(text)))
	dead := ParseStat([]byte("42 (a) Z 7 42 42 0 -1 4 100 0 0 0 0 0 0 0 20 0 1 0 1234 0 0 0\n"))
	require.True(t, dead.Exists() && dead.Dead && dead.Exiting)
	threads := ParseStat([]byte("42 (a) Z 7 42 42 0 -1 4 100 0 0 0 0 0 0 0 20 0 2 0 1234 0 0 0\n"))
	require.False(t, threads.Dead, "other threads run")
	for _, bad := range []string{"", "42 (a", "42 (a) S 1 2"} {
		require.Zero(t, ParseStat([]byte(bad)), bad)
	}
}

func TestProcess(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.Env = []string{"FIRST=1", "SECOND=2"}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	pids, err := PIDs()
	require.NoError(t, err)
	require.Contains(t, pids, pid)
	require.Equal(t, os.Getpid(), ReadStat(pid).Parent)
	require.Eventually(t, func() bool { return HasEntry(pid, "FIRST=1") }, 20*time.Second, time.Millisecond, "after exec")
	require.True(t, HasEntry(pid, "SECOND=2"))
	require.False(t, HasEntry(pid, "SECOND=") || HasEntry(pid, "COND=2"))
	if children, known := Children(os.Getpid(), os.ReadFile); known {
		require.Contains(t, children, pid)
	}
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	require.False(t, ReadStat(pid).Exists())
	_, known := Children(pid, os.ReadFile)
	require.False(t, known)
}

package transport

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// mustLineage reads the mark of a process.
func mustLineage(t *testing.T, pid int) string {
	t.Helper()
	lineage, err := lineageOf(pid, make([]byte, procBuffer))
	require.NoError(t, err)
	return lineage
}

// In the midst of exec a process shows an empty environment. Whoever is looked at
// just then has its mark all the same: a daemon that has just begun is not missed.
func TestAProcessInExecHasItsMark(t *testing.T) {
	lineage := newLineage()
	for range 200 {
		cmd := exec.Command("sleep", "60")
		cmd.Env = append(os.Environ(), lineageEntry(lineage))
		require.NoError(t, cmd.Start())
		got := mustLineage(t, cmd.Process.Pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		require.Equal(t, lineage, got)
		require.Empty(t, mustLineage(t, cmd.Process.Pid), "the dead have none")
	}
}

// A process that has no environment by its own choice holds up nobody.
func TestAnEmptyEnvironmentIsNotWaitedFor(t *testing.T) {
	cmd := exec.Command("env", "-i", "sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	buf := make([]byte, 4096)
	require.Eventually(t, func() bool {
		args, err := readAtOnce(procPath(cmd.Process.Pid, "cmdline"), buf)
		return err == nil && bytes.HasPrefix(args, []byte("sleep"))
	}, 30*time.Second, time.Millisecond)
	began := time.Now()
	for range 20 {
		require.Empty(t, mustLineage(t, cmd.Process.Pid))
	}
	require.Less(t, time.Since(began), 10*execMost, "half of what waiting would take")
}

// A look passes over the servers that live. The number of one that is reaped may
// be that of a descendant next, and is looked at.
func TestALookPassesOverLivingServersOnly(t *testing.T) {
	s, err := stdioSession(t, mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{}),
		Timeouts: mcpvisor.Timeouts{Shutdown: time.Second}})
	require.NoError(t, err)
	pid := s.Info().PID
	require.True(t, census.isChild(pid))
	require.NotEmpty(t, mustLineage(t, pid), "it carries the mark")
	found, err := census.take()
	require.NoError(t, err)
	for _, pids := range found {
		require.NotContains(t, pids, pid)
	}
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test ends"})
	<-s.Released()
	require.False(t, census.isChild(pid))
}

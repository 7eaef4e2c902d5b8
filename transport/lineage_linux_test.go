package transport

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// In the midst of exec a process shows an empty environment. Whoever is looked at
// just then has its mark all the same: a daemon that has just begun is not missed.
func TestAProcessInExecHasItsMark(t *testing.T) {
	lineage := newLineage()
	for range 200 {
		cmd := exec.Command("sleep", "60")
		cmd.Env = append(os.Environ(), lineageEntry(lineage))
		require.NoError(t, cmd.Start())
		got := lineageOf(cmd.Process.Pid, nil)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		require.Equal(t, lineage, got)
		require.Empty(t, lineageOf(cmd.Process.Pid, nil), "the dead have none")
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
	dir := fmt.Sprintf("/proc/%d", cmd.Process.Pid)
	buf := make([]byte, 4096)
	require.Eventually(t, func() bool { return bytes.HasPrefix(readAtOnce(dir+"/cmdline", buf), []byte("sleep")) },
		30*time.Second, time.Millisecond)
	began := time.Now()
	for range 20 {
		require.Empty(t, lineageOf(cmd.Process.Pid, buf))
	}
	require.Less(t, time.Since(began), 10*execMost, "half of what waiting would take")
}

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

package process

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func mustReadTag(t *testing.T, pid int) string {
	t.Helper()
	tag, err := readTag(pid, make([]byte, procBufferSize))
	require.NoError(t, err)
	return tag
}

// In the middle of exec a process shows an empty environment. A search at that moment
// still finds the tag, so it does not miss a daemon that has just begun.
func TestReadTag_during_exec(t *testing.T) {
	tag := newTag()
	for range 200 {
		cmd := exec.Command("sleep", "60")
		cmd.Env = append(os.Environ(), tagEntry(tag))
		require.NoError(t, cmd.Start())
		got := mustReadTag(t, cmd.Process.Pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		require.Equal(t, tag, got)
		require.Empty(t, mustReadTag(t, cmd.Process.Pid), "the process is reaped")
	}
}

// A process that was started with an empty environment delays no search.
func TestReadTag_does_not_wait_for_an_empty_environment(t *testing.T) {
	cmd := exec.Command("env", "-i", "sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	buf := make([]byte, 4096)
	require.Eventually(t, func() bool {
		args, err := readProcFile(procPath(cmd.Process.Pid, "cmdline"), buf)
		return err == nil && bytes.HasPrefix(args, []byte("sleep"))
	}, 30*time.Second, time.Millisecond)
	began := time.Now()
	for range 20 {
		require.Empty(t, mustReadTag(t, cmd.Process.Pid))
	}
	require.Less(t, time.Since(began), 10*maxExecWait, "waiting would take twice as long")
}

package process

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// startWrapper starts a script that wraps a server. The script gets the name of a file as
// $0 and writes the id of the process behind it as its first line.
func startWrapper(t *testing.T, keepDaemons bool, script string) (c *Child, file string, behind int) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "saved")
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script, file}, KeepDaemons: keepDaemons}, Options{StderrLines: 5})
	require.Nil(t, cause)
	t.Cleanup(func() { c.Terminate(0); _ = c.Release() })
	line, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	behind, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return c, file, behind
}

// After Terminate, a server behind a wrapper has the whole grace, although the wrapper
// exits first. After a crash of the wrapper it is killed at once.
func TestTerminate_server_behind_a_wrapper(t *testing.T) {
	const onTerm = `trap "exit 0" TERM
sh -c 'trap "sleep 0.3; echo >\"$0\"; exit" TERM; echo $$; while :; do sleep 0.02; done' "$0" </dev/null &
while :; do sleep 0.02; done`
	const onEOF = `sh -c 'echo $$; while [ ! -e "$0.go" ]; do sleep 0.02; done; sleep 0.3; echo >"$0"' "$0" </dev/null &
cat >/dev/null; touch "$0.go"; exit 0`
	const never = `sh -c 'trap "" TERM; echo $$; while :; do sleep 0.02; done' </dev/null &
cat >/dev/null`
	saved := func(t *testing.T, file string) bool {
		t.Helper()
		_, err := os.Stat(file)
		return err == nil
	}
	for name, script := range map[string]string{"on_TERM": onTerm, "at_the_end_of_stdin": onEOF} {
		for mode, keep := range map[string]bool{"with_tag": false, "without_tag": true} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				c, file, behind := startWrapper(t, keep, script)
				c.Terminate(6 * time.Second)
				require.NoError(t, c.Release())
				require.True(t, saved(t, file), "the server was killed before its grace was over")
				require.False(t, mcptest.Alive(behind))
			})
		}
	}
	t.Run("killed_after_its_grace", func(t *testing.T) {
		c, _, behind := startWrapper(t, true, never)
		c.Terminate(100 * time.Millisecond)
		require.NoError(t, c.Release())
		require.Eventually(t, func() bool { return !mcptest.Alive(behind) }, waitLimit, checkInterval)
	})
	t.Run("killed_at_once_after_a_crash", func(t *testing.T) {
		c, _, behind := startWrapper(t, true, never)
		require.NoError(t, syscall.Kill(c.PID(), syscall.SIGKILL))
		requireClosed(t, c.Exited(), "the crash is not reported")
		released := make(chan struct{})
		go func() {
			defer close(released)
			c.Terminate(time.Hour)
			_ = c.Release()
		}()
		requireClosed(t, released, "the group has a grace after a crash")
		require.Equal(t, "killed", c.ExitCause().Signal)
		require.Eventually(t, func() bool { return !mcptest.Alive(behind) }, waitLimit, checkInterval)
	})
}

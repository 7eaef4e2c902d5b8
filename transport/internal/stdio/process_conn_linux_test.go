package stdio

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestProcessConn_exit_while_a_daemon_holds_the_streams: a daemon that may stay can hold
// the streams of its server open. The exit of the server ends the connection
// nevertheless.
func TestProcessConn_exit_while_a_daemon_holds_the_streams(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	file := filepath.Join(t.TempDir(), "daemon")
	c, cause := process.Start(&mcpvisor.Stdio{Command: "/bin/sh", KeepDaemons: true,
		Args: []string{"-c", `setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600' "$0" & while [ ! -e "$0" ]; do sleep 0.01; done; exit 3`, file}},
		1, 5, nil)
	require.Nil(t, cause)
	p := newProcessConn(c, newMemorySession())
	transporttest.RequireClosed(t, p.lifetime.Dead(), "the exit is not reported")
	require.NotNil(t, p.lifetime.Cause().ExitCode, p.lifetime.Cause().Error())
	require.Equal(t, 3, *p.lifetime.Cause().ExitCode)
	transporttest.RequireClosed(t, p.lifetime.Released(), "the release waits for the daemon")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "the daemon was killed")
}

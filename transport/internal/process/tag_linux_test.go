package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A daemon with an empty environment, a session of its own and another parent ends with
// the server that started it.
func TestRelease_ends_a_daemon_without_environment(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	const asChild = `read begin; env -i PATH="$PATH" setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!; cat`
	const asOrphan = `read begin; (env -i PATH="$PATH" setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!); cat`
	for name, c := range map[string]struct {
		script string
		end    func(c *Child)
	}{
		"child_of_a_terminated_server":  {asChild, func(c *Child) { c.Terminate(time.Minute) }},
		"child_of_a_crashed_server":     {asChild, func(c *Child) { _ = syscall.Kill(c.PID(), syscall.SIGKILL); <-c.Exited() }},
		"orphan_of_a_terminated_server": {asOrphan, func(c *Child) { c.Terminate(time.Minute) }},
		"orphan_of_a_crashed_server":    {asOrphan, func(c *Child) { _ = syscall.Kill(c.PID(), syscall.SIGKILL); <-c.Exited() }},
	} {
		t.Run(name, func(t *testing.T) {
			server, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", c.script}}, Options{StderrLines: 5})
			require.Nil(t, cause)
			t.Cleanup(func() { server.Terminate(0); server.Release() })
			_, err := server.stdin.WriteString("begin\n")
			require.NoError(t, err)
			line, err := bufio.NewReader(server.stdout).ReadString('\n')
			require.NoError(t, err)
			daemon, err := strconv.Atoi(strings.TrimSpace(line))
			require.NoError(t, err)
			t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
			require.Eventually(t, func() bool {
				name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(daemon), "comm"))
				return string(name) == "sleep\n"
			}, waitLimit, checkInterval)
			c.end(server)
			server.Release()
			require.False(t, mcptest.Alive(daemon), "the daemon is still running")
		})
	}
}

// Processes that were forked before their server had the tag get it when the
// descendants are tagged again. Other processes do not.
func TestTagDescendants_forked_before_the_tag(t *testing.T) {
	server := startShell(t, "(sleep 600 & exec sleep 600) & echo ready; wait")
	var descendants []int
	require.Eventually(t, func() bool {
		descendants = childrenOf(server.PID(), make([]byte, 4096))
		if len(descendants) == 1 {
			descendants = append(descendants, childrenOf(descendants[0], make([]byte, 4096))...)
		}
		return len(descendants) == 2
	}, waitLimit, checkInterval)
	stranger, _ := startSleep(t)
	clearTag := func(pid int) { setLimitTag(pid, unix.RLIM_INFINITY) }
	for _, pid := range append(descendants, server.PID()) {
		clearTag(pid)
	}
	buf := make([]byte, 4096)
	tagOfPID := func(pid int) string {
		tag, err := limitTag(pid, buf)
		require.NoError(t, err)
		return tag
	}
	require.Empty(t, tagOfPID(server.PID()))
	for _, tagAll := range []func(pid int, tag string){tagDescendants, tagServer} {
		for _, pid := range append(descendants, server.PID()) {
			clearTag(pid)
		}
		tagAll(server.PID(), server.tag)
		for _, pid := range append(descendants, server.PID()) {
			require.Equal(t, server.tag, tagOfPID(pid))
		}
	}
	require.Empty(t, tagOfPID(stranger))
	require.Empty(t, tagOfPID(os.Getpid()))
}

// A limit that a program has set for a purpose of its own is not changed.
func TestTagDescendants_keeps_a_real_limit(t *testing.T) {
	pid, _ := startSleep(t)
	const own = 200_000
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: own, Max: unix.RLIM_INFINITY}, nil))
	tagDescendants(pid, newTag())
	var limit unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit))
	require.EqualValues(t, own, limit.Cur)
}

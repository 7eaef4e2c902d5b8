package transport

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

// A daemon that has a clean environment, a session of its own and another parent
// ends with the server that started it, however that ends.
func TestDaemonWithCleanEnvironment(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	const ofChild = `read begin; env -i PATH="$PATH" setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!; cat`
	const ofOrphan = `read begin; (env -i PATH="$PATH" setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!); cat`
	for name, c := range map[string]struct {
		script string
		end    func(c *child)
	}{
		"child_of_a_server_that_is_ended":  {ofChild, func(c *child) { c.Terminate(time.Minute) }},
		"child_of_a_server_that_crashes":   {ofChild, func(c *child) { _ = syscall.Kill(c.PID(), syscall.SIGKILL); <-c.Exited() }},
		"orphan_of_a_server_that_is_ended": {ofOrphan, func(c *child) { c.Terminate(time.Minute) }},
		"orphan_of_a_server_that_crashes":  {ofOrphan, func(c *child) { _ = syscall.Kill(c.PID(), syscall.SIGKILL); <-c.Exited() }},
	} {
		t.Run(name, func(t *testing.T) {
			server, cause := startChild(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", c.script}}, 5, nil)
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
			}, patience, timeStep)
			c.end(server)
			server.Release()
			require.False(t, mcptest.Alive(daemon), "the daemon lives on")
		})
	}
}

// What was forked before its server had the mark gets it when descendants are
// marked again; what is no descendant does not.
func TestMarkDescendants(t *testing.T) {
	server := shell(t, "(sleep 600 & exec sleep 600) & echo here; wait")
	var family []int
	require.Eventually(t, func() bool {
		family = childrenOf(server.PID(), make([]byte, 4096))
		if len(family) == 1 {
			family = append(family, childrenOf(family[0], make([]byte, 4096))...)
		}
		return len(family) == 2
	}, patience, timeStep)
	stranger, _ := marked(t)
	unmark := func(pid int) { setLimitMark(pid, unix.RLIM_INFINITY) }
	for _, pid := range append(family, server.PID()) {
		unmark(pid)
	}
	buf := make([]byte, 4096)
	mark := func(pid int) string {
		lineage, err := limitMark(pid, buf)
		require.NoError(t, err)
		return lineage
	}
	require.Empty(t, mark(server.PID()))
	markDescendants(server.PID(), server.lineage)
	for _, pid := range append(family, server.PID()) {
		require.Equal(t, server.lineage, mark(pid))
	}
	require.Empty(t, mark(stranger))
	require.Empty(t, mark(os.Getpid()))
}

// A limit that a program has set for itself is not touched.
func TestMarkLeavesRealLimitsAlone(t *testing.T) {
	pid, _ := marked(t)
	const own = 200_000
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: own, Max: unix.RLIM_INFINITY}, nil))
	markDescendants(pid, newLineage())
	var limit unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit))
	require.EqualValues(t, own, limit.Cur)
}

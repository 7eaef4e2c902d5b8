package transport

import (
	"bufio"
	"fmt"
	"os"
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

// nestedHost is set in the environment of a server that is a host itself.
const nestedHost = "TRANSPORT_TEST_NESTED_HOST"

// serveNestedHost starts a server that has a daemon, writes the number of the daemon
// and of the watchdog to stdout, and waits to be killed.
func serveNestedHost(t *testing.T) {
	c, cause := startChild(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c",
		`setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1 </dev/null' & cat >/dev/null`}}, 5, nil)
	require.Nil(t, cause)
	line, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	watchdog := 0
	require.Eventually(t, func() bool {
		hostWatchdog.mu.Lock()
		defer hostWatchdog.mu.Unlock()
		if hostWatchdog.cmd != nil {
			watchdog = hostWatchdog.cmd.Process.Pid
		}
		return watchdog != 0
	}, patience, timeStep)
	fmt.Printf("nested %d %s", watchdog, line)
	time.Sleep(time.Hour)
}

// A server may be a host, with servers, daemons and a watchdog of its own. The
// watchdog does its work when the server is killed: the outer host knows nothing of
// the daemons.
func TestNestedHost(t *testing.T) {
	if os.Getenv(nestedHost) != "" {
		serveNestedHost(t)
		return
	}
	outer, cause := startChild(&mcpvisor.Stdio{Command: os.Args[0], Args: []string{"-test.run=^TestNestedHost$"},
		Env: map[string]string{nestedHost: "1"}}, 5, nil)
	require.Nil(t, cause)
	t.Cleanup(func() { outer.Terminate(0); _ = outer.Release() })
	var watchdog, daemon int
	for in := bufio.NewReader(outer.stdout); daemon == 0; {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		if numbers, ok := strings.CutPrefix(line, "nested "); ok {
			first, second, _ := strings.Cut(strings.TrimSpace(numbers), " ")
			watchdog, err = strconv.Atoi(first)
			require.NoError(t, err)
			daemon, err = strconv.Atoi(second)
			require.NoError(t, err)
		}
	}
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	markDescendants(outer.PID(), outer.lineage)
	require.Empty(t, mustLineage(t, watchdog), "the outer host would kill it")
	require.True(t, mcptest.Alive(daemon))
	require.NoError(t, unix.Kill(outer.PID(), unix.SIGKILL))
	<-outer.Exited()
	require.NoError(t, outer.Release())
	require.Eventually(t, func() bool { return !mcptest.Alive(daemon) }, patience, timeStep, "the daemon of the inner server is left")
}

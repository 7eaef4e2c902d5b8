package process

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

// serveNestedHost starts a server that has a daemon, writes the ids of the watchdog and
// of the daemon to stdout, and waits to be killed.
func serveNestedHost(t *testing.T) {
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c",
		`setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1 </dev/null' & cat >/dev/null`}}, Options{StderrLines: 5})
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
	}, waitLimit, checkInterval)
	fmt.Printf("nested %d %s", watchdog, line)
	time.Sleep(time.Hour) // until it is killed
}

// A server may itself be a host with servers, daemons and a watchdog. When the outer host
// kills it, its watchdog still acts: the outer host does not know the daemons of the
// inner servers.
func TestWatchdog_of_a_nested_host(t *testing.T) {
	if os.Getenv(nestedHost) != "" {
		serveNestedHost(t)
		return
	}
	outer, cause := Start(&mcpvisor.Stdio{Command: os.Args[0], Args: []string{"-test.run=^TestWatchdog_of_a_nested_host$"},
		Env: map[string]string{nestedHost: "1"}}, Options{StderrLines: 5})
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
	tagDescendants(outer.PID(), outer.tag)
	require.Empty(t, mustReadTag(t, watchdog), "the outer host would kill the watchdog")
	require.True(t, mcptest.Alive(daemon))
	require.NoError(t, unix.Kill(outer.PID(), unix.SIGKILL))
	<-outer.Exited()
	require.NoError(t, outer.Release())
	require.Eventually(t, func() bool { return !mcptest.Alive(daemon) }, waitLimit, checkInterval, "the daemon of the inner server is still running")
}

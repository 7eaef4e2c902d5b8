package transport

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// shell starts a script as a server would be, and waits for its first line.
func shell(t *testing.T, script string) *child {
	t.Helper()
	c, cause := startChild(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script}}, 5, nil)
	require.Nil(t, cause)
	t.Cleanup(func() { c.Terminate(0); c.Release() })
	_, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	return c
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}

// TestProcessesLeaveNoDescriptor: neither one that has ended nor one that never
// began, nor the thread that was to start it.
func TestProcessesLeaveNoDescriptor(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("#!/no/such/interpreter\n"), 0o755))
	fail := func() {
		_, cause := startChild(&mcpvisor.Stdio{Command: bad}, 5, nil)
		require.NotNil(t, cause)
	}
	end := func() {
		c := shell(t, "echo here; cat >/dev/null")
		c.Terminate(time.Minute)
		c.Release()
	}
	for _, start := range []func(){end, fail} {
		start() // what the runtime opens once
		before := openFiles(t)
		for range 3 {
			start()
		}
		require.Equal(t, before, openFiles(t))
		spawner.mu.Lock()
		require.Zero(t, spawner.threads)
		require.Empty(t, spawner.queue)
		spawner.mu.Unlock()
	}
}

// TestTerminateIsPolite: the end of stdin comes first, and has its time; only
// what minds neither that nor TERM is killed.
func TestTerminateIsPolite(t *testing.T) {
	c := shell(t, `trap "exit 7" TERM; echo here; cat >/dev/null; sleep 0.1; exit 3`)
	c.Terminate(20 * time.Second)
	cause := c.Exit()
	require.NotNil(t, cause.ExitCode, cause.Error())
	require.Equal(t, 3, *cause.ExitCode)

	c = shell(t, `trap "exit 7" TERM; echo here; while :; do sleep 0.05; done`)
	c.Terminate(4 * time.Second)
	cause = c.Exit()
	require.NotNil(t, cause.ExitCode, cause.Error())
	require.Equal(t, 7, *cause.ExitCode)

	c = shell(t, `trap "" TERM; echo here; while :; do sleep 0.1; done`)
	c.Terminate(100 * time.Millisecond)
	requireClosed(t, c.Exited(), "it is not killed")
	require.Equal(t, "killed", c.Exit().Signal)
}

// What is reaped has given its number back: the next one to have it is somebody
// else.
func TestNobodyIsSignalledAfterTheEnd(t *testing.T) {
	c := shell(t, "echo here")
	requireClosed(t, c.Exited(), "it ends by itself")
	c.signal(func() { require.Fail(t, "somebody else is signalled") })
}

// A signal that the host's terminal sends is not for the servers, and one for a
// server is for all that it started.
func TestAServerHasAGroupOfItsOwn(t *testing.T) {
	c := shell(t, "echo here; cat")
	group, err := syscall.Getpgid(c.PID())
	require.NoError(t, err)
	require.Equal(t, c.PID(), group)
}

// TestTheWatchdogKnowsTheLivingOnly: the number of a group that has ended may be
// somebody else's when the host ends.
func TestTheWatchdogKnowsTheLivingOnly(t *testing.T) {
	kept, ended := shell(t, "echo here; cat"), shell(t, "echo here; cat")
	watched := func() (groups []int) {
		hostWatchdog.mu.Lock()
		defer hostWatchdog.mu.Unlock()
		return slices.Sorted(maps.Keys(hostWatchdog.groups))
	}
	require.ElementsMatch(t, []int{kept.PID(), ended.PID()}, watched())
	ended.Terminate(time.Minute)
	ended.Release()
	require.Equal(t, []int{kept.PID()}, watched())
}

// marked starts a process with an environment.
func marked(t *testing.T, env ...string) (pid int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Env = env
	require.NoError(t, cmd.Start())
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	return cmd.Process.Pid, gone
}

// TestOnlyDescendantsAreKilled: the mark counts, not the number, and it is found
// however large the environment is.
func TestOnlyDescendantsAreKilled(t *testing.T) {
	mine, others := newLineage(), newLineage()
	stranger, strangerEnded := marked(t, lineageEntry(others))
	require.NoError(t, killDescendant(stranger, mine))
	select {
	case <-strangerEnded:
		t.Fatal("the number had been given to somebody else")
	case <-time.After(50 * time.Millisecond):
	}
	large := "LARGE=" + strings.Repeat("x", 100<<10)
	descendant, ended := marked(t, large, lineageEntry(mine))
	// For a moment after exec a process has no environment to be seen.
	require.Eventually(t, func() bool { return mustLineage(t, descendant) == mine }, patience, timeStep)
	require.NoError(t, endLineage(mine))
	requireClosed(t, ended, "it is not found")
	require.NoError(t, syscall.Kill(stranger, 0))
}

// TestADaemonThatStaysHidesNoDeath: one that is meant to stay may hold the streams
// of its server open as long as it likes.
func TestADaemonThatStaysHidesNoDeath(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	daemon := filepath.Join(t.TempDir(), "daemon")
	c, cause := startChild(&mcpvisor.Stdio{Command: "/bin/sh", KeepDaemons: true,
		Args: []string{"-c", `setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600' "$0" & while [ ! -e "$0" ]; do sleep 0.01; done; exit 3`, daemon}}, 5, nil)
	require.Nil(t, cause)
	l := newLink(c, 1<<20, time.Minute, new(notices), nil, newQuestions("s", Options{}), nil)
	requireClosed(t, l.Dead(), "the end is not seen")
	require.NotNil(t, l.Cause().ExitCode, l.Cause().Error())
	require.Equal(t, 3, *l.Cause().ExitCode)
	requireClosed(t, l.Released(), "the daemon holds the release up")
	text, err := os.ReadFile(daemon)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "it was to stay")
}

// TestTheGroupEndsWithItsServer: what has not left it is no daemon.
func TestTheGroupEndsWithItsServer(t *testing.T) {
	c, cause := startChild(&mcpvisor.Stdio{Command: "/bin/sh", KeepDaemons: true, Args: []string{"-c", "sleep 600 </dev/null >/dev/null 2>&1 & echo $!; exit 0"}}, 5, nil)
	require.Nil(t, cause)
	line, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	requireClosed(t, c.Exited(), "it ends by itself")
	c.Release()
	require.Eventually(t, func() bool { return !mcptest.Alive(pid) }, patience, timeStep)
}

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

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// startShell starts a script as a server and waits for its first line.
func startShell(t *testing.T, script string) *Child {
	t.Helper()
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script}}, Options{StderrLines: 5})
	require.Nil(t, cause)
	t.Cleanup(func() { c.Terminate(0); c.Release() })
	_, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	return c
}

// startSleep starts a process that is not a server, with an environment.
func startSleep(t *testing.T, env ...string) (pid int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Env = env
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return cmd.Process.Pid, done
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}

// Neither a child that has ended nor one that could not be started leaves a descriptor
// or a parent thread.
func TestChild_leaves_no_descriptor(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("#!/no/such/interpreter\n"), 0o755))
	fail := func() {
		_, cause := Start(&mcpvisor.Stdio{Command: bad}, Options{StderrLines: 5})
		require.NotNil(t, cause)
	}
	end := func() {
		c := startShell(t, "echo ready; cat >/dev/null")
		c.Terminate(time.Minute)
		c.Release()
	}
	for _, start := range []func(){end, fail} {
		start() // the runtime opens some descriptors once
		before := openFiles(t)
		for range 3 {
			start()
		}
		require.Equal(t, before, openFiles(t))
		parentThreads.mu.Lock()
		require.Zero(t, parentThreads.threads)
		require.Empty(t, parentThreads.queue)
		parentThreads.mu.Unlock()
	}
}

// Terminate closes stdin, then sends SIGTERM, then SIGKILL, with time between them.
func TestTerminate(t *testing.T) {
	t.Run("end_of_stdin", func(t *testing.T) {
		c := startShell(t, `trap "exit 7" TERM; echo ready; cat >/dev/null; sleep 0.1; exit 3`)
		c.Terminate(20 * time.Second)
		cause := c.ExitCause()
		require.NotNil(t, cause.ExitCode, cause.Error())
		require.Equal(t, 3, *cause.ExitCode)
	})
	t.Run("SIGTERM", func(t *testing.T) {
		c := startShell(t, `trap "exit 7" TERM; echo ready; while :; do sleep 0.05; done`)
		c.Terminate(4 * time.Second)
		cause := c.ExitCause()
		require.NotNil(t, cause.ExitCode, cause.Error())
		require.Equal(t, 7, *cause.ExitCode)
	})
	t.Run("SIGKILL", func(t *testing.T) {
		c := startShell(t, `trap "" TERM; echo ready; while :; do sleep 0.1; done`)
		c.Terminate(100 * time.Millisecond)
		requireClosed(t, c.Exited(), "the server is not killed")
		require.Equal(t, "killed", c.ExitCause().Signal)
	})
}

// After the exit the id of a child may belong to another process.
func TestChild_is_not_signalled_after_its_exit(t *testing.T) {
	c := startShell(t, "echo ready")
	requireClosed(t, c.Exited(), "the server does not exit")
	c.whileHeld(func() { require.Fail(t, "another process may be signalled") })
}

// A signal that the terminal of the host sends does not reach servers, and a signal to
// a server reaches what it has started.
func TestStart_makes_a_process_group(t *testing.T) {
	c := startShell(t, "echo ready; cat")
	group, err := syscall.Getpgid(c.PID())
	require.NoError(t, err)
	require.Equal(t, c.PID(), group)
}

// A daemon that may stay can hold the streams of its server open. The exit of the
// server is reported all the same, and the release does not wait for the daemon.
func TestRelease_KeepDaemons_spares_a_daemon(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	file := filepath.Join(t.TempDir(), "daemon")
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", KeepDaemons: true,
		Args: []string{"-c", `setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600' "$0" & while [ ! -e "$0" ]; do sleep 0.01; done; exit 3`, file}},
		Options{StderrLines: 5})
	require.Nil(t, cause)
	requireClosed(t, c.Exited(), "the exit is not reported")
	got := c.ExitCause()
	require.NotNil(t, got.ExitCode, got.Error())
	require.Equal(t, 3, *got.ExitCode)
	require.NoError(t, c.Release())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "the daemon was killed")
}

// A process that has not left the group is not a daemon: it ends with its server.
func TestRelease_KeepDaemons_ends_the_group(t *testing.T) {
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", KeepDaemons: true,
		Args: []string{"-c", "sleep 600 </dev/null >/dev/null 2>&1 & echo $!; exit 0"}}, Options{StderrLines: 5})
	require.Nil(t, cause)
	line, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	requireClosed(t, c.Exited(), "the server does not exit")
	c.Release()
	require.Eventually(t, func() bool { return !mcptest.Alive(pid) }, waitLimit, checkInterval)
}

// A process that SIGKILL does not end is named.
func TestRelease_names_a_running_process(t *testing.T) {
	c := startShell(t, "echo ready; exec sleep 600") // does not exit at the end of its stdin
	t.Cleanup(func() { <-c.reapDone })
	t.Cleanup(func() { c.Terminate(0) })
	require.EqualError(t, c.Release(), "process "+strconv.Itoa(c.PID())+" (/bin/sh) is still running after SIGKILL")
}

// The end of a server does not depend on how long a search of the process table takes.
func TestChild_ends_during_a_search(t *testing.T) {
	t.Run("group_is_given_up", func(t *testing.T) {
		c := startShell(t, "sleep 600 & echo ready; wait")
		procTable.scanning.Lock()
		stop, returned := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(returned)
			c.group.awaitEmpty(c.tag, stop)
		}()
		close(stop)
		select {
		case <-returned:
		case <-time.After(waitLimit):
			t.Error("awaitEmpty waits for the search")
		}
		procTable.scanning.Unlock()
		<-returned
	})
	t.Run("dead_process_is_not_reported_as_running", func(t *testing.T) {
		c := startShell(t, "echo ready; cat")
		c.shutdownOnce.Do(func() { close(c.shutdown) }) // as Terminate does
		procTable.scanning.Lock()
		require.NoError(t, syscall.Kill(c.PID(), syscall.SIGKILL))
		require.Eventually(t, func() bool { return isDead(c.PID()) }, waitLimit, checkInterval)
		released := make(chan error, 1)
		go func() { released <- c.Release() }()
		select {
		case <-c.Exited():
		case <-time.After(waitLimit):
			t.Error("the exit waits for the search")
		}
		procTable.scanning.Unlock()
		require.NoError(t, <-released)
	})
}

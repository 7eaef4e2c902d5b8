package process

import (
	"bufio"
	"errors"
	"io/fs"
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
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// startShell starts a script as a server and waits for its first line.
func startShell(t *testing.T, script string) *Child {
	t.Helper()
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script}}, 1, 5, nil)
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

// openFileNames returns how often each file is open. What an earlier test has left may close at any time.
func openFileNames(t *testing.T) map[string]int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	names := map[string]int{}
	for _, file := range files {
		if name, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil { // not that of the directory
			names[name]++
		}
	}
	return names
}

// Neither a child that has ended nor one that could not be started leaves a descriptor
// or a parent thread.
func TestChild_leaves_no_descriptor(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	testutil.WriteProgram(t, bad, []byte("#!/no/such/interpreter\n"))
	fail := func() {
		_, cause := Start(&mcpvisor.Stdio{Command: bad}, 1, 5, nil)
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
		require.Zero(t, usersOfParent())
	}
}

func usersOfParent() int {
	parent.mu.Lock()
	defer parent.mu.Unlock()
	return parent.users
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
	require.False(t, c.Exiting())
	group, err := syscall.Getpgid(c.PID())
	require.NoError(t, err)
	require.Equal(t, c.PID(), group)
}

// A daemon that may stay can hold the streams of its server open. The exit of the
// server is still reported, and the release does not wait for the daemon.
func TestRelease_KeepDaemons_spares_a_daemon(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	file := filepath.Join(t.TempDir(), "daemon")
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", KeepDaemons: true,
		Args: []string{"-c", `setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600' "$0" & while [ ! -e "$0" ]; do sleep 0.01; done; exit 3`, file}},
		1, 5, nil)
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
		Args: []string{"-c", "sleep 600 </dev/null >/dev/null 2>&1 & echo $!; exit 0"}}, 1, 5, nil)
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

// Release of a dead process does not wait for what is left of its group, and reports no
// running process.
func TestRelease_of_a_dead_process_in_its_grace(t *testing.T) {
	c := startShell(t, "sleep 600 & echo ready; wait")
	c.shutdownOnce.Do(func() { close(c.shutdown) }) // as Terminate does, whose grace is not over
	require.NoError(t, syscall.Kill(c.PID(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return c.group.dead() }, waitLimit, checkInterval)
	require.True(t, c.Exiting())
	select {
	case <-c.Exited():
		require.Fail(t, "the group has no grace")
	default:
	}
	require.NoError(t, c.Release())
	requireClosed(t, c.Exited(), "the exit is not reported")
}

// A server and its daemon can be ended when this process has no free descriptor.
func TestRelease_without_descriptors(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	c := startShell(t, "echo ready; cat")
	d, daemon := startWithDaemon(t)
	free := testutil.ExhaustDescriptors(t)
	var left []error
	for _, server := range []*Child{c, d} {
		server.Terminate(time.Minute)
		left = append(left, server.Release())
	}
	free()
	require.NoError(t, errors.Join(left...))
	require.False(t, mcptest.Alive(daemon), "the daemon is still running")
}

// startWithDaemon starts a server that has a daemon in a session of its own.
func startWithDaemon(t *testing.T) (c *Child, daemon int) {
	t.Helper()
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c",
		"setsid sh -c 'echo $$; exec sleep 600 </dev/null >/dev/null 2>&1' & cat"}}, 1, 5, nil)
	require.Nil(t, cause)
	t.Cleanup(func() { c.Terminate(0); _ = c.Release() })
	line, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	daemon, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	return c, daemon
}

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
			server, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", c.script}}, 1, 5, nil)
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

// A daemon that was forked before its server had the tag gets it before the server ends.
func TestTerminate_ends_a_daemon_without_tag(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	for range 50 {
		began := time.Now()
		server, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c",
			`env -i PATH="$PATH" setsid sh -c 'echo $$; exec sleep 600 </dev/null >/dev/null 2>&1' & cat`}}, 1, 5, nil)
		require.Nil(t, cause)
		t.Cleanup(func() { server.Terminate(0); _ = server.Release() })
		line, err := bufio.NewReader(server.stdout).ReadString('\n')
		require.NoError(t, err)
		daemon, err := strconv.Atoi(strings.TrimSpace(line))
		require.NoError(t, err)
		t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
		none := &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		require.NoError(t, unix.Prlimit(daemon, unix.RLIMIT_RTTIME, none, nil))
		if time.Since(began) > 80*time.Millisecond {
			continue // it was tagged again already, which happens once
		}
		server.Terminate(time.Minute)
		require.NoError(t, server.Release())
		require.False(t, mcptest.Alive(daemon), "the daemon is still running")
		return
	}
	require.Fail(t, "the machine is too slow for this test")
}

// startWrapper starts a script that wraps a server. The script gets the name of a file as
// $0 and writes the id of the process behind it as its first line.
func startWrapper(t *testing.T, keepDaemons bool, script string) (c *Child, file string, behind int) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "saved")
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script, file}, KeepDaemons: keepDaemons}, 1, 5, nil)
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

// What servers share outlives the last one while it is kept, and no longer.
func TestKeeper(t *testing.T) {
	var none *Keeper
	none.Keep()
	require.Nil(t, none.Release())

	var k Keeper
	require.Nil(t, k.Release(), "Keep was not called")
	first, before := 0, openFileNames(t)
	for range 2 {
		c := startShell(t, "echo ready; cat")
		k.Keep()
		require.Eventually(t, func() bool { return watchdogPID(t) != 0 }, waitLimit, checkInterval)
		if first == 0 {
			first = watchdogPID(t)
		}
		c.Terminate(time.Second)
		require.NoError(t, c.Release())
		require.Equal(t, first, watchdogPID(t))
		require.Equal(t, 1, usersOfParent())
	}
	finish := k.Release()
	require.Nil(t, k.Release())
	finish()
	require.Zero(t, watchdogPID(t))
	require.Zero(t, usersOfParent())
	for name, n := range openFileNames(t) {
		require.LessOrEqual(t, n, before[name], name)
	}
}

// watchdogPID returns the id of the watchdog; 0 if none runs.
func watchdogPID(t *testing.T) int {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(children)) {
			args, _ := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if strings.Contains(string(args), "\x00mcpvisor-watchdog\x00") {
				pid, err := strconv.Atoi(child)
				require.NoError(t, err)
				return pid
			}
		}
	}
	return 0
}

// A limit of this process or its machine is no fault of the command.
func TestStart_limit_of_the_host(t *testing.T) {
	for err, host := range map[error]bool{
		os.NewSyscallError("pipe2", syscall.EMFILE): true, &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN}: true,
		syscall.ENFILE: true, syscall.ENOMEM: true, syscall.E2BIG: false, syscall.ENOENT: false,
	} {
		cause := startCause(&mcpvisor.Stdio{Command: "x"}, err)
		require.Equal(t, host, cause.Host, "%v", err)
		require.Equal(t, host, strings.Contains(cause.Message, "ulimit -n"), cause.Message)
	}
}

// A host that reaps its children itself keeps no descriptor of them, and no signal goes to an id that may
// belong to another process. Release names what the child would have left.
func TestChild_reaped_by_the_host(t *testing.T) {
	startShell(t, "echo; sleep 60") // keeps what all children share
	require.Eventually(t, func() bool { return watchdogPID(t) != 0 }, waitLimit, checkInterval)
	before := openFileNames(t)["anon_inode:[pidfd]"]
	for range 5 {
		c := startShell(t, "sleep 60 & echo; read line")
		require.False(t, c.group.isReaped())
		pid := c.PID()
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP)) // so that it is not seen to exit before it is reaped
		_, err := syscall.Wait4(pid, nil, syscall.WUNTRACED, nil)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		_, _ = syscall.Wait4(pid, nil, 0, nil) // ECHILD if the child was reaped first
		<-c.reapDone
		require.NoError(t, c.Release())
	}
	require.Equal(t, before, openFileNames(t)["anon_inode:[pidfd]"])
}

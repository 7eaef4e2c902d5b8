//go:build unix

package mcptest

import (
	"encoding/json"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// killedBy returns the signal that ended a process; 0 if it exited.
func killedBy(err error) syscall.Signal {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	status := exit.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		return 0
	}
	return status.Signal()
}

func TestStdio_dies_of_signal(t *testing.T) {
	for name, want := range map[string]syscall.Signal{"": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM, "int": syscall.SIGINT, "HUP": syscall.SIGHUP} {
		c := startChild(t, one(Fault{At: StageInitialized, Do: ActionDie, Signal: name}))
		c.initialize()
		_, err := c.ends()
		require.Equal(t, want, killedBy(err), name)
	}
	c := startChild(t, Script{})
	c.initialize()
	c.call("signal", `{"name":"KILL"}`)
	_, err := c.ends()
	require.Equal(t, syscall.SIGKILL, killedBy(err))
}

func TestStdio_ignores_shutdown(t *testing.T) {
	c := startChild(t, Script{Faults: []Fault{
		{At: StageStart, Do: ActionIgnoreShutdown},
		{At: StageStdinClosed, Do: ActionStderrLine, Text: "never"},
		{At: StageStdinClosed, Do: ActionJunk, Text: "still here"},
	}})
	c.initialize()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	c.call("echo", `{"text":"after TERM"}`)
	require.Contains(t, c.line(), "after TERM")
	require.NoError(t, c.stdin.Close())
	require.Equal(t, "still here\n", c.line())
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, Alive(c.cmd.Process.Pid))
	require.NoError(t, c.cmd.Process.Kill())
	_, err := c.ends()
	require.Equal(t, syscall.SIGKILL, killedBy(err))
}

func TestStdio_keeps_running_without_reading(t *testing.T) {
	c := startChild(t, Script{Faults: []Fault{{At: StageInitialized, Do: ActionHangAll}, {At: StageInitialized, Do: ActionJunk, Text: "stopped reading"}}})
	c.initialize()
	require.Equal(t, "stopped reading\n", c.line())
	require.NoError(t, c.stdin.Close())
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	_, err := c.ends()
	require.Equal(t, syscall.SIGTERM, killedBy(err), "the server ignored the end of stdin")
}

func TestStdio_keeps_running_without_stdout(t *testing.T) {
	c := startChild(t, one(Fault{At: StageInitialized, Do: ActionCloseStdout}))
	c.initialize()
	_, err := c.stdout.ReadByte()
	require.Error(t, err)
	require.True(t, Alive(c.cmd.Process.Pid))
	require.NoError(t, c.stdin.Close())
	require.NoError(t, c.cmd.Wait())
}

func TestGrandchild_holds_stdout(t *testing.T) {
	for _, detached := range []string{"false", "true"} {
		dir := t.TempDir()
		c := startChild(t, Script{StateDir: dir})
		c.initialize()
		c.call("fork", `{"detached":`+detached+`}`)
		var answer struct {
			Result struct {
				StructuredContent struct{ Pid int }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(c.line()), &answer))
		grandchild := answer.Result.StructuredContent.Pid
		t.Cleanup(func() { _ = syscall.Kill(grandchild, syscall.SIGKILL) })
		require.Equal(t, []int{c.cmd.Process.Pid, grandchild}, PIDs(dir))

		group, err := syscall.Getpgid(grandchild)
		require.NoError(t, err)
		require.Equal(t, detached == "true", group == grandchild, "a detached grandchild leads a group")
		require.NoError(t, syscall.Kill(grandchild, syscall.SIGTERM))
		require.NoError(t, c.cmd.Process.Kill())
		state, err := c.cmd.Process.Wait()
		require.NoError(t, err)
		require.False(t, state.Exited(), "the server was killed")
		require.True(t, Alive(grandchild), "the grandchild ignores SIGTERM and outlives its parent")

		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.stdout.ReadByte()
		}()
		select {
		case <-ended:
			require.Fail(t, "stdout ended although the grandchild holds it")
		default:
		}
		require.NoError(t, syscall.Kill(grandchild, syscall.SIGKILL))
		<-ended
		require.False(t, Alive(c.cmd.Process.Pid))
	}
}

func TestAlive_zombie(t *testing.T) {
	c := startChild(t, one(Fault{At: StageStart, Do: ActionExit}))
	// Stdout ends before the process becomes a zombie, so poll.
	_, _ = c.stdout.ReadByte()
	require.Eventually(t, func() bool { return !Alive(c.cmd.Process.Pid) }, eventually, tick, "a zombie is not alive")
	require.NoError(t, c.cmd.Wait())
}

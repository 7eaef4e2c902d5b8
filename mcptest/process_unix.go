//go:build unix

package mcptest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// raise sends this process a signal.
func raise(name string) error {
	number := unix.SignalNum("SIG" + name)
	if number == 0 {
		return fmt.Errorf("mcptest: signal %q is unknown; use a name such as KILL or TERM", name)
	}
	// A process that was started under nohup ignores SIGHUP. Notify and Stop restore
	// the default action.
	notice := make(chan os.Signal, 1)
	signal.Notify(notice, number)
	signal.Stop(notice)
	return unix.Kill(os.Getpid(), number)
}

func ignoreTermination() { signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP) }

// readyFD is the descriptor that the grandchild closes when it is ready.
const readyFD = 3

// startGrandchild returns when the grandchild has said that it is ready: a
// SIGTERM that comes sooner would end it.
func startGrandchild(cmd *exec.Cmd, detached bool) error {
	ready, child, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd.ExtraFiles = []*os.File{child}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: detached}
	err = cmd.Start()
	_ = child.Close()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, ready)
	return err
}

func grandchildReady() { _ = unix.Close(readyFD) }

// Alive reports whether a process runs. A zombie, dead but not yet reaped by
// its parent, is not alive.
func Alive(pid int) bool {
	if pid <= 0 || unix.Kill(pid, 0) == unix.ESRCH {
		return false
	}
	// Linux writes the state after the closing bracket of the command. Other systems
	// have no such file; there the result of the signal decides.
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return unix.Kill(pid, 0) != unix.ESRCH
	}
	_, after, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	return len(after) == 0 || after[0] != 'Z' && after[0] != 'X'
}

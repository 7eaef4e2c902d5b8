//go:build unix

package process

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

// Raise sends this process a signal, given by its name without "SIG".
func Raise(name string) error {
	number := unix.SignalNum("SIG" + name)
	if number == 0 {
		return fmt.Errorf("mcptest: signal %q is unknown; use a name such as KILL or TERM", name)
	}
	// A process that was started under nohup ignores SIGHUP.
	if err := restoreDefault(number); err != nil {
		return fmt.Errorf("mcptest: this process ignores SIG%s: %w; start it without nohup", name, err)
	}
	return unix.Kill(os.Getpid(), number)
}

// IgnoreTermination makes this process ignore the polite signals.
func IgnoreTermination() { signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP) }

// readyFD is the descriptor that a grandchild closes when it is ready.
const readyFD = 3

// StartGrandchild starts cmd and waits until it has called GrandchildReady, because a
// SIGTERM that arrives earlier would end it. A detached grandchild gets a session of its
// own.
func StartGrandchild(cmd *exec.Cmd, detached bool) error {
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

// GrandchildReady reports to the parent that this grandchild ignores polite signals.
func GrandchildReady() { _ = unix.Close(readyFD) }

// Alive reports whether a process runs. A zombie, which has ended but was not waited
// for, is not alive.
func Alive(pid int) bool {
	if pid <= 0 || unix.Kill(pid, 0) == unix.ESRCH {
		return false
	}
	// On Linux the state follows the command, which is in parentheses. Other systems
	// have no such file; there the result of the signal decides.
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return unix.Kill(pid, 0) != unix.ESRCH
	}
	_, after, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	return len(after) == 0 || after[0] != 'Z' && after[0] != 'X'
}

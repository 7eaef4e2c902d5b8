//go:build windows

package process

import (
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/windows"
)

// Raise ends this process with status 1, whatever the signal. A process on Windows
// cannot die of a signal.
func Raise(string) error { return windows.TerminateProcess(windows.CurrentProcess(), 1) }

// IgnoreTermination makes this process ignore Ctrl-C.
func IgnoreTermination() { signal.Ignore(os.Interrupt) }

// StartGrandchild starts cmd. A detached grandchild gets a process group of its own and
// leaves the job.
func StartGrandchild(cmd *exec.Cmd, detached bool) error {
	if detached {
		cmd.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_BREAKAWAY_FROM_JOB}
	}
	return cmd.Start()
}

// GrandchildReady does nothing on Windows, where StartGrandchild does not wait.
func GrandchildReady() {}

// Alive reports whether a process runs.
func Alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	handle, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer func() { _ = windows.CloseHandle(handle) }()
	state, err := windows.WaitForSingleObject(handle, 0)
	return err == nil && state == uint32(windows.WAIT_TIMEOUT)
}

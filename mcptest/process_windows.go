//go:build windows

package mcptest

import (
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/windows"
)

// raise ends this process with status 1, whatever the signal: Windows has no
// signals that a process could die of.
func raise(string) error { return windows.TerminateProcess(windows.CurrentProcess(), 1) }

func ignoreTermination() { signal.Ignore(os.Interrupt) }

func startGrandchild(cmd *exec.Cmd, detached bool) error {
	if detached {
		cmd.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_BREAKAWAY_FROM_JOB}
	}
	return cmd.Start()
}

func grandchildReady() {}

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

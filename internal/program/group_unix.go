//go:build unix

package program

import (
	"os/exec"
	"syscall"
)

// killWithGroup makes the end of the context kill what the program has started, too.
func killWithGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

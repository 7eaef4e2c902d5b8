//go:build unix && !linux

package transport

import (
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// processGroup is a child's process group. Without pidfd and waitid the exit
// is awaited by reaping the child, so its group is killed just after.
type processGroup struct {
	pgid int
	cmd  *exec.Cmd
	gone atomic.Bool
}

func startInGroup(cmd *exec.Cmd, _ string) (*processGroup, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &processGroup{pgid: cmd.Process.Pid, cmd: cmd}, nil
}

func (g *processGroup) waitExit() *syscall.WaitStatus {
	_ = g.cmd.Wait()
	g.gone.Store(true)
	if g.cmd.ProcessState == nil {
		return nil
	}
	status, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return nil
	}
	return &status
}

// isReaped reports whether the child's number may be another's by now.
func (g *processGroup) isReaped() bool { return g.gone.Load() }

// awaitEmpty waits until nothing of the group is left, or until stop is closed.
func (g *processGroup) awaitEmpty(_ string, stop <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for syscall.Kill(-g.pgid, 0) == nil {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

func (g *processGroup) reaping() {}

func (g *processGroup) reaped() {}

// widenPipe does nothing here: the size of a pipe is the system's.
func widenPipe(*os.File) {}

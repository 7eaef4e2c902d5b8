//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// processGroup is the process group of one child. These systems have no
// waitid(2) in Go and no pidfd. So the exit is awaited by reaping the child, and
// the group is killed just after that.
type processGroup struct {
	pgid    int
	process *os.Process
	reaped  atomic.Bool
}

// startInGroup starts the command as the leader of a process group of its own. What leaves
// the group may stay.
func startInGroup(cmd *exec.Cmd, _ bool) (*processGroup, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &processGroup{pgid: cmd.Process.Pid, process: cmd.Process}, nil
}

// waitExit reaps the child and returns its exit status; nil if that is not known.
func (g *processGroup) waitExit() *syscall.WaitStatus {
	state, err := g.process.Wait()
	g.reaped.Store(true)
	if err != nil {
		return nil
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return nil
	}
	return &status
}

// isReaped reports whether the child's id may belong to another process.
func (g *processGroup) isReaped() bool { return g.reaped.Load() }

// awaitEmpty waits until no process of the group exists, or until stop is closed.
func (g *processGroup) awaitEmpty(stop <-chan struct{}) {
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

// reap calls wait, which finds that waitExit has collected the exit status.
func (*processGroup) reap(wait func()) { wait() }

//go:build unix

package process

import (
	"fmt"
	"syscall"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// terminate asks every process of the group to end.
func (g *processGroup) terminate() { g.signal(syscall.SIGTERM) }

// kill ends every process of the group.
func (g *processGroup) kill() { g.signal(syscall.SIGKILL) }

// signal sends a signal to the group (kill(2) with a negative pid), and to the
// child itself if it has moved to another group, such as ours.
func (g *processGroup) signal(sig syscall.Signal) {
	_ = syscall.Kill(-g.pgid, sig)
	if g.isReaped() {
		return
	}
	if current, err := syscall.Getpgid(g.pgid); err == nil && current != g.pgid {
		_ = syscall.Kill(g.pgid, sig)
	}
}

// exitCause describes an exit status. status is nil if other code has collected it:
// a host that reaps every child as process 1 does, or one that ignores SIGCHLD, for
// which the kernel discards the status (waitpid(2), NOTES).
func exitCause(status *syscall.WaitStatus) *supervisor.Cause {
	if status == nil {
		return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server process ended, exit status unknown"}
	}
	if status.Signaled() {
		return &supervisor.Cause{Kind: supervisor.CauseSignal, Signal: status.Signal().String(),
			Message: "server process was ended by signal: " + status.Signal().String()}
	}
	code := status.ExitStatus()
	return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code,
		Message: fmt.Sprintf("server process ended with exit status %d", code)}
}

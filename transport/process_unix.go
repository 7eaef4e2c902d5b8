//go:build unix

package transport

import (
	"fmt"
	"os"
	"syscall"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// terminate asks every process of the group to end.
func (g *processGroup) terminate() { g.signal(syscall.SIGTERM) }

// kill ends every process of the group.
func (g *processGroup) kill() { g.signal(syscall.SIGKILL) }

// signal reaches the child itself, too, if it has moved to another group: ours,
// for instance.
func (g *processGroup) signal(sig syscall.Signal) {
	_ = syscall.Kill(-g.pgid, sig)
	if g.reaped() {
		return
	}
	if now, err := syscall.Getpgid(g.pgid); err == nil && now != g.pgid {
		_ = syscall.Kill(g.pgid, sig)
	}
}

// exitCause puts an exit status in words. There is none, and state is nil, if
// somebody else collected it: a host that reaps every child as process 1 does,
// or one that ignores SIGCHLD.
func exitCause(state *os.ProcessState) *supervisor.Cause {
	if state == nil {
		return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server process ended, exit status unknown"}
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return &supervisor.Cause{Kind: supervisor.CauseSignal, Signal: ws.Signal().String(),
			Message: "server process was ended by signal: " + ws.Signal().String()}
	}
	code := state.ExitCode()
	return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code,
		Message: fmt.Sprintf("server process ended with exit status %d", code)}
}

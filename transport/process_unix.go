//go:build unix

package transport

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	if g.isReaped() {
		return
	}
	if now, err := syscall.Getpgid(g.pgid); err == nil && now != g.pgid {
		_ = syscall.Kill(g.pgid, sig)
	}
}

// openBeforeExec opens what exec will open: the program, and the interpreters that
// scripts name. On a file system that does not answer this costs the goroutine
// that does it. An exec that hangs would stop the whole process: the Go runtime
// shares its memory with a child until that has executed (vfork), and cannot
// collect garbage meanwhile. Errors are left for exec to report.
func openBeforeExec(cmd *exec.Cmd) {
	path := cmd.Path
	for range maxInterpreters {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmd.Dir, path)
		}
		if path = interpreterOf(path); path == "" {
			return
		}
	}
}

// maxInterpreters is how many scripts the kernel follows from one to the next, and
// the program at the end.
const maxInterpreters = 6

// interpreterOf opens a program, and returns what its first line names if it is a
// script.
func interpreterOf(path string) string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() { //nolint:gosec // the command that exec opens
		return ""
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = syscall.Close(fd) }()
	var buf [256]byte
	n, _ := syscall.Read(fd, buf[:])
	line, script := bytes.CutPrefix(buf[:max(n, 0)], []byte("#!"))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if fields := bytes.Fields(line); script && len(fields) > 0 {
		return string(fields[0])
	}
	return ""
}

// exitCause puts an exit status in words. It is nil if another has collected it: a
// host that reaps every child as process 1 does, or one that ignores SIGCHLD.
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

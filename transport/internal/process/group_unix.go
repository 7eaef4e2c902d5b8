//go:build unix

package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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
	if runtime.GOOS == "linux" && g.isReaped() { // by the host: its tag finds what it has left
		return
	}
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
	// A wrapper such as sh, npx or docker reports the signal that ended what it ran as 128 + its
	// number. Other numbers above 128 are codes of programs.
	reported := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGABRT, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGTERM}
	if by := syscall.Signal(code - 128); slices.Contains(reported, by) {
		return &supervisor.Cause{Kind: supervisor.CauseSignal, ExitCode: &code, Signal: by.String(),
			Message: fmt.Sprintf("server process ended with exit status %d: what it ran was ended by signal: %s", code, by)}
	}
	return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code,
		Message: fmt.Sprintf("server process ended with exit status %d", code)}
}

// openBeforeExec opens the files that exec will open: the program, and the
// interpreters that scripts name. On a file system that does not answer, only the
// calling goroutine hangs. A hanging exec would stop the whole process: until exec
// returns, the child shares the memory of this process (CLONE_VFORK|CLONE_VM,
// clone(2)), and the Go runtime cannot collect garbage meanwhile. Errors are left
// for exec to report.
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

// maxInterpreters is one more than the longest chain of scripts that Linux
// follows, each the interpreter of the one before: five (execve(2), "Interpreter
// scripts"). The last one is the program itself.
const maxInterpreters = 6

// interpreterOf opens a program. If it is a script, it returns the interpreter that
// the first line names.
func interpreterOf(path string) string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
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

//go:build unix

package process

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

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

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// startCause explains why a command could not be started. A mistake that the user has to
// correct is permanent: another attempt would not help.
func startCause(s *mcpvisor.Stdio, err error) *supervisor.Cause {
	c := &supervisor.Cause{Kind: supervisor.CauseSpawn, Err: err}
	command, path := s.Command, resolve(s)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isFile(path):
		c.Kind, c.Permanent = supervisor.CauseConfig, true
		c.Message = fmt.Sprintf("command %q names an interpreter in its first line that was not found; install that, or correct the line", command)
	case errors.Is(err, syscall.ENOEXEC):
		c.Kind, c.Permanent = supervisor.CauseConfig, true
		c.Message = fmt.Sprintf("command %q is not a program for this system; a script needs a first line that names its interpreter, as #!/bin/sh", command)
	case errors.Is(err, fs.ErrNotExist) && path != command:
		c.Kind, c.Permanent = supervisor.CauseConfig, true
		base, set := "the host's working directory", "set"
		if s.Dir != "" {
			base, set = "Stdio.Dir", "correct"
		}
		c.Message = fmt.Sprintf("command %q not found at %q (it begins at %s); give its full path, or %s Stdio.Dir", command, path, base, set)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		c.Kind, c.Permanent = supervisor.CauseConfig, true
		c.Message = fmt.Sprintf("command %q not found; install it, or give its full path", command)
	case errors.Is(err, fs.ErrPermission):
		c.Kind, c.Permanent = supervisor.CauseConfig, true
		c.Message = fmt.Sprintf("command %q may not be executed; check its mode and owner", command)
	case errors.Is(err, exec.ErrDot):
		c.Kind, c.Permanent = supervisor.CauseConfig, true
		c.Message = fmt.Sprintf("command %q was found in the current directory only; write ./%s", command, command)
	default:
		c.Message = fmt.Sprintf("command %q could not be started: %v", command, err)
	}
	return c
}

// resolve returns the path of a command that is relative and has a slash: it begins at
// Stdio.Dir, by default the working directory of this process. Other commands are returned
// unchanged.
func resolve(s *mcpvisor.Stdio) string {
	if filepath.Base(s.Command) == s.Command || filepath.IsAbs(s.Command) {
		return s.Command
	}
	if path, err := filepath.Abs(filepath.Join(s.Dir, s.Command)); err == nil {
		return path
	}
	return s.Command
}

// isFile reports whether a command exists. execve(2) reports ENOENT also where the
// interpreter of a script is missing, which is another mistake.
func isFile(command string) bool {
	path, err := exec.LookPath(command)
	if err != nil {
		return false
	}
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

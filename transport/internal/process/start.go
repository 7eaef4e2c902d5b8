package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/environ"
	"github.com/mcpvisor/mcpvisor/internal/hostlimit"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// Start starts the command of a stdio server. It may hang for as long as the file
// system of the command does not answer; callers bound that by a goroutine. epoch is the number
// of the incarnation. It keeps that many lines of stderr, without secrets; see [NewStderrTail].
func Start(s *mcpvisor.Stdio, epoch uint64, stderrLines int, redactor redact.Redactor) (*Child, *supervisor.Cause) {
	if s.Dir != "" {
		if st, err := os.Stat(s.Dir); err != nil || !st.IsDir() {
			return nil, &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err,
				Message: fmt.Sprintf("working directory %q does not exist or is not a directory; create it or change Stdio.Dir", s.Dir)}
		}
	}
	cmd := exec.Command(s.Command, s.Args...)
	if cmd.Err != nil {
		return nil, startCause(s, cmd.Err)
	}
	cmd.Dir, cmd.Env = s.Dir, withEpoch(s, Environ(s), epoch)
	c := &Child{path: cmd.Path, stderr: NewStderrTail(stderrLines, redactor),
		exited: make(chan struct{}), reapDone: make(chan struct{}),
		shutdown: make(chan struct{}), graceOver: make(chan struct{})}
	openBeforeExec(cmd)
	if err := c.startWithPipes(cmd, s.KeepDaemons); err != nil {
		return nil, startCause(s, err)
	}
	c.stderrIn = readStderr(c.stderrPipe, c.stderr)
	if !c.group.onExit(func() { go c.reap() }) {
		go c.reap()
	}
	return c, nil
}

// startWithPipes makes the three pipes and starts the command. After an error all
// of them are closed.
func (c *Child) startWithPipes(cmd *exec.Cmd, keepDaemons bool) (err error) {
	var ours, theirs []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if len(ours) == 0 { // stdin: the child reads
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	c.stdin, c.stdout, c.stderrPipe = ours[0], ours[1], ours[2]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if c.group, err = startInGroup(cmd, keepDaemons); err != nil {
		return err
	}
	c.process, c.pid = cmd.Process, cmd.Process.Pid // not cmd, which keeps the environment and the other ends
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Environ returns the environment of a stdio server, sorted: the variables of the
// host that [environ.Inherits] names, or all of them with InheritEnv, overridden by
// Env of the spec. The process tag is not part of it.
func Environ(s *mcpvisor.Stdio) []string {
	vars := map[string]string{} // name → entry
	put := func(entry string) {
		if name, _, ok := strings.Cut(entry, "="); ok && name != "" {
			if runtime.GOOS == "windows" { // where PATH and Path are one variable
				name = strings.ToUpper(name)
			}
			vars[name] = entry
		}
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if s.InheritEnv || environ.Inherits(name) {
			put(entry)
		}
	}
	for name, value := range s.Env {
		put(name + "=" + value)
	}
	env := make([]string, 0, len(vars))
	for _, entry := range vars {
		env = append(env, entry)
	}
	sort.Strings(env)
	return env
}

// epochName is the variable that tells a server the number of its incarnation.
const epochName = "MCPVISOR_EPOCH"

// withEpoch adds the number of the incarnation to an environment, unless Env of the spec has one.
// Of two entries os/exec uses the last: the host may be a server of another client itself.
func withEpoch(s *mcpvisor.Stdio, env []string, epoch uint64) []string {
	if _, set := s.Env[epochName]; set {
		return env
	}
	return append(env, epochName+"="+strconv.FormatUint(epoch, 10))
}

// startCause explains why a command could not be started. A mistake that the user has to
// correct is permanent: another attempt would not help.
func startCause(s *mcpvisor.Stdio, err error) *supervisor.Cause {
	c := &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err}
	command, path := s.Command, resolve(s)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isFile(path):
		c.Message = fmt.Sprintf("command %q names an interpreter in its first line that was not found; install that, or correct the line", command)
	case errors.Is(err, syscall.ENOEXEC):
		c.Message = fmt.Sprintf("command %q is not a program for this system; a script needs a first line that names its interpreter, as #!/bin/sh", command)
	case (errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)) && strings.Contains(command, " ") && !filepath.IsAbs(command):
		c.Message = fmt.Sprintf("command %q not found; it names the program alone, so put its arguments into Stdio.Args", command)
	case errors.Is(err, fs.ErrNotExist) && path != command:
		base, set := "the host's working directory", "set"
		if s.Dir != "" {
			base, set = "Stdio.Dir", "correct"
		}
		c.Message = fmt.Sprintf("command %q not found at %q (it begins at %s); give its full path, or %s Stdio.Dir", command, path, base, set)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		c.Message = fmt.Sprintf("command %q not found; install it, or give its full path", command)
	case errors.Is(err, fs.ErrPermission) && isDir(path):
		c.Message = fmt.Sprintf("command %q is a directory; name the program in it", command)
	case errors.Is(err, fs.ErrPermission):
		c.Message = fmt.Sprintf("command %q may not be executed; check its mode and owner", command)
	case errors.Is(err, exec.ErrDot):
		c.Message = fmt.Sprintf("command %q was found in the current directory only; write ./%s", command, command)
	default:
		c.Kind, c.Permanent = supervisor.CauseSpawn, false
		c.Message = fmt.Sprintf("command %q could not be started: %v", command, err)
		if c.Host = hostlimit.Reached(err); c.Host {
			c.Message += "; " + hostlimit.Hint
		}
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

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// isFile reports whether a command exists. If the interpreter of a script is missing,
// execve(2) reports ENOENT, too, but that is another mistake.
func isFile(command string) bool {
	path, err := exec.LookPath(command)
	if err != nil {
		return false
	}
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

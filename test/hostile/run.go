package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
	"github.com/mcpvisor/mcpvisor/test/fixture/statedir"
)

// A process of this role is a hand-written server or its child. Environment variables
// name the misbehaviour, the directory of its counts, and the role of the child.
const (
	roleName = "hostile"
	envName  = "MCPTEST_HOSTILE"
	envDir   = "MCPTEST_HOSTILE_DIR"
	envPart  = "MCPTEST_HOSTILE_PART"
)

// A binary that can start these servers imports this package, so its mcptest.Main knows
// the role.
func init() { role.Register(roleName, runProcess) } //nolint:gochecknoinits // users need to call mcptest.Main only

// runProcess runs a hand-written server or its child and returns the exit status.
func runProcess() int {
	m, ok := MisbehaviourNamed(os.Getenv(envName))
	if !ok || m.serve == nil {
		fmt.Fprintf(os.Stderr, "hostile: no server written by hand is named %q; start it with the Env that Misbehaviour.Stdio returns\n", os.Getenv(envName))
		return 2
	}
	s := newStdioServer(context.Background(), os.Stdin, os.Stdout, os.Stderr)
	s.exit, s.childRole = os.Exit, os.Getenv(envPart)
	var err error
	if counter := statedir.New(os.Getenv(envDir)); s.childRole == "" {
		if s.start, err = counter.CountStart(); err == nil {
			err = counter.RecordPID(os.Getpid())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	time.AfterFunc(role.MaxLifetime, func() { os.Exit(3) })
	m.serve(s)
	return 0
}

// child prepares a child process of the same misbehaviour. It inherits the three
// streams.
func (s *stdioServer) child(part string) *exec.Cmd {
	cmd := exec.Command(role.Executable())
	cmd.Env = append(os.Environ(), role.Env+"="+roleName, envPart+"="+part)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// exited is the panic with which a server in memory exits.
type exited struct{ code int }

// serveInMemory implements the Serve function of an in-memory server.
func (m Misbehaviour) serveInMemory(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) (err error) {
	// Closing unblocks a read or a write.
	stop := context.AfterFunc(ctx, func() { _, _ = stdin.Close(), stdout.Close() })
	defer stop()
	defer func() {
		switch p := recover().(type) {
		case nil:
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
		case exited:
			err = &mcptest.ExitError{Code: p.code}
		default:
			err = errors.Join(err, fmt.Errorf("hostile: %s panicked: %v", m.Name, p))
		}
		_ = stdout.Close()
	}()
	s := newStdioServer(ctx, stdin, stdout, stderr)
	s.start, s.exit = 1, func(code int) { panic(exited{code}) }
	m.serve(s)
	return nil
}

package descendants

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// waitLimit is how long a test waits for what must happen, checkInterval how often
	// it looks.
	waitLimit     = 10 * time.Second
	checkInterval = 5 * time.Millisecond
)

// requireClosed waits until c is closed. failure says what it means if it is not.
func requireClosed(t *testing.T, c <-chan struct{}, failure string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(waitLimit):
		require.Fail(t, failure)
	}
}

// server is a command that a Tracker follows.
type server struct {
	*Tracker
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	ended  bool
}

// startServer starts a command as a server, and ends it with the test.
func startServer(t *testing.T, keepDaemons bool, cmd *exec.Cmd) *server {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), cmd.Env...)
	tracker, err := Start(cmd, keepDaemons)
	require.NoError(t, err)
	s := &server{Tracker: tracker, cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		if s.ended {
			return
		}
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
		_ = s.end(t)
	})
	return s
}

// startShell starts a script as a server and waits for its first line.
func startShell(t *testing.T, script string) *server {
	t.Helper()
	s := startServer(t, false, exec.Command("/bin/sh", "-c", script))
	_, err := s.stdout.ReadString('\n')
	require.NoError(t, err)
	return s
}

// end closes the stdin of a server and does for its exit what package process does. It
// returns what Kill returns.
func (s *server) end(t *testing.T) error {
	t.Helper()
	s.ended = true
	s.TagAgain()
	_ = s.stdin.Close()
	for unix.Waitid(unix.P_PID, s.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	graceOver := make(chan struct{})
	defer time.AfterFunc(waitLimit, func() { close(graceOver) }).Stop()
	s.AwaitGroup(graceOver)
	_ = syscall.Kill(-s.pid, syscall.SIGKILL)
	left := s.Kill(waitLimit)
	s.Reap(func() { _ = s.cmd.Wait() })
	return left
}

// startSleep starts a process that is not a server, with an environment.
func startSleep(t *testing.T, env ...string) (pid int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Env = env
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return cmd.Process.Pid, done
}

// tagOfPID returns the tag of a process.
func tagOfPID(t *testing.T, pid int) string {
	t.Helper()
	tag, err := readTag(pid)
	require.NoError(t, err)
	return tag
}

package stdio

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestProcessConn_exit_while_a_daemon_holds_the_streams: a daemon that may stay can hold
// the streams of its server open. The exit of the server ends the connection
// nevertheless.
func TestProcessConn_exit_while_a_daemon_holds_the_streams(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	file := filepath.Join(t.TempDir(), "daemon")
	c, cause := process.Start(&mcpvisor.Stdio{Command: "/bin/sh", KeepDaemons: true,
		Args: []string{"-c", `setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600' "$0" & while [ ! -e "$0" ]; do sleep 0.01; done; exit 3`, file}},
		1, 5, nil)
	require.Nil(t, cause)
	p := newProcessConn(c, newMemorySession())
	transporttest.RequireClosed(t, p.lifetime.Dead(), "the exit is not reported")
	require.NotNil(t, p.lifetime.Cause().ExitCode, p.lifetime.Cause().Error())
	require.Equal(t, 3, *p.lifetime.Cause().ExitCode)
	transporttest.RequireClosed(t, p.lifetime.Released(), "the release waits for the daemon")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "the daemon was killed")
}

// hangingCommand is a program whose file cannot be opened until answer is called, as on
// a file system that does not answer. A write lease blocks every other open, also that
// of exec. The kernel breaks a lease after /proc/sys/fs/lease-break-time, 45 s by
// default.
func hangingCommand(t *testing.T) (path string, answer func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "server")
	testutil.WriteProgram(t, path, []byte("#!/bin/sh\ncat\n"))
	f, err := os.Open(path)
	require.NoError(t, err)
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		_ = f.Close()
		t.Skipf("no leases here: %v", err)
	}
	answer = sync.OnceFunc(func() { require.NoError(t, f.Close()) })
	t.Cleanup(answer)
	return path, answer
}

// startShell starts a script as a server and waits for its first line.
func startShell(t *testing.T, script string) *process.Child {
	t.Helper()
	c, cause := process.Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", script}}, 1, 5, nil)
	require.Nil(t, cause)
	t.Cleanup(func() { c.Terminate(0); c.Release() })
	_, err := bufio.NewReader(c.Stdout()).ReadString('\n')
	require.NoError(t, err)
	return c
}

// TestHangingExec: a start that hangs in the operating system delays neither the start nor
// the end of another server.
func TestHangingExec(t *testing.T) {
	dialer := func(path string) *dialer {
		spec := mcpvisor.ServerSpec{Name: "hangs", Stdio: &mcpvisor.Stdio{Command: path}}.WithDefaults()
		spec.Timeouts.Shutdown = 20 * time.Millisecond
		return newDialer(spec, testOptions())
	}
	t.Run("others_start_and_end", func(t *testing.T) {
		path, answer := hangingCommand(t)
		var before []*process.Child
		for range 20 {
			before = append(before, startShell(t, "echo ready; cat"))
		}
		s := dialer(path).NewSession()
		opened := make(chan error, 1)
		go func() { opened <- s.Open(context.Background()) }()
		for _, c := range before {
			c.Terminate(time.Minute)
			c.Release()
		}
		later := startShell(t, "echo ready; cat")
		later.Terminate(time.Minute)
		later.Release()
		select {
		case err := <-opened:
			require.Fail(t, "the start did not hang", "%v", err)
		default:
		}
		s.Abort(transporttest.ErrGivenUp)
		answer()
		<-opened
		transporttest.RequireClosed(t, s.Released(), "the process that was started late is not ended")
	})
	t.Run("start_timeout_ends_it", func(t *testing.T) {
		path, answer := hangingCommand(t)
		d := dialer(path)
		s := d.NewSession()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		cause := testutil.AsError[*supervisor.Cause](t, s.Open(ctx))
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.Contains(t, cause.Message, "file system that does not answer")
		transporttest.RequireClosed(t, s.Released(), "the release waits for the operating system")

		next := d.NewSession()
		require.ErrorAs(t, next.Open(t.Context()), &cause)
		require.Equal(t, supervisor.CauseSpawn, cause.Kind, "one start that hangs is enough")
		require.Contains(t, cause.Message, "still hangs")
		transporttest.RequireClosed(t, next.Released(), "nothing was started")

		answer()
		require.Eventually(t, func() bool { return d.hangingStarts.Load() == 0 }, transporttest.Patience, transporttest.TimeStep)
	})
	t.Run("abort_ends_it", func(t *testing.T) {
		path, answer := hangingCommand(t)
		d := dialer(path)
		s := d.NewSession()
		opened := make(chan error, 1)
		go func() { opened <- s.Open(context.Background()) }()
		s.Abort(transporttest.ErrGivenUp)
		require.ErrorIs(t, <-opened, transporttest.ErrGivenUp)
		transporttest.RequireClosed(t, s.Released(), "the release waits for the operating system")
		answer()
		require.Eventually(t, func() bool { return d.hangingStarts.Load() == 0 }, transporttest.Patience, transporttest.TimeStep)
	})
}

// TestOpenFailure_installing: a package runner that has not started the server when the time is over is
// still installing. One whose server runs has a server that is mute, and so has another program.
func TestOpenFailure_installing(t *testing.T) {
	const installs, serves = "#!/bin/sh\nread first\nread forever\nread more\n", "#!/bin/sh\nsleep 600 &\nwait\n"
	const installing = "npx has not started the server in time: it is still installing; raise Timeouts.Start if that is slow"
	for name, c := range map[string]struct {
		program, text, want string
	}{
		"installs":        {"npx", installs, installing},
		"serves":          {"npx", serves, "server did not finish the handshake in time; raise Timeouts.Start if it is slow to start"},
		"another program": {"server", installs, "server did not finish the handshake in time; raise Timeouts.Start if it is slow to start"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for five seconds
			program := filepath.Join(t.TempDir(), c.program)
			testutil.WriteProgram(t, program, []byte(c.text))
			spec := mcpvisor.ServerSpec{Name: "m", Era: mcpvisor.EraLegacy, Stdio: &mcpvisor.Stdio{Command: program, Args: []string{"-y", "some-server"}}}
			d := NewDialer(spec.WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			cause := testutil.AsError[*supervisor.Cause](t, s.Open(ctx))
			require.Equal(t, supervisor.CauseTimeout, cause.Kind)
			require.Equal(t, c.want, cause.Message)
		})
	}
}

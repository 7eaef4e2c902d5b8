package stdio

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// hangingCommand is a program whose file cannot be opened until answer is called, as on
// a file system that does not answer. A write lease blocks every other open, also that
// of exec. The kernel breaks a lease after /proc/sys/fs/lease-break-time, 45 s by
// default.
func hangingCommand(t *testing.T) (path string, answer func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ncat\n"), 0o755))
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
		var cause *supervisor.Cause
		require.ErrorAs(t, s.Open(ctx), &cause)
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

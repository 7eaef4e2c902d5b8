package transport

import (
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
)

// hangingCommand is a program whose file cannot be opened until answer is
// called, as on a file system that does not answer: a write lease holds up every
// other open, that of exec included. The kernel breaks a lease by itself after
// /proc/sys/fs/lease-break-time, 45 s by default.
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

// A start that hangs in the operating system costs its own server, and no other.
func TestHangingExec(t *testing.T) {
	dialer := func(path string) *pipedDialer {
		spec := mcpvisor.ServerSpec{Name: "hangs", Stdio: &mcpvisor.Stdio{Command: path}}.WithDefaults()
		spec.Timeouts.Shutdown = 20 * time.Millisecond
		return newStdioDialer(spec, testOptions()).(*pipedDialer)
	}
	t.Run("others_start_and_end", func(t *testing.T) {
		path, answer := hangingCommand(t)
		var before []*child
		for range 20 {
			before = append(before, shell(t, "echo here; cat"))
		}
		s := dialer(path).NewSession()
		opened := make(chan error, 1)
		go func() { opened <- s.Open(context.Background()) }()
		for _, c := range before {
			c.Terminate(time.Minute)
			c.Release()
		}
		later := shell(t, "echo here; cat")
		later.Terminate(time.Minute)
		later.Release()
		select {
		case err := <-opened:
			require.Fail(t, "the start did not hang", "%v", err)
		default:
		}
		s.Abort(errGivenUp)
		answer()
		<-opened
		requireClosed(t, s.Released(), "what was started in the end is not ended")
	})
	t.Run("start_clock_ends_it", func(t *testing.T) {
		path, answer := hangingCommand(t)
		d := dialer(path)
		s := d.NewSession()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var cause *supervisor.Cause
		require.ErrorAs(t, s.Open(ctx), &cause)
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.Contains(t, cause.Message, "file system that does not answer")
		requireClosed(t, s.Released(), "the release waits for the operating system")

		next := d.NewSession()
		require.ErrorAs(t, next.Open(t.Context()), &cause)
		require.Equal(t, supervisor.CauseSpawn, cause.Kind, "one start that hangs is enough")
		require.Contains(t, cause.Message, "still hangs")
		requireClosed(t, next.Released(), "nothing was started")

		answer()
		require.Eventually(t, func() bool { return d.hanging.Load() == 0 }, patience, timeStep)
	})
	t.Run("unregister_ends_it", func(t *testing.T) {
		path, answer := hangingCommand(t)
		d := dialer(path)
		s := d.NewSession()
		opened := make(chan error, 1)
		go func() { opened <- s.Open(context.Background()) }()
		s.Abort(errGivenUp)
		require.ErrorIs(t, <-opened, errGivenUp)
		requireClosed(t, s.Released(), "the release waits for the operating system")
		answer()
		require.Eventually(t, func() bool { return d.hanging.Load() == 0 }, patience, timeStep)
	})
}

// A thread that does not come back from starting something is not waited for by
// other starts.
func TestSpawnPool(t *testing.T) {
	t.Run("another_thread_when_one_is_stuck", func(t *testing.T) {
		p := newSpawnPool()
		stuck, back := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := p.run(func() error { <-stuck; return os.ErrDeadlineExceeded })
			back <- err
		}()
		require.Eventually(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.threads == 1 && len(p.queue) == 0
		}, patience, timeStep)
		var children []*parentThread
		for range 40 {
			thread, err := p.run(func() error { return nil })
			require.NoError(t, err)
			children = append(children, thread)
		}
		require.Equal(t, 2, p.threads, "one more is enough")
		for _, thread := range children {
			p.end(thread)
		}
		require.Equal(t, 1, p.threads, "the one that is stuck")
		close(stuck)
		require.ErrorIs(t, <-back, os.ErrDeadlineExceeded)
		require.Zero(t, p.threads)
	})
	t.Run("threads_end_with_their_last_child", func(t *testing.T) {
		p := newSpawnPool()
		var starts sync.WaitGroup
		for range 200 {
			starts.Go(func() {
				thread, err := p.run(func() error { return nil })
				require.NoError(t, err)
				p.end(thread)
			})
		}
		starts.Wait()
		require.Zero(t, p.threads)
	})
}

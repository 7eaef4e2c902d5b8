package transport

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// exhaustDescriptors takes every descriptor that this process may have, and gives
// them back when free is called.
func exhaustDescriptors(t *testing.T) (free func()) {
	t.Helper()
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	highest := 0
	links, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, link := range links {
		fd, _ := strconv.Atoi(link.Name())
		highest = max(highest, fd)
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest + 1), Max: before.Max}))
	var taken []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			break
		}
		taken = append(taken, fd)
	}
	// What others give back is taken, too.
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ticker := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-ticker.C:
				for {
					fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
					if err != nil {
						break
					}
					taken = append(taken, fd)
				}
			case <-stop:
				ticker.Stop()
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	}
}

// daemonOf starts a server that has a daemon, in a session of its own.
func daemonOf(t *testing.T) (c *child, daemon int) {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	c = shell(t, "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo here; cat")
	require.Eventually(t, func() bool {
		for _, pid := range childrenOf(c.PID(), make([]byte, 4096)) {
			if st, _ := statOf(pid, make([]byte, 4096)); st.name == "sleep" {
				daemon = pid
			}
		}
		return daemon != 0
	}, patience, timeStep)
	t.Cleanup(func() { _ = unix.Kill(daemon, unix.SIGKILL) })
	return c, daemon
}

func TestEndWithoutDescriptors(t *testing.T) {
	t.Run("daemons_are_found", func(t *testing.T) {
		c, daemon := daemonOf(t)
		free := exhaustDescriptors(t)
		c.Terminate(time.Minute)
		left := c.Release()
		free()
		alive := mcptest.Alive(daemon)
		require.NoError(t, left)
		require.False(t, alive, "the daemon lives on")
	})
	t.Run("spare_ones_are_taken_again", func(t *testing.T) {
		kept, _ := daemonOf(t)
		for range 2 {
			c, daemon := daemonOf(t)
			free := exhaustDescriptors(t)
			c.Terminate(time.Minute)
			left := c.Release()
			free()
			alive := mcptest.Alive(daemon)
			require.NoError(t, left)
			require.False(t, alive)
			require.NotEmpty(t, descriptors.spares)
		}
		kept.Terminate(time.Minute)
		require.NoError(t, kept.Release())
		require.Empty(t, descriptors.spares)
	})
	t.Run("error_without_reserve", func(t *testing.T) {
		c, daemon := daemonOf(t)
		var before unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}))
		c.Terminate(time.Minute)
		left := c.Release()
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
		require.ErrorIs(t, left, unix.EMFILE)
		require.ErrorContains(t, left, "what the server has started may be left")
		require.True(t, mcptest.Alive(daemon), "then there was no need for an error")
	})
}

// A process of which a file cannot be read holds up one look, for a moment, and no
// later one until the reading comes back.
func TestScanWithAProcessThatHangs(t *testing.T) {
	lineage := newLineage()
	first, _ := marked(t, lineageEntry(lineage))
	hangs, _ := marked(t, lineageEntry(lineage))
	last, _ := marked(t, lineageEntry(lineage))
	for _, pid := range []int{first, hangs, last} {
		require.Eventually(t, func() bool { return mustLineage(t, pid) == lineage }, patience, timeStep)
	}
	var h headcount
	comes, returned := make(chan struct{}), make(chan struct{})
	var readings atomic.Int64
	look := func() map[string][]int {
		s := newScan(&h, []string{"self", strconv.Itoa(first), strconv.Itoa(hangs), strconv.Itoa(last)})
		s.mark = func(pid int, buf []byte) (string, shownMemory, error) {
			if pid == hangs {
				readings.Add(1)
				defer close(returned)
				<-comes
			}
			return lineageNow(pid, buf)
		}
		require.NoError(t, s.run())
		return s.found
	}
	require.Equal(t, map[string][]int{lineage: {first, last}}, look())
	require.Equal(t, map[string][]int{lineage: {first, last}}, look())
	require.EqualValues(t, 1, readings.Load(), "it is passed over")
	close(comes)
	<-returned
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.stuck) == 0
	}, patience, timeStep)
	s := newScan(&h, []string{strconv.Itoa(hangs)})
	require.NoError(t, s.run())
	require.Equal(t, map[string][]int{lineage: {hangs}}, s.found)
}

// The error names each process that is left, and why.
func TestLeftProcesses(t *testing.T) {
	pid, _ := marked(t)
	require.EqualError(t, leftProcesses{pid: unix.EPERM}, "process "+strconv.Itoa(pid)+" (sleep): operation not permitted")
	many := leftProcesses{}
	for i := range 100 {
		many[1<<30+i] = unix.EPERM
	}
	require.ErrorContains(t, many, "and 92 more")
	require.ErrorIs(t, many, unix.EPERM)
}

// An in-memory server cannot be ended by force, and that is said.
func TestRoutineThatStaysIsNamed(t *testing.T) {
	stays := make(chan struct{})
	defer close(stays)
	r := startRoutine(&mcpvisor.InMemory{Serve: func(_ context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
		<-stays
		return nil
	}}, 5, nil)
	r.Terminate(0)
	require.ErrorContains(t, r.Release(), "is still running")
}

// A process that SIGKILL does not end is named.
func TestReleaseNamesAProcessThatStays(t *testing.T) {
	c := shell(t, "echo here; cat")
	t.Cleanup(func() { <-c.gone })
	t.Cleanup(func() { c.Terminate(0) })
	require.EqualError(t, c.Release(), "process "+strconv.Itoa(c.PID())+" (/bin/sh) is still running after SIGKILL")
}

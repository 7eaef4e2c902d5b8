package descendants

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// startWithDaemon starts a server that has a daemon in a session of its own.
func startWithDaemon(t *testing.T) (s *server, daemon int) {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	s = startShell(t, "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ready; cat")
	require.Eventually(t, func() bool {
		for _, pid := range childrenOf(s.pid, make([]byte, 4096)) {
			if st, _ := readStat(pid, make([]byte, 4096)); st.name == "sleep" {
				daemon = pid
			}
		}
		return daemon != 0
	}, waitLimit, checkInterval)
	t.Cleanup(func() { _ = unix.Kill(daemon, unix.SIGKILL) })
	return s, daemon
}

func TestKillTagged_without_descriptors(t *testing.T) {
	t.Run("daemon_is_killed", func(t *testing.T) {
		s, daemon := startWithDaemon(t)
		free := testutil.ExhaustDescriptors(t)
		left := s.end(t)
		free()
		alive := mcptest.Alive(daemon)
		require.NoError(t, left)
		require.False(t, alive, "the daemon is still running")
	})
	t.Run("spare_descriptors_are_used_again", func(t *testing.T) {
		kept, _ := startWithDaemon(t)
		for range 2 {
			s, daemon := startWithDaemon(t)
			free := testutil.ExhaustDescriptors(t)
			left := s.end(t)
			free()
			alive := mcptest.Alive(daemon)
			require.NoError(t, left)
			require.False(t, alive)
			require.NotEmpty(t, descriptors.spares)
		}
		require.NoError(t, kept.end(t))
		require.Empty(t, descriptors.spares)
	})
	t.Run("error_without_spare_descriptors", func(t *testing.T) {
		s, daemon := startWithDaemon(t)
		var before unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}))
		left := s.end(t)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
		require.ErrorIs(t, left, unix.EMFILE)
		require.ErrorContains(t, left, "what the server has started may be left")
		require.True(t, mcptest.Alive(daemon), "the daemon was killed, so there was no reason for an error")
	})
}

// The error names each process that is left, and why.
func TestSurvivors(t *testing.T) {
	pid, _ := startSleep(t)
	require.EqualError(t, survivors{pid: unix.EPERM}, "process "+strconv.Itoa(pid)+" (sleep): operation not permitted")
	many := survivors{}
	for i := range 100 {
		many[1<<30+i] = unix.EPERM
	}
	require.ErrorContains(t, many, "and 92 more")
	require.ErrorIs(t, many, unix.EPERM)
}

// Only a process with the tag is killed, not one whose id was found earlier. The tag is
// found however large the environment is.
func TestKillTagged_checks_the_tag(t *testing.T) {
	mine, others := newTag(), newTag()
	stranger, strangerEnded := startSleep(t, tagEntry(others))
	require.NoError(t, killTaggedProcess(stranger, mine, waitLimit))
	select {
	case <-strangerEnded:
		t.Fatal("a process with another tag was killed")
	case <-time.After(50 * time.Millisecond):
	}
	large := "LARGE=" + strings.Repeat("x", 100<<10)
	descendant, ended := startSleep(t, large, tagEntry(mine))
	// For a moment after exec a process shows no environment.
	require.Eventually(t, func() bool { return tagOfPID(t, descendant) == mine }, waitLimit, checkInterval)
	require.NoError(t, killTagged(mine, nil, waitLimit))
	requireClosed(t, ended, "the process is not found")
	require.NoError(t, unix.Kill(stranger, 0))
}

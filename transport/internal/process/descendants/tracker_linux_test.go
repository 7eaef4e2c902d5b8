package descendants

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// startWithSleep starts a server with a child, and returns that child's id.
func startWithSleep(t *testing.T) (s *server, sleep int) {
	t.Helper()
	s = startServer(t, false, exec.Command("/bin/sh", "-c", "sleep 600 & echo $!; cat"))
	line, err := s.stdout.ReadString('\n')
	require.NoError(t, err)
	sleep, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Kill(sleep, unix.SIGKILL) }) // before end waits for the group
	return s, sleep
}

// untag removes the tag from the limits of a process.
func untag(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil))
}

// age makes a server one that has not been tagged again.
func age(s *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retag.Stop()
	s.retagged = false
}

func isRetagged(s *server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retagged
}

// What a server forked before it was tagged is tagged a moment later.
func TestStart_tags_again(t *testing.T) {
	s := startShell(t, "echo ready; cat")
	require.Eventually(t, func() bool { return isRetagged(s) }, time.Minute, time.Millisecond)
}

func TestTracker_Exiting(t *testing.T) {
	s := startServer(t, false, exec.Command("cat"))
	require.False(t, s.Exiting() || s.Dead(), "the process runs")
	require.NoError(t, s.stdin.Close())
	require.NoError(t, unix.Waitid(unix.P_PID, s.pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	require.True(t, s.Exiting() && s.Dead(), "the process is a zombie")
	require.NoError(t, s.end(t))
	require.False(t, s.Exiting(), "the process is reaped")
	require.True(t, s.Dead())
}

// The end of a server does not depend on how long a search of the process table takes.
func TestAwaitGroup_stops_during_a_search(t *testing.T) {
	s, sleep := startWithSleep(t)
	table.searching.Lock()
	stop, returned := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		s.AwaitGroup(stop)
	}()
	close(stop)
	select {
	case <-returned:
	case <-time.After(waitLimit):
		t.Error("AwaitGroup waits for the search")
	}
	table.searching.Unlock()
	<-returned
	require.NoError(t, unix.Kill(sleep, unix.SIGKILL))
}

// What a server forked before it had its tag is known by its parent, and so it is tagged
// before the server ends. Afterwards its id may be that of another process.
func TestTagAgain(t *testing.T) {
	s, sleep := startWithSleep(t)
	age(s)
	untag(t, sleep)
	s.TagAgain()
	tag, err := limitTag(sleep, make([]byte, procBufferSize))
	require.NoError(t, err)
	require.Equal(t, s.tag, tag)
	untag(t, sleep)
	s.TagAgain()
	tag, err = limitTag(sleep, make([]byte, procBufferSize))
	require.NoError(t, err)
	require.Empty(t, tag, "it is done once")
	require.NoError(t, unix.Kill(sleep, unix.SIGKILL))
	require.NoError(t, s.end(t))
	age(s)
	s.TagAgain()
	require.False(t, isRetagged(s), "another process may get a tag")
}

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

// age gives servers to a retagger of their own, as if they were old enough and had not been
// looked at.
func age(servers ...*server) *retagger {
	r := &retagger{due: map[*Tracker]time.Time{}}
	for _, s := range servers {
		retags.remove(s.Tracker)
		s.mu.Lock()
		s.retagged = false
		s.mu.Unlock()
		r.due[s.Tracker] = time.Now()
	}
	return r
}

func isRetagged(s *server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retagged
}

// What a server forked before it was tagged is tagged a moment later. One look serves all
// servers: it reads what has come since, and not each server.
func TestRetagger(t *testing.T) {
	parent, sleep := startWithSleep(t)
	alone := startShell(t, "echo ready; cat")
	r := age(parent, alone)
	untag(t, sleep)
	r.run()
	tag, err := limitTag(sleep, make([]byte, procBufferSize))
	require.NoError(t, err)
	require.Equal(t, parent.tag, tag)
	require.True(t, isRetagged(parent))
	require.True(t, isRetagged(alone))
	require.Nil(t, r.timer)
	require.Empty(t, r.due)
}

// Every server is looked at.
func TestRetagger_looks_at_a_running_server(t *testing.T) {
	s := startShell(t, "echo ready; cat")
	require.Eventually(t, func() bool { return isRetagged(s) }, time.Minute, time.Millisecond)
}

// A server that is too young is looked at later, and one that has ended never.
func TestRetagger_waits(t *testing.T) {
	young, removed := startShell(t, "echo ready; cat"), startShell(t, "echo ready; cat")
	r := age(removed)
	r.remove(removed.Tracker)
	r.add(young.Tracker)
	first := r.timer
	require.NotNil(t, first)
	r.mu.Lock()
	r.due[young.Tracker] = time.Now().Add(time.Hour)
	r.mu.Unlock()
	r.run()
	r.mu.Lock()
	require.Contains(t, r.due, young.Tracker)
	r.mu.Unlock()
	r.remove(young.Tracker)
	require.Nil(t, r.timer)
	require.False(t, isRetagged(removed))
	first.Stop()
}

// The look reads new processes only, and few of them: if there are more, each server is
// looked at.
func TestParentsSince(t *testing.T) {
	before, err := descriptors.list()
	require.NoError(t, err)
	s, _ := startWithSleep(t)
	parents, ok := table.parentsSince(before, 1<<20)
	require.True(t, ok)
	require.True(t, parents[s.pid])
	_, ok = table.parentsSince(before, 0)
	require.False(t, ok)
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

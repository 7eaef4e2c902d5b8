package process

import (
	"bufio"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor"
)

// startWithSleep starts a server with a child, and returns that child's id.
func startWithSleep(t *testing.T) (c *Child, sleep int) {
	t.Helper()
	c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", "sleep 600 & echo $!; cat"}}, Options{})
	require.Nil(t, cause)
	t.Cleanup(func() { c.Terminate(0); _ = c.Release() })
	line, err := bufio.NewReader(c.stdout).ReadString('\n')
	require.NoError(t, err)
	sleep, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return c, sleep
}

// age has a retagger of its own look at servers, as if they were old enough and had not
// been looked at.
func age(servers ...*Child) (looked *retagger) {
	looked = &retagger{due: map[*Child]time.Time{}}
	for _, c := range servers {
		retags.remove(c)
		c.mu.Lock()
		c.retagged = false
		c.mu.Unlock()
		looked.due[c] = time.Now()
	}
	return looked
}

func isRetagged(c *Child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retagged
}

// What a server forked before it was tagged is tagged a moment later. One look serves all
// servers: it reads what has come since, and not each server.
func TestRetagger(t *testing.T) {
	parent, sleep := startWithSleep(t)
	alone := startShell(t, "echo ready; cat")
	r := age(parent, alone)
	require.NoError(t, unix.Prlimit(sleep, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil))
	r.run()
	tag, err := limitTag(sleep, make([]byte, procBufferSize))
	require.NoError(t, err)
	require.Equal(t, parent.tag, tag)
	require.True(t, isRetagged(parent))
	require.True(t, isRetagged(alone))
	require.Nil(t, r.timer)
	require.Empty(t, r.due)
}

// Every server is looked at, also one whose exit the poller watches.
func TestRetagger_looks_at_a_running_server(t *testing.T) {
	c := startShell(t, "echo ready; cat")
	require.Eventually(t, func() bool { return isRetagged(c) }, time.Minute, time.Millisecond)
}

// A server that is too young is looked at later, and one that has ended never.
func TestRetagger_waits(t *testing.T) {
	young, removed := startShell(t, "echo ready; cat"), startShell(t, "echo ready; cat")
	r := age(removed)
	r.remove(removed)
	r.add(young)
	first := r.timer
	require.NotNil(t, first)
	r.mu.Lock()
	r.due[young] = time.Now().Add(time.Hour)
	r.mu.Unlock()
	r.run()
	r.mu.Lock()
	require.Contains(t, r.due, young)
	r.mu.Unlock()
	r.remove(young)
	require.Nil(t, r.timer)
	require.False(t, isRetagged(removed))
	first.Stop()
}

// The look reads new processes only, and few of them: if there are more, each server is
// looked at.
func TestParentsSince(t *testing.T) {
	before, err := descriptors.list()
	require.NoError(t, err)
	c, _ := startWithSleep(t)
	parents, ok := procTable.parentsSince(before, 1<<20)
	require.True(t, ok)
	require.True(t, parents[c.PID()])
	_, ok = procTable.parentsSince(before, 0)
	require.False(t, ok)
}

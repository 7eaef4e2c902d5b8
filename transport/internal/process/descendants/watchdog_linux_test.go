package descendants

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// startGroup starts a process in a group of its own, without a tag.
func startGroup(t *testing.T) (*exec.Cmd, <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return cmd, done
}

// startGroupID is startGroup for tests that need the id only.
func startGroupID(t *testing.T) (pgid int, ended <-chan struct{}) {
	t.Helper()
	cmd, ended := startGroup(t)
	return cmd.Process.Pid, ended
}

// endHost makes the watchdog act: for it this process has ended. It waits for the end of
// the watchdog.
func endHost(t *testing.T, dog *watchdog) {
	t.Helper()
	require.NoError(t, dog.stdin.Close())
	require.NoError(t, dog.cmd.Wait())
}

// listedGroups reads the list as the watchdog does.
func listedGroups(t *testing.T, l *groupList) (groups []string) {
	t.Helper()
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, 1<<20))
	require.NoError(t, err)
	return strings.Fields(string(text))
}

// requireSpared ends a process with SIGTERM. If the watchdog had sent SIGKILL before, that
// would be its status.
func requireSpared(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGTERM, status.Signal(), "the watchdog killed a group that was removed")
}

// After remove the id of a group may be that of another one, which must not be killed.
func TestWatchdog_remove(t *testing.T) {
	t.Run("two_servers_started_together", func(t *testing.T) {
		var dog watchdog
		a, aEnded := startGroup(t)
		b, bEnded := startGroup(t)
		sentA, sentB := dog.add(a.Process.Pid), dog.add(b.Process.Pid)
		<-sentA
		<-sentB
		last, lastEnded := startGroupID(t)
		<-dog.add(last)
		dog.remove(a.Process.Pid)
		dog.remove(b.Process.Pid)
		endHost(t, &dog)
		<-lastEnded
		requireSpared(t, a, aEnded)
		requireSpared(t, b, bEnded)
	})
	t.Run("whose_slot_another_group_has_got", func(t *testing.T) {
		var dog watchdog
		removed, removedEnded := startGroup(t)
		first, firstEnded := startGroupID(t)
		last, lastEnded := startGroupID(t)
		<-dog.add(removed.Process.Pid)
		<-dog.add(first)
		dog.remove(removed.Process.Pid)
		<-dog.add(last)
		require.Equal(t, []string{strconv.Itoa(last), strconv.Itoa(first)}, listedGroups(t, &dog.groups))
		endHost(t, &dog)
		<-firstEnded
		<-lastEnded
		requireSpared(t, removed, removedEnded)
	})
	t.Run("before_the_leader_is_reaped", func(t *testing.T) {
		s := startServer(t, true, exec.Command("/bin/true"))
		require.NoError(t, unix.Waitid(unix.P_PID, s.pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
		s.ended = true
		isListed := func() bool {
			hostWatchdog.mu.Lock()
			defer hostWatchdog.mu.Unlock()
			return hostWatchdog.groups.has(s.pid)
		}
		require.True(t, isListed())
		s.Reap(func() {
			require.False(t, isListed())
			require.NoError(t, syscall.Kill(s.pid, 0), "the leader is reaped already")
			require.NoError(t, s.cmd.Wait())
		})
		require.Nil(t, hostWatchdog.cmd)
	})
	t.Run("with_the_end_of_a_server", func(t *testing.T) {
		kept, ended := startShell(t, "echo ready; cat"), startShell(t, "echo ready; cat")
		listed := func() (groups []int) {
			hostWatchdog.mu.Lock()
			defer hostWatchdog.mu.Unlock()
			return slices.Sorted(maps.Keys(hostWatchdog.groups.slots))
		}
		require.ElementsMatch(t, []int{kept.pid, ended.pid}, listed())
		require.NoError(t, ended.end(t))
		require.Equal(t, []int{kept.pid}, listed())
	})
	t.Run("on_a_stopped_watchdog", func(t *testing.T) {
		var dog watchdog
		kept, keptEnded := startGroupID(t)
		ended, endedEnded := startGroup(t)
		<-dog.add(kept)
		<-dog.add(ended.Process.Pid)
		require.NoError(t, dog.cmd.Process.Signal(syscall.SIGSTOP))
		dog.remove(ended.Process.Pid)
		require.NoError(t, dog.cmd.Process.Signal(syscall.SIGCONT))
		endHost(t, &dog)
		<-keptEnded
		requireSpared(t, ended, endedEnded)
	})
}

// The list shows what was added and not removed. A change costs one system call and no
// memory that stays: slots are used again.
func TestGroupList(t *testing.T) {
	var list groupList
	defer list.clear()
	for round := range 3 {
		for group := range 100 {
			require.True(t, list.add(1+group))
		}
		require.True(t, list.add(1+round), "it is listed already")
		require.Len(t, listedGroups(t, &list), 100)
		for group := range 99 {
			list.remove(1 + group)
		}
		require.Equal(t, []string{"100"}, listedGroups(t, &list))
		list.remove(100)
		list.remove(100)
		require.Empty(t, listedGroups(t, &list))
	}
	size, err := list.file.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, 100*groupSlot, size)
}

// A daemon that has left its group and cleared its environment is known by its limits.
func TestWatchdog_kills_processes_with_a_tag(t *testing.T) {
	var dog watchdog
	group, groupEnded := startGroupID(t)
	daemon, daemonEnded := startSleep(t)
	stranger, _ := startSleep(t)
	require.True(t, setLimitTag(daemon, hostLimitTag+limitTagServers-1))
	require.True(t, setLimitTag(stranger, hostLimitTag+limitTagServers), "the tag of another host")
	<-dog.add(group)
	endHost(t, &dog)
	<-groupEnded
	<-daemonEnded
	require.NoError(t, syscall.Kill(stranger, 0))
	require.True(t, mcptest.Alive(stranger))
}

func TestWatchdog_kills_nothing_when_it_is_stopped(t *testing.T) {
	var dog watchdog
	group, ended := startGroupID(t)
	dog.watchLocked(group)
	dog.stopLocked()
	select {
	case <-ended:
		t.Fatal("the watchdog killed a group")
	default:
	}
}

func TestWatchdog_is_replaced(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"when_it_was_killed": syscall.SIGKILL, "when_it_was_stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			var dog watchdog
			first, firstEnded := startGroupID(t)
			dog.watchLocked(first)
			old := dog.cmd.Process.Pid
			require.NoError(t, dog.cmd.Process.Signal(sig))
			require.Eventually(t, func() bool { return !dog.runsLocked() }, waitLimit, checkInterval)
			second, secondEnded := startGroupID(t)
			dog.watchLocked(second)
			require.NotEqual(t, old, dog.cmd.Process.Pid)
			require.ErrorIs(t, syscall.Kill(old, 0), syscall.ESRCH)
			endHost(t, &dog)
			<-firstEnded
			<-secondEnded
		})
	}
}

// nestedHost is set in the environment of a server that is a host itself.
const nestedHost = "TRANSPORT_TEST_NESTED_HOST"

// serveNestedHost starts a server that has a daemon, writes the ids of the watchdog and
// of the daemon to stdout, and waits to be killed.
func serveNestedHost(t *testing.T) {
	s := startServer(t, false, exec.Command("/bin/sh", "-c", `setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1 </dev/null' & cat >/dev/null`))
	line, err := s.stdout.ReadString('\n')
	require.NoError(t, err)
	watchdog := 0
	require.Eventually(t, func() bool {
		hostWatchdog.mu.Lock()
		defer hostWatchdog.mu.Unlock()
		if hostWatchdog.cmd != nil {
			watchdog = hostWatchdog.cmd.Process.Pid
		}
		return watchdog != 0
	}, waitLimit, checkInterval)
	fmt.Printf("nested %d %s", watchdog, line)
	time.Sleep(time.Hour) // until it is killed
}

// A server may itself be a host with servers, daemons and a watchdog. When the outer host
// kills it, its watchdog still acts: the outer host does not know the daemons of the
// inner servers.
func TestWatchdog_of_a_nested_host(t *testing.T) {
	if os.Getenv(nestedHost) != "" {
		serveNestedHost(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWatchdog_of_a_nested_host$")
	cmd.Env = []string{nestedHost + "=1"}
	outer := startServer(t, false, cmd)
	var watchdog, daemon int
	for daemon == 0 {
		line, err := outer.stdout.ReadString('\n')
		require.NoError(t, err)
		if numbers, ok := strings.CutPrefix(line, "nested "); ok {
			first, second, _ := strings.Cut(strings.TrimSpace(numbers), " ")
			watchdog, err = strconv.Atoi(first)
			require.NoError(t, err)
			daemon, err = strconv.Atoi(second)
			require.NoError(t, err)
		}
	}
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	tagDescendants(outer.pid, outer.tag)
	require.Empty(t, tagOfPID(t, watchdog), "the outer host would kill the watchdog")
	require.True(t, mcptest.Alive(daemon))
	require.NoError(t, unix.Kill(outer.pid, unix.SIGKILL))
	require.NoError(t, outer.end(t))
	require.Eventually(t, func() bool { return !mcptest.Alive(daemon) }, waitLimit, checkInterval, "the daemon of the inner server is still running")
}

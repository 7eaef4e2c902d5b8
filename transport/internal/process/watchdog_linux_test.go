package process

import (
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// fillPipe writes to a watchdog that does not read until that fails.
func fillPipe(t *testing.T, dog *watchdog) {
	t.Helper()
	require.Eventually(t, func() bool { return !dog.writeLocked("- 1073741824%65536d\n", 0) }, 60*time.Second, time.Millisecond)
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
	t.Run("group_that_was_sent_twice", func(t *testing.T) {
		var dog watchdog
		removed, removedEnded := startGroup(t)
		last, lastEnded := startGroupID(t)
		<-dog.add(removed.Process.Pid)
		<-dog.add(last)
		require.True(t, dog.writeLocked("+ %d\n", removed.Process.Pid))
		require.True(t, dog.writeLocked("+ %d\n", removed.Process.Pid))
		dog.remove(removed.Process.Pid)
		endHost(t, &dog)
		<-lastEnded
		requireSpared(t, removed, removedEnded)
	})
	t.Run("before_the_leader_is_reaped", func(t *testing.T) {
		cmd := exec.Command("/bin/true")
		g, err := startInGroup(cmd, "")
		require.NoError(t, err)
		g.waitExit()
		isListed := func() bool {
			hostWatchdog.mu.Lock()
			defer hostWatchdog.mu.Unlock()
			return hostWatchdog.groups[g.pgid]
		}
		require.True(t, isListed())
		g.beforeReap()
		require.False(t, isListed())
		require.NoError(t, syscall.Kill(g.pgid, 0), "the leader is reaped already")
		require.NoError(t, cmd.Wait())
		g.afterReap()
		require.Nil(t, hostWatchdog.cmd)
	})
	t.Run("with_the_release_of_a_child", func(t *testing.T) {
		kept, ended := startShell(t, "echo ready; cat"), startShell(t, "echo ready; cat")
		listed := func() (groups []int) {
			hostWatchdog.mu.Lock()
			defer hostWatchdog.mu.Unlock()
			return slices.Sorted(maps.Keys(hostWatchdog.groups))
		}
		require.ElementsMatch(t, []int{kept.PID(), ended.PID()}, listed())
		ended.Terminate(time.Minute)
		ended.Release()
		require.Equal(t, []int{kept.PID()}, listed())
	})
	// A watchdog that is stopped by a signal would act on an old list when it continues.
	t.Run("replaces_a_stopped_watchdog", func(t *testing.T) {
		var dog watchdog
		defer dog.stopLocked()
		kept, _ := startGroupID(t)
		ended, _ := startGroupID(t)
		<-dog.add(kept)
		<-dog.add(ended)
		old := dog.cmd.Process.Pid
		require.NoError(t, dog.cmd.Process.Signal(syscall.SIGSTOP))
		fillPipe(t, &dog)
		dog.remove(ended)
		require.NotEqual(t, old, dog.cmd.Process.Pid)
		require.ErrorIs(t, syscall.Kill(old, 0), syscall.ESRCH)
		require.Equal(t, map[int]bool{kept: true}, dog.groups)
	})
}

// Each group is sent once to each watchdog.
func TestWatchdog_add_sends_each_group_once(t *testing.T) {
	var dog watchdog
	defer dog.stopLocked()
	first, _ := startGroupID(t)
	second, _ := startGroupID(t)
	sentFirst, sentSecond := dog.add(first), dog.add(second)
	<-sentFirst
	<-sentSecond
	require.Equal(t, map[int]bool{first: true, second: true}, dog.sent)
	dog.remove(first)
	require.Equal(t, map[int]bool{second: true}, dog.sent)
	require.NoError(t, dog.cmd.Process.Kill())
	require.Eventually(t, func() bool { return !dog.writeLocked("- 0\n") }, waitLimit, checkInterval)
	<-dog.add(first)
	require.Equal(t, map[int]bool{first: true, second: true}, dog.sent, "a new watchdog receives the whole list")
}

func TestWatchdog_kills_groups_when_its_host_ends(t *testing.T) {
	var dog watchdog
	removed, removedEnded := startGroupID(t)
	left, leftEnded := startGroupID(t)
	<-dog.add(removed)
	<-dog.add(left)
	dog.remove(removed)
	endHost(t, &dog)
	<-leftEnded
	require.NoError(t, syscall.Kill(removed, 0), "the watchdog killed a group that was removed")
	select {
	case <-removedEnded:
		t.Fatal("the watchdog killed a group that was removed")
	default:
	}
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
			fillPipe(t, &dog) // or the pipe breaks
			second, secondEnded := startGroupID(t)
			dog.watchLocked(second)
			require.NotEqual(t, old, dog.cmd.Process.Pid)
			require.ErrorIs(t, syscall.Kill(old, 0), syscall.ESRCH, "a stopped watchdog would kill groups of an old list when it continues")
			endHost(t, &dog)
			<-firstEnded
			<-secondEnded
		})
	}
}

package transport

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// sleeper is a process in a group of its own that carries no mark.
func sleeper(t *testing.T) (group int, ended <-chan struct{}) {
	t.Helper()
	cmd, ended := startSleeper(t)
	return cmd.Process.Pid, ended
}

func startSleeper(t *testing.T) (*exec.Cmd, <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	return cmd, gone
}

// requireSpared ends a sleeper with SIGTERM. If SIGKILL was sent to it before, that
// is what has ended it.
func requireSpared(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGTERM, status.Signal(), "the watchdog killed a group that it was told to forget")
}

func TestWatchdogForgetsEndedGroup(t *testing.T) {
	t.Run("two_servers_started_together", func(t *testing.T) {
		var dog watchdog
		a, aEnded := startSleeper(t)
		b, bEnded := startSleeper(t)
		toldA, toldB := dog.begin(a.Process.Pid), dog.begin(b.Process.Pid)
		<-toldA
		<-toldB
		last, lastEnded := sleeper(t)
		<-dog.begin(last)
		dog.end(a.Process.Pid) // from here on the numbers may be those of other processes
		dog.end(b.Process.Pid)
		require.NoError(t, dog.stdin.Close()) // as if this process had ended
		require.NoError(t, dog.cmd.Wait())
		<-lastEnded
		requireSpared(t, a, aEnded)
		requireSpared(t, b, bEnded)
	})
	t.Run("listed_twice", func(t *testing.T) {
		var dog watchdog
		forgotten, forgottenEnded := startSleeper(t)
		last, lastEnded := sleeper(t)
		<-dog.begin(forgotten.Process.Pid)
		<-dog.begin(last)
		require.True(t, dog.tell("+ %d\n", forgotten.Process.Pid))
		require.True(t, dog.tell("+ %d\n", forgotten.Process.Pid))
		dog.end(forgotten.Process.Pid)
		require.NoError(t, dog.stdin.Close()) // as if this process had ended
		require.NoError(t, dog.cmd.Wait())
		<-lastEnded
		requireSpared(t, forgotten, forgottenEnded)
	})
}

// Each group is told once to each watchdog.
func TestWatchdogTellsEachGroupOnce(t *testing.T) {
	var dog watchdog
	defer dog.dismiss()
	first, _ := sleeper(t)
	second, _ := sleeper(t)
	toldFirst, toldSecond := dog.begin(first), dog.begin(second)
	<-toldFirst
	<-toldSecond
	require.Equal(t, map[int]bool{first: true, second: true}, dog.known)
	dog.end(first)
	require.Equal(t, map[int]bool{second: true}, dog.known)
	require.NoError(t, dog.cmd.Process.Kill())
	require.Eventually(t, func() bool { return !dog.tell("- 0\n") }, patience, timeStep)
	<-dog.begin(first)
	require.Equal(t, map[int]bool{first: true, second: true}, dog.known, "a new watchdog knows the whole list")
}

func TestTheWatchdogEndsWhatItsHostLeft(t *testing.T) {
	var dog watchdog
	kept, keptEnded := sleeper(t)
	left, leftEnded := sleeper(t)
	<-dog.begin(kept)
	<-dog.begin(left)
	dog.end(kept)
	require.NoError(t, dog.stdin.Close()) // as if this process had ended
	require.NoError(t, dog.cmd.Wait())
	<-leftEnded
	require.NoError(t, syscall.Kill(kept, 0), "what it was told to forget")
	select {
	case <-keptEnded:
		t.Fatal("it ended what it was told to forget")
	default:
	}
}

func TestADismissedWatchdogEndsNothing(t *testing.T) {
	var dog watchdog
	group, ended := sleeper(t)
	dog.watch(group)
	dog.dismiss()
	select {
	case <-ended:
		t.Fatal("it ended what was watched")
	default:
	}
}

func TestAWatchdogThatIsEndedOrStoppedIsReplaced(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			var dog watchdog
			first, firstEnded := sleeper(t)
			dog.watch(first)
			old := dog.cmd.Process.Pid
			require.NoError(t, dog.cmd.Process.Signal(sig))
			// The pipe breaks, or fills up.
			require.Eventually(t, func() bool { return !dog.tell("- 1073741824%65536d\n", 0) }, 60*time.Second, time.Millisecond)
			second, secondEnded := sleeper(t)
			dog.watch(second)
			require.NotEqual(t, old, dog.cmd.Process.Pid)
			require.ErrorIs(t, syscall.Kill(old, 0), syscall.ESRCH, "going on later, it would end what lives")
			require.NoError(t, dog.stdin.Close())
			require.NoError(t, dog.cmd.Wait())
			<-firstEnded
			<-secondEnded
		})
	}
}

// TestWatchdogForgetsBeforeReaping: as long as the leader is a
// zombie the number of its group cannot be given to another process.
func TestWatchdogForgetsBeforeReaping(t *testing.T) {
	cmd := exec.Command("/bin/true")
	g, err := startInGroup(cmd, "")
	require.NoError(t, err)
	g.waitExit()
	watched := func() bool {
		hostWatchdog.mu.Lock()
		defer hostWatchdog.mu.Unlock()
		return hostWatchdog.groups[g.pgid]
	}
	require.True(t, watched())
	g.reaping()
	require.False(t, watched())
	require.NoError(t, syscall.Kill(g.pgid, 0), "it is reaped already")
	require.NoError(t, cmd.Wait())
	g.reaped()
	require.Nil(t, hostWatchdog.cmd)
}

// A watchdog that was stopped would act on an old list when it goes on.
func TestStoppedWatchdogIsReplacedAtAnEnd(t *testing.T) {
	var dog watchdog
	defer dog.dismiss()
	kept, _ := sleeper(t)
	ended, _ := sleeper(t)
	<-dog.begin(kept)
	<-dog.begin(ended)
	old := dog.cmd.Process.Pid
	require.NoError(t, dog.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool { return !dog.tell("- 1073741824%65536d\n", 0) }, 60*time.Second, time.Millisecond)
	dog.end(ended)
	require.NotEqual(t, old, dog.cmd.Process.Pid)
	require.ErrorIs(t, syscall.Kill(old, 0), syscall.ESRCH)
	require.Equal(t, map[int]bool{kept: true}, dog.groups)
}

// What has neither its group nor the variable any more is known by its limits.
func TestWatchdogKnowsLimits(t *testing.T) {
	var dog watchdog
	group, groupEnded := sleeper(t)
	daemon, daemonEnded := marked(t)
	stranger, _ := marked(t)
	require.True(t, setLimitMark(daemon, hostLimit+limitServers-1))
	require.True(t, setLimitMark(stranger, hostLimit+limitServers), "of another host")
	<-dog.begin(group)
	require.NoError(t, dog.stdin.Close()) // as if this process had ended
	require.NoError(t, dog.cmd.Wait())
	<-groupEnded
	<-daemonEnded
	require.NoError(t, syscall.Kill(stranger, 0))
	require.True(t, mcptest.Alive(stranger))
}

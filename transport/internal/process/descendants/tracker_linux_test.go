package descendants

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/internal/procfs"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
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

// startWithDaemon starts a server that has a daemon in a session of its own.
func startWithDaemon(t *testing.T) (s *server, daemon int) {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	s = startShell(t, "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ready; cat")
	require.Eventually(t, func() bool {
		for _, pid := range childrenOf(s.pid, make([]byte, 4096)) {
			if st, _ := readStat(pid, make([]byte, 4096)); st.Name == "sleep" {
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

// Processes that were forked before their server had the tag get it when the
// descendants are tagged again. Other processes do not.
func TestTagDescendants_forked_before_the_tag(t *testing.T) {
	server := startShell(t, "(sleep 600 & exec sleep 600) & echo ready; wait")
	var descendants []int
	require.Eventually(t, func() bool {
		descendants = childrenOf(server.pid, make([]byte, 4096))
		if len(descendants) == 1 {
			descendants = append(descendants, childrenOf(descendants[0], make([]byte, 4096))...)
		}
		return len(descendants) == 2
	}, waitLimit, checkInterval)
	stranger, _ := startSleep(t)
	clearTag := func(pid int) { setLimitTag(pid, unix.RLIM_INFINITY) }
	for _, pid := range append(descendants, server.pid) {
		clearTag(pid)
	}
	buf := make([]byte, 4096)
	limitTagOf := func(pid int) string {
		tag, err := limitTag(pid, buf)
		require.NoError(t, err)
		return tag
	}
	require.Empty(t, limitTagOf(server.pid))
	for _, tagAll := range []func(pid int, tag string){tagDescendants, tagServer} {
		for _, pid := range append(descendants, server.pid) {
			clearTag(pid)
		}
		tagAll(server.pid, server.tag)
		for _, pid := range append(descendants, server.pid) {
			require.Equal(t, server.tag, limitTagOf(pid))
		}
	}
	require.Empty(t, limitTagOf(stranger))
	require.Empty(t, limitTagOf(os.Getpid()))
}

// A limit that a program has set for a purpose of its own is not changed.
func TestTagDescendants_keeps_a_real_limit(t *testing.T) {
	pid, _ := startSleep(t)
	const own = 200_000
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: own, Max: unix.RLIM_INFINITY}, nil))
	tagDescendants(pid, newTag())
	var limit unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit))
	require.EqualValues(t, own, limit.Cur)
}

// In each process table 1 is the server, 2 its child and 3 the child of 2. In the last
// two tests process 2 ends, and its id is given to a process of another program, which
// then is the parent of 3.
func TestTreeTagger(t *testing.T) {
	processes := func() map[int]procfs.Stat {
		return map[int]procfs.Stat{
			1: {Start: "10"},
			2: {Start: "20", Parent: 1},
			3: {Start: "30", Parent: 2},
		}
	}
	other := procfs.Stat{Start: "25", Parent: 99}
	// newTagger reads the table, calls onRead before it returns children, and records
	// the tags that are set.
	newTagger := func(table map[int]procfs.Stat, onRead func(pid int)) (tagger treeTagger, tags map[int]uint64) {
		tags = map[int]uint64{}
		return treeTagger{
			stat: func(pid int) procfs.Stat { return table[pid] },
			children: func(pid int) (children []int) {
				onRead(pid)
				for child, st := range table {
					if st.Parent == pid {
						children = append(children, child)
					}
				}
				return children
			},
			set: func(pid int, tag uint64) bool { tags[pid] = tag; return true },
		}, tags
	}
	t.Run("descendants", func(t *testing.T) {
		tagger, tags := newTagger(processes(), func(int) {})
		tagger.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7, 3: 7}, tags)
	})
	t.Run("id_reused_before_children_are_read", func(t *testing.T) {
		table := processes()
		tagger, tags := newTagger(table, func(int) {})
		set, stats := tagger.set, 0
		tagger.set = func(pid int, tag uint64) bool { stats = 0; return set(pid, tag) }
		stat := tagger.stat
		tagger.stat = func(pid int) procfs.Stat {
			defer func() {
				if stats++; pid == 2 && tags[2] != 0 && stats == 1 {
					table[2] = other // just after it was found to be the tagged one
				}
			}()
			return stat(pid)
		}
		tagger.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7}, tags)
	})
	t.Run("id_reused_while_children_are_read", func(t *testing.T) {
		table := processes()
		tagger, tags := newTagger(table, func(pid int) {
			if pid == 2 {
				table[2] = other
			}
		})
		tagger.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7}, tags)
	})
}

// In the middle of exec a process shows an empty environment. A search at that moment
// still finds the tag, so it does not miss a daemon that has just begun.
func TestReadTag_during_exec(t *testing.T) {
	tag := newTag()
	for range 200 {
		cmd := exec.Command("sleep", "60")
		cmd.Env = append(os.Environ(), tagEntry(tag))
		require.NoError(t, cmd.Start())
		got := tagOfPID(t, cmd.Process.Pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		require.Equal(t, tag, got)
		require.Empty(t, tagOfPID(t, cmd.Process.Pid), "the process is reaped")
	}
}

// A process that was started with an empty environment is read once more, and not waited for.
func TestReadTag_empty_environment(t *testing.T) {
	cmd := exec.Command("env", "-i", "sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	buf := make([]byte, 4096)
	require.Eventually(t, func() bool {
		args, err := readProcFile(procfs.Path(cmd.Process.Pid, "cmdline"), buf)
		return err == nil && bytes.HasPrefix(args, []byte("sleep"))
	}, 30*time.Second, time.Millisecond)
	_, state, err := readTagOnce(cmd.Process.Pid, buf)
	require.NoError(t, err)
	require.Equal(t, envArgsOnly, state) // which a search reads once more, see TestTagSearch_hidden_processes
	require.Empty(t, tagOfPID(t, cmd.Process.Pid))
}

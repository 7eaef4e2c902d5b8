package descendants

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

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
	processes := func() map[int]procStat {
		return map[int]procStat{
			1: {exists: true, start: "10"},
			2: {exists: true, start: "20", parent: 1},
			3: {exists: true, start: "30", parent: 2},
		}
	}
	other := procStat{exists: true, start: "25", parent: 99}
	// newTagger reads the table, calls onRead before it returns children, and records
	// the tags that are set.
	newTagger := func(table map[int]procStat, onRead func(pid int)) (tagger treeTagger, tags map[int]uint64) {
		tags = map[int]uint64{}
		return treeTagger{
			stat: func(pid int) procStat { return table[pid] },
			children: func(pid int) (children []int) {
				onRead(pid)
				for child, st := range table {
					if st.parent == pid {
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
		tagger.stat = func(pid int) procStat {
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
		args, err := readProcFile(procPath(cmd.Process.Pid, "cmdline"), buf)
		return err == nil && bytes.HasPrefix(args, []byte("sleep"))
	}, 30*time.Second, time.Millisecond)
	_, state, err := readTagOnce(cmd.Process.Pid, buf)
	require.NoError(t, err)
	require.Equal(t, envArgsOnly, state) // which a search reads once more, see TestTagSearch_hidden_processes
	require.Empty(t, tagOfPID(t, cmd.Process.Pid))
}

package descendants

import (
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

// A search skips the servers that live. After a server is reaped its id may be that of
// a descendant, so later searches read that id.
func TestSearch_skips_living_servers(t *testing.T) {
	s := startShell(t, "echo ready; cat")
	require.True(t, table.isUnreaped(s.pid))
	require.NotEmpty(t, tagOfPID(t, s.pid), "the server has no tag")
	found, err := table.search(nil)
	require.NoError(t, err)
	for _, pids := range found {
		require.NotContains(t, pids, s.pid)
	}
	table.beforeReap(s.pid)
	found, err = table.search(nil)
	require.NoError(t, err)
	require.Contains(t, found[s.tag], s.pid)
	require.True(t, table.isUnreaped(s.pid), "other code may not collect its status")
	require.NoError(t, s.end(t))
	require.False(t, table.isUnreaped(s.pid))
}

// searches returns how many searches there were.
func searches() int {
	table.searching.Lock()
	defer table.searching.Unlock()
	return table.searches
}

// An orderly end takes one search: the wait for the group and the search for descendants
// share it. A search allocates little, as it is done for each end.
func TestSearch_once_for_an_orderly_end(t *testing.T) {
	for name, keep := range map[string]bool{"with_tag": false, "without_tag": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, keep, exec.Command("/bin/sh", "-c", "cat"))
			before := searches()
			require.NoError(t, s.end(t))
			if keep {
				require.Equal(t, before, searches())
			} else {
				require.Equal(t, before+1, searches())
			}
		})
	}
}

// A search that every server waits for begins at once, whatever the rest after the one
// before it; so it does when the last server that does not wait is reaped.
func TestSearch_that_all_servers_wait_for(t *testing.T) {
	const noPID = 1 << 30 // no process has it
	for name, others := range map[string]int{"all_wait": 0, "the_others_are_reaped": 2} {
		t.Run(name, func(t *testing.T) {
			s := &processTable{notBefore: time.Now().Add(time.Hour)}
			for i := range 3 + others {
				s.addServer(noPID + i)
			}
			done := make(chan error, 3)
			for range 3 {
				go func() {
					_, err := s.search(nil)
					done <- err
				}()
			}
			if others > 0 {
				require.Eventually(t, func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.next != nil && s.next.callers == 3
				}, waitLimit, checkInterval)
			}
			for i := range others {
				s.afterReap(noPID + i)
			}
			for range 3 {
				select {
				case err := <-done:
					require.NoError(t, err)
				case <-time.After(waitLimit):
					require.Fail(t, "the search waits for servers that cannot come")
				}
			}
			require.Equal(t, 1, s.searches)
		})
	}
}

// Servers that start together share a list of processes.
func TestListForStart(t *testing.T) {
	var s processTable
	first := s.listForStart()
	require.NotEmpty(t, first.procs)
	require.Same(t, first, s.listForStart())
	first.taken = first.taken.Add(-maxListAge)
	second := s.listForStart()
	require.NotSame(t, first, second)
	second.taken = second.taken.Add(time.Hour)
	_, err := s.list()
	require.NoError(t, err)
	require.Same(t, second, s.latest, "an earlier list replaces a later one")
	second.taken = second.taken.Add(-time.Hour)
	require.WithinDuration(t, time.Now(), second.taken, waitLimit)
}

// A search reads no process that was there before the server. It does read one that has
// got the id of such a process.
func TestSearch_reads_what_has_come_since(t *testing.T) {
	p := newFakeTable(3)
	p.show = func(int) (string, envState) { return "tag", envFinal }
	p.since = &procList{procs: []procRef{newProcRef(1<<30, 1), newProcRef(1<<30+2, 1)}}
	found, _ := p.search(t, new(processTable))
	require.Equal(t, map[string][]int{"tag": {1<<30 + 1}}, found)
	require.Equal(t, map[int]int{1<<30 + 1: 1}, p.reads)

	p.since = &procList{procs: []procRef{newProcRef(1<<30, 2), newProcRef(1<<30+1, 1), newProcRef(1<<30+2, 1)}}
	found, _ = p.search(t, new(processTable))
	require.Equal(t, map[string][]int{"tag": {1 << 30}}, found)
}

// Callers that share a search may have servers of different age.
func TestSearch_shared_by_servers_of_different_age(t *testing.T) {
	old := procListNow(t)
	tag := newTag()
	pid, _ := startSleep(t, tagEntry(tag))
	require.Eventually(t, func() bool { return tagOfPID(t, pid) == tag }, waitLimit, checkInterval)
	recent := procListNow(t)
	_, ok := refOf(recent, pid)
	require.True(t, ok)

	var s processTable
	s.searching.Lock()
	results := make(chan map[string][]int, 2)
	search := func(since *procList) {
		go func() {
			found, err := s.search(since)
			if err != nil {
				t.Error(err)
			}
			results <- found
		}()
	}
	since := func() *procList {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.next == nil {
			return nil
		}
		return s.next.since
	}
	search(recent)
	require.Eventually(t, func() bool { return since() == recent }, waitLimit, checkInterval)
	search(old)
	require.Eventually(t, func() bool { return since() == old }, waitLimit, checkInterval)
	s.searching.Unlock()
	for range 2 {
		require.Equal(t, []int{pid}, (<-results)[tag])
	}
	found, err := s.search(recent)
	require.NoError(t, err)
	require.Empty(t, found[tag])
}

// fakeTable is a process table. Its processes show neither environment nor arguments,
// unless a test replaces show.
type fakeTable struct {
	inodes map[int]uint64 // what identifies a process, by id
	show   func(pid int) (tag string, state envState)
	reads  map[int]int // readings by id
	since  *procList   // what a search does not read
}

func newFakeTable(n int) *fakeTable {
	p := &fakeTable{inodes: map[int]uint64{}, reads: map[int]int{},
		show: func(int) (string, envState) { return "", envHidden }}
	for i := range n {
		p.inodes[1<<30+i] = 1
	}
	return p
}

// search searches the table and returns what was found and how long it took.
func (p *fakeTable) search(t *testing.T, s *processTable) (map[string][]int, time.Duration) {
	t.Helper()
	list := &procList{}
	for i := range len(p.inodes) {
		list.procs = append(list.procs, newProcRef(1<<30+i, p.inodes[1<<30+i]))
	}
	search := newTagSearch(s, s.candidates(list, p.since))
	search.read = func(pid int, _ []byte) (string, envState, error) {
		p.reads[pid]++
		tag, state := p.show(pid)
		return tag, state, nil
	}
	search.stat = func(pid int, _ []byte) (procfs.Stat, error) {
		if p.inodes[pid] == 0 {
			return procfs.Stat{}, nil
		}
		return procfs.Stat{Start: "1"}, nil
	}
	began := time.Now()
	require.NoError(t, search.run())
	return search.found, time.Since(began)
}

// Processes that show neither environment nor arguments may be in the middle of exec. A
// search waits for all of them together.
func TestTagSearch_hidden_processes(t *testing.T) {
	const many, most = 40, maxExecWait + maxExecPause
	for name, test := range map[string]func(t *testing.T){
		"one_deadline_for_all": func(t *testing.T) {
			_, took := newFakeTable(many).search(t, new(processTable))
			require.GreaterOrEqual(t, took, maxExecWait)
			require.LessOrEqual(t, took, most)
		},
		"exec_ends_during_the_search": func(t *testing.T) {
			p := newFakeTable(many)
			began := time.Now()
			p.show = func(pid int) (string, envState) {
				switch in := time.Since(began); {
				case pid != 1<<30+many-1 || in < maxExecWait/2:
					return "", envHidden
				case in < maxExecWait/2+maxExecPause:
					return "", envArgsOnly
				default:
					return "tag", envFinal
				}
			}
			found, _ := p.search(t, new(processTable))
			require.Equal(t, map[string][]int{"tag": {1<<30 + many - 1}}, found)
		},
		"arguments_without_environment": func(t *testing.T) {
			p := newFakeTable(many)
			p.show = func(int) (string, envState) { return "", envArgsOnly }
			_, took := p.search(t, new(processTable))
			require.Equal(t, minExecPause, took)
			require.Equal(t, 2, p.reads[1<<30])
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// A process whose environment cannot be read delays one search for a moment. Later
// searches skip it until that reading returns.
func TestTagSearch_reading_hangs(t *testing.T) {
	tag := newTag()
	first, _ := startSleep(t, tagEntry(tag))
	hangs, _ := startSleep(t, tagEntry(tag))
	last, _ := startSleep(t, tagEntry(tag))
	for _, pid := range []int{first, hangs, last} {
		require.Eventually(t, func() bool { return tagOfPID(t, pid) == tag }, waitLimit, checkInterval)
	}
	list := func(pids ...int) *procList {
		l := &procList{}
		for _, pid := range pids {
			l.procs = append(l.procs, newProcRef(pid, 1))
		}
		return l
	}
	var s processTable
	answer, returned := make(chan struct{}), make(chan struct{})
	var readings atomic.Int64
	search := func() map[string][]int {
		tags := newTagSearch(&s, s.candidates(list(first, hangs, last), nil))
		tags.read = func(pid int, buf []byte) (string, envState, error) {
			if pid == hangs {
				readings.Add(1)
				defer close(returned)
				<-answer
			}
			return readTagOnce(pid, buf)
		}
		require.NoError(t, tags.run())
		return tags.found
	}
	require.Equal(t, map[string][]int{tag: {first, last}}, search())
	require.Equal(t, map[string][]int{tag: {first, last}}, search())
	require.EqualValues(t, 1, readings.Load(), "the second search does not skip the process")
	close(answer)
	<-returned
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.stuck) == 0
	}, waitLimit, checkInterval)
	tags := newTagSearch(&s, s.candidates(list(hangs), nil))
	require.NoError(t, tags.run())
	require.Equal(t, map[string][]int{tag: {hangs}}, tags.found)
}

// A process whose tag cannot be read is not taken for one without a tag: it is a survivor.
func TestReadTag_reading_hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTagSearch(new(processTable), []procRef{newProcRef(1<<30, 1)})
		answer := make(chan struct{})
		s.read = func(int, []byte) (string, envState, error) { <-answer; return "tag", envFinal, nil }
		s.stat = func(int, []byte) (procfs.Stat, error) { return procfs.Stat{Start: "1"}, nil }
		tag, err := s.onlyTag()
		require.EqualError(t, err, "its environment could not be read within 350ms")
		require.Empty(t, tag)
		close(answer)
	})
}

// BenchmarkSearch is one search of the process table of this machine.
func BenchmarkSearch(b *testing.B) {
	for b.Loop() {
		if _, err := new(processTable).searchOnce(nil); err != nil {
			b.Fatal(err)
		}
	}
}

package process

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func procListNow(t *testing.T) *procList {
	t.Helper()
	list, err := descriptors.list()
	require.NoError(t, err)
	return list
}

// refOf returns how a list identifies a process; false if it does not hold it.
func refOf(list *procList, pid int) (procRef, bool) {
	for _, r := range list.procs {
		if r.pid() == pid {
			return r, true
		}
	}
	return 0, false
}

func TestProcList(t *testing.T) {
	before := procListNow(t)
	require.True(t, before.hasID(os.Getpid()))
	require.True(t, before.hasID(1))

	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	during := procListNow(t)
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	after := procListNow(t)

	child, ok := refOf(during, cmd.Process.Pid)
	require.True(t, ok)
	require.True(t, during.has(child))
	require.False(t, before.has(child))
	require.False(t, after.has(child))
	for name, list := range map[string]*procList{"during": during, "after": after} {
		own, ok := refOf(list, os.Getpid())
		require.True(t, ok, name)
		require.True(t, before.has(own), "a process has another identity in the list %s", name)
	}
	require.True(t, before.earlier(during) == before && during.earlier(before) == before)
	require.Nil(t, before.earlier(nil))
}

// A search reads no process that was there before the server. It does read one that has
// got the id of such a process.
func TestScan_reads_what_has_come_since(t *testing.T) {
	p := newFakeTable(3)
	p.show = func(int) (string, envState) { return "tag", envFinal }
	p.since = &procList{procs: []procRef{newProcRef(1<<30, 1), newProcRef(1<<30+2, 1)}}
	found, _ := p.scan(t, new(procScanner))
	require.Equal(t, map[string][]int{"tag": {1<<30 + 1}}, found)
	require.Equal(t, map[int]int{1<<30 + 1: 1}, p.reads)

	p.since = &procList{procs: []procRef{newProcRef(1<<30, 2), newProcRef(1<<30+1, 1), newProcRef(1<<30+2, 1)}}
	found, _ = p.scan(t, new(procScanner))
	require.Equal(t, map[string][]int{"tag": {1 << 30}}, found)
}

// A search that skips a process does not make a later one wait for it again.
func TestScan_hidden_process_that_is_not_read(t *testing.T) {
	const pid = 1 << 30
	var s procScanner
	list := &procList{procs: []procRef{newProcRef(pid, 1)}}
	s.hidden = map[int]string{pid: "1", pid + 1: "1"}
	s.setHidden(newTableScan(&s, s.candidates(list, list)), list)
	require.Equal(t, map[int]string{pid: "1"}, s.hidden, "only what has ended is forgotten")
}

// Callers that share a search may have servers of different age.
func TestScan_shared_by_servers_of_different_age(t *testing.T) {
	old := procListNow(t)
	tag := newTag()
	pid, _ := startSleep(t, tagEntry(tag))
	require.Eventually(t, func() bool { return mustReadTag(t, pid) == tag }, waitLimit, checkInterval)
	recent := procListNow(t)
	require.True(t, recent.hasID(pid))

	var s procScanner
	s.scanning.Lock()
	results := make(chan map[string][]int, 2)
	search := func(since *procList) {
		go func() {
			found, err := s.scan(since)
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
	s.scanning.Unlock()
	for range 2 {
		require.Equal(t, []int{pid}, (<-results)[tag])
	}
	found, err := s.scan(recent)
	require.NoError(t, err)
	require.Empty(t, found[tag])
}

// Servers that start together share a list of processes.
func TestListForStart(t *testing.T) {
	var s procScanner
	first := s.listForStart()
	require.NotEmpty(t, first.procs)
	require.Same(t, first, s.listForStart())
	first.taken = first.taken.Add(-maxListAge)
	second := s.listForStart()
	require.NotSame(t, first, second)
	s.setLatest(first)
	require.Same(t, second, s.latest, "an earlier list replaces a later one")
	require.WithinDuration(t, time.Now(), second.taken, waitLimit)
}

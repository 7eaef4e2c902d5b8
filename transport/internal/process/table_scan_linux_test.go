package process

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeTable is a process table. Its processes show neither environment nor arguments,
// unless a test replaces show.
type fakeTable struct {
	starts map[int]string // start time by id
	show   func(pid int) (tag string, state envState)
	reads  map[int]int // readings by id
	since  *procList   // what a search does not read
}

func newFakeTable(n int) *fakeTable {
	p := &fakeTable{starts: map[int]string{}, reads: map[int]int{},
		show: func(int) (string, envState) { return "", envHidden }}
	for i := range n {
		p.starts[1<<30+i] = "1"
	}
	return p
}

// scan searches the table and returns what was found and how long it took.
func (p *fakeTable) scan(t *testing.T, s *procScanner) (map[string][]int, time.Duration) {
	t.Helper()
	list := &procList{}
	for i := range len(p.starts) {
		list.procs = append(list.procs, newProcRef(1<<30+i, 1))
	}
	scan := newTableScan(s, s.candidates(list, p.since))
	scan.read = func(pid int, _ []byte) (string, envState, error) {
		p.reads[pid]++
		tag, state := p.show(pid)
		return tag, state, nil
	}
	scan.stat = func(pid int, _ []byte) (procStat, error) {
		return procStat{exists: p.starts[pid] != "", start: p.starts[pid]}, nil
	}
	began := time.Now()
	require.NoError(t, scan.run())
	s.setHidden(scan, list)
	return scan.found, time.Since(began)
}

// Processes that show neither environment nor arguments may be in the middle of exec. A
// search waits for all of them together, and later searches do not wait again.
func TestTableScan_hidden_processes(t *testing.T) {
	const many, most = 40, maxExecWait + maxExecPause
	for name, test := range map[string]func(t *testing.T){
		"one_deadline_for_all": func(t *testing.T) {
			_, took := newFakeTable(many).scan(t, new(procScanner))
			require.GreaterOrEqual(t, took, maxExecWait)
			require.LessOrEqual(t, took, most)
		},
		"later_search_does_not_wait": func(t *testing.T) {
			var s procScanner
			p := newFakeTable(many)
			p.scan(t, &s)
			p.reads = map[int]int{}
			_, took := p.scan(t, &s)
			require.Zero(t, took)
			require.Len(t, p.reads, many)
			p.show = func(int) (string, envState) { return "tag", envFinal }
			found, _ := p.scan(t, &s)
			require.Len(t, found["tag"], many)
			require.Empty(t, s.hidden, "the processes have shown an environment")
		},
		"reused_id_is_waited_for": func(t *testing.T) {
			var s procScanner
			p := newFakeTable(many)
			p.scan(t, &s)
			p.starts[1<<30] = "2"
			_, took := p.scan(t, &s)
			require.GreaterOrEqual(t, took, maxExecWait)
		},
		"ended_processes_are_forgotten": func(t *testing.T) {
			var s procScanner
			p := newFakeTable(many)
			p.scan(t, &s)
			require.Len(t, s.hidden, many)
			p.starts = map[int]string{1 << 30: "1"}
			p.scan(t, &s)
			require.Equal(t, p.starts, s.hidden)
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
			found, _ := p.scan(t, new(procScanner))
			require.Equal(t, map[string][]int{"tag": {1<<30 + many - 1}}, found)
		},
		"arguments_without_environment": func(t *testing.T) {
			p := newFakeTable(many)
			p.show = func(int) (string, envState) { return "", envArgsOnly }
			_, took := p.scan(t, new(procScanner))
			require.Equal(t, execPollInterval, took)
			require.Equal(t, 2, p.reads[1<<30])
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// A process whose environment cannot be read delays one search for a moment. Later
// searches skip it until that reading returns.
func TestTableScan_reading_hangs(t *testing.T) {
	tag := newTag()
	first, _ := startSleep(t, tagEntry(tag))
	hangs, _ := startSleep(t, tagEntry(tag))
	last, _ := startSleep(t, tagEntry(tag))
	for _, pid := range []int{first, hangs, last} {
		require.Eventually(t, func() bool { return mustReadTag(t, pid) == tag }, waitLimit, checkInterval)
	}
	list := func(pids ...int) *procList {
		l := &procList{}
		for _, pid := range pids {
			l.procs = append(l.procs, newProcRef(pid, 1))
		}
		return l
	}
	var s procScanner
	answer, returned := make(chan struct{}), make(chan struct{})
	var readings atomic.Int64
	search := func() map[string][]int {
		scan := newTableScan(&s, s.candidates(list(first, hangs, last), nil))
		scan.read = func(pid int, buf []byte) (string, envState, error) {
			if pid == hangs {
				readings.Add(1)
				defer close(returned)
				<-answer
			}
			return readTagOnce(pid, buf)
		}
		require.NoError(t, scan.run())
		return scan.found
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
	scan := newTableScan(&s, s.candidates(list(hangs), nil))
	require.NoError(t, scan.run())
	require.Equal(t, map[string][]int{tag: {hangs}}, scan.found)
}

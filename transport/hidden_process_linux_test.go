package transport

import (
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// processTable is what scans read in these tests: processes that show neither
// environment nor arguments, save for those that have shown.
type processTable struct {
	starts map[int]string
	shows  func(pid int) (string, shownMemory)
	reads  map[int]int
}

func hiddenProcesses(n int) *processTable {
	p := &processTable{starts: map[int]string{}, reads: map[int]int{},
		shows: func(int) (string, shownMemory) { return "", showsNothing }}
	for i := range n {
		p.starts[1<<30+i] = "1"
	}
	return p
}

// scan reads the table and returns what was found and how long it took.
func (p *processTable) scan(t *testing.T, h *headcount) (map[string][]int, time.Duration) {
	t.Helper()
	var names []string
	for i := range len(p.starts) {
		names = append(names, strconv.Itoa(1<<30+i))
	}
	s := newScan(h, names)
	s.mark = func(pid int, _ []byte) (string, shownMemory, error) {
		p.reads[pid]++
		lineage, shown := p.shows(pid)
		return lineage, shown, nil
	}
	s.stat = func(pid int, _ []byte) (procStat, error) {
		return procStat{exists: p.starts[pid] != "", start: p.starts[pid]}, nil
	}
	began := time.Now()
	require.NoError(t, s.run())
	h.setHidden(s.hidden)
	return s.found, time.Since(began)
}

// Processes that show neither environment nor arguments may be in the midst of exec. A
// look at the process table waits for all of them together, and once for each.
func TestScanOfHiddenProcesses(t *testing.T) {
	const many, most = 40, execMost + longestExecPause
	for name, test := range map[string]func(t *testing.T){
		"one_allowance_for_all": func(t *testing.T) {
			_, took := hiddenProcesses(many).scan(t, new(headcount))
			require.GreaterOrEqual(t, took, execMost)
			require.LessOrEqual(t, took, most)
		},
		"read_but_not_awaited_again": func(t *testing.T) {
			var h headcount
			p := hiddenProcesses(many)
			p.scan(t, &h)
			p.reads = map[int]int{}
			_, took := p.scan(t, &h)
			require.Zero(t, took)
			require.Len(t, p.reads, many)
			p.shows = func(int) (string, shownMemory) { return "mark", showsEnviron }
			found, _ := p.scan(t, &h)
			require.Len(t, found["mark"], many)
			require.Empty(t, h.hidden, "they have shown something")
		},
		"number_of_a_new_process": func(t *testing.T) {
			var h headcount
			p := hiddenProcesses(many)
			p.scan(t, &h)
			p.starts[1<<30] = "2"
			_, took := p.scan(t, &h)
			require.GreaterOrEqual(t, took, execMost)
		},
		"gone_processes_are_forgotten": func(t *testing.T) {
			var h headcount
			p := hiddenProcesses(many)
			p.scan(t, &h)
			require.Len(t, h.hidden, many)
			p.starts = map[int]string{1 << 30: "1"}
			p.scan(t, &h)
			require.Equal(t, p.starts, h.hidden)
		},
		"exec_ends_meanwhile": func(t *testing.T) {
			p := hiddenProcesses(many)
			began := time.Now()
			p.shows = func(pid int) (string, shownMemory) {
				switch in := time.Since(began); {
				case pid != 1<<30+many-1 || in < execMost/2:
					return "", showsNothing
				case in < execMost/2+longestExecPause:
					return "", showsArguments
				default:
					return "mark", showsEnviron
				}
			}
			found, _ := p.scan(t, new(headcount))
			require.Equal(t, map[string][]int{"mark": {1<<30 + many - 1}}, found)
		},
		"arguments_without_environment": func(t *testing.T) {
			p := hiddenProcesses(many)
			p.shows = func(int) (string, shownMemory) { return "", showsArguments }
			_, took := p.scan(t, new(headcount))
			require.Equal(t, execPause, took)
			require.Equal(t, 2, p.reads[1<<30])
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// An end does not depend on how long a look at the process table takes.
func TestEndWhileProcessTableIsRead(t *testing.T) {
	t.Run("group_is_given_up", func(t *testing.T) {
		c := shell(t, "sleep 600 & echo here; wait")
		census.busy.Lock()
		stop, returned := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(returned)
			c.group.awaitEmpty(c.lineage, stop)
		}()
		close(stop)
		select {
		case <-returned:
		case <-time.After(patience):
			t.Error("it waits for the look")
		}
		census.busy.Unlock()
		<-returned
	})
	t.Run("dead_process_is_not_said_to_run", func(t *testing.T) {
		c := shell(t, "echo here; cat")
		c.endOnce.Do(func() { close(c.ending) }) // as an orderly end does
		census.busy.Lock()
		require.NoError(t, syscall.Kill(c.PID(), syscall.SIGKILL))
		require.Eventually(t, func() bool { return isDead(c.PID()) }, patience, timeStep)
		released := make(chan error, 1)
		go func() { released <- c.Release() }()
		select {
		case <-c.Exited():
		case <-time.After(patience):
			t.Error("the exit waits for the look")
		}
		census.busy.Unlock()
		require.NoError(t, <-released)
	})
}

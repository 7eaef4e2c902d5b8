package transport

import (
	"maps"
	"strconv"
	"sync"
	"time"
)

// census finds the descendants of this process, by lineage. Those who ask at the
// same time share one look at the process table.
var census headcount

type headcount struct {
	mu   sync.Mutex
	next *look
	// children are the servers that have not been reaped. They are no descendants
	// that are looked for, and where there are many they are most of what there is
	// to read.
	children map[int]bool
	// awaited are the servers whose exit status is not collected. No other waits
	// for them.
	awaited map[int]bool
	// stuck are the processes of which a file is being read that does not come.
	stuck map[int]bool

	busy sync.Mutex
	rest time.Time // when the next look may begin
}

// A look is followed by share times as long, at most longestRest, without one:
// when many servers end at once, their dying is not slowed down by being watched.
const (
	share       = 4
	longestRest = 50 * time.Millisecond
)

type look struct {
	done  chan struct{}
	found map[string][]int
	err   error
}

// born notes a server that was just started.
func (h *headcount) born(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.children == nil {
		h.children, h.awaited = map[int]bool{}, map[int]bool{}
	}
	h.children[pid], h.awaited[pid] = true, true
}

// reaping comes before a server is reaped: from then on its number may be that of
// a descendant.
func (h *headcount) reaping(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.children, pid)
}

// reaped comes after it.
func (h *headcount) reaped(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.awaited, pid)
}

func (h *headcount) isChild(pid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.children[pid]
}

func (h *headcount) isAwaited(pid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.awaited[pid]
}

// passedOver are the processes that a look does not read.
func (h *headcount) passedOver() map[int]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	skip := maps.Clone(h.children)
	if skip == nil {
		skip = map[int]bool{}
	}
	maps.Copy(skip, h.stuck)
	return skip
}

// setStuck notes that a file of a process is being read that does not come, and
// that it has come.
func (h *headcount) setStuck(pid int, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stuck == nil {
		h.stuck = map[int]bool{}
	}
	if h.stuck[pid] = is; !is {
		delete(h.stuck, pid)
	}
}

// take is what the process table says at some moment after the call: the living,
// by lineage. The dead that no other will wait for are reaped.
func (h *headcount) take() (map[string][]int, error) {
	h.mu.Lock()
	l, first := h.next, h.next == nil
	if first {
		l = &look{done: make(chan struct{})}
		h.next = l
	}
	h.mu.Unlock()
	if !first {
		<-l.done
		return l.found, l.err
	}
	h.busy.Lock()
	time.Sleep(time.Until(h.rest))
	h.mu.Lock()
	h.next = nil // who comes now wants a later one
	h.mu.Unlock()
	began := time.Now()
	l.found, l.err = h.look()
	h.rest = time.Now().Add(min(share*time.Since(began), longestRest))
	h.busy.Unlock()
	close(l.done)
	return l.found, l.err
}

func (h *headcount) look() (map[string][]int, error) {
	names, err := descriptors.processes()
	if err != nil {
		return nil, err
	}
	s := newScan(h, names)
	if err := s.run(); err != nil {
		return nil, err
	}
	for _, pid := range s.dead {
		reapOrphan(pid, s.buf)
	}
	return s.found, nil
}

// scan is one reading of the process table.
type scan struct {
	census *headcount
	mark   func(pid int, buf []byte) (string, error)
	skip   map[int]bool

	mu    sync.Mutex
	names []string // that are not read
	turn  int      // the worker that may go on
	pid   int      // that is being read
	since time.Time
	found map[string][]int
	dead  []int
	buf   []byte // of the worker in turn
	err   error
	done  chan struct{}
}

// stuckRead is how long the files of one process are waited for. The environment
// of a process cannot be read while that holds its memory lock, which it may do for
// ever. The mark in the limits has been looked at before.
const stuckRead = execMost + 100*time.Millisecond

func newScan(h *headcount, names []string) *scan {
	return &scan{census: h, mark: lineageOf, skip: h.passedOver(), names: names, since: time.Now(),
		found: map[string][]int{}, done: make(chan struct{})}
}

// run reads what there is. The reading is done by a worker, which is replaced when
// it hangs in one process; that process is left out until the reading comes back.
func (s *scan) run() error {
	go s.work(0)
	patience := time.NewTicker(stuckRead / 4)
	defer patience.Stop()
	for {
		select {
		case <-s.done:
			return s.err
		case <-patience.C:
			s.mu.Lock()
			if time.Since(s.since) >= stuckRead && s.pid != 0 {
				s.census.setStuck(s.pid, true)
				s.turn++
				s.since = time.Now()
				go s.work(s.turn)
			}
			s.mu.Unlock()
		}
	}
}

func (s *scan) work(turn int) {
	buf := make([]byte, procBuffer)
	for {
		pid := s.following(turn, buf)
		if pid == 0 {
			return
		}
		lineage, err := s.mark(pid, buf)
		var st procStat
		if lineage != "" && err == nil {
			st, err = statOf(pid, buf)
		}
		if !s.record(turn, pid, lineage, st, err) {
			s.census.setStuck(pid, false)
			return
		}
	}
}

// following is the next process to be read by the worker in turn; 0 ends it.
func (s *scan) following(turn int, buf []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != turn {
		return 0
	}
	s.buf = buf
	for s.err == nil && len(s.names) > 0 {
		pid, err := strconv.Atoi(s.names[0])
		s.names = s.names[1:]
		if err == nil && !s.skip[pid] {
			s.pid, s.since = pid, time.Now()
			return pid
		}
	}
	s.pid = 0
	close(s.done)
	return 0
}

// record notes what a process is. It reports false if the worker was replaced.
func (s *scan) record(turn, pid int, lineage string, st procStat, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != turn {
		return false
	}
	switch {
	case err != nil:
		s.err = err
	case lineage == "" || !st.exists:
	case st.dead:
		s.dead = append(s.dead, pid)
	default:
		s.found[lineage] = append(s.found[lineage], pid)
	}
	return true
}

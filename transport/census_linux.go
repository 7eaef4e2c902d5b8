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
	// hidden are the processes that show neither environment nor arguments and have
	// been waited for, with their start times. They are read, and not waited for again.
	hidden map[int]string

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

// setHidden notes which processes show nothing and have been waited for.
func (h *headcount) setHidden(hidden map[int]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hidden = hidden
}

// isHidden reports whether a process that shows nothing has been waited for by an
// earlier look.
func (h *headcount) isHidden(c candidate) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.shown == showsNothing && h.hidden[c.pid] == c.start && c.start != ""
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
	h.setHidden(s.hidden)
	for _, pid := range s.dead {
		reapOrphan(pid, s.buf)
	}
	return s.found, nil
}

// scan is one reading of the process table.
type scan struct {
	census *headcount
	mark   func(pid int, buf []byte) (string, shownMemory, error)
	stat   func(pid int, buf []byte) (procStat, error)

	mu        sync.Mutex
	queue     []candidate // that are not read
	unsettled []candidate // that are read again, after those of the queue
	until     time.Time   // the end of the time for all that are unsettled; zero before the first is
	pause     time.Duration
	hidden    map[int]string // those that show nothing and are not waited for
	turn      int            // the worker that may go on
	pid       int            // that is being read
	since     time.Time
	found     map[string][]int
	dead      []int
	buf       []byte // of the worker in turn
	err       error
	done      chan struct{}
}

// candidate is a process to read.
type candidate struct {
	pid   int
	shown shownMemory // at the last reading
	start string      // known after the first reading, if that settled nothing
}

// stuckRead is how long the files of one process are waited for. The environment
// of a process cannot be read while that holds its memory lock, which it may do for
// ever. The mark in the limits has been looked at before.
const stuckRead = execMost + 100*time.Millisecond

func newScan(h *headcount, names []string) *scan {
	s := &scan{census: h, mark: lineageNow, stat: statOf, since: time.Now(), pause: execPause,
		queue: make([]candidate, 0, len(names)), hidden: map[int]string{}, found: map[string][]int{}, done: make(chan struct{})}
	skip := h.passedOver()
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && !skip[pid] {
			s.queue = append(s.queue, candidate{pid: pid})
		}
	}
	return s
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
		c, ok := s.following(turn, buf)
		if !ok {
			return
		}
		lineage, shown, err := s.mark(c.pid, buf)
		again := err == nil && !shown.isFinal() && c.shown != showsArguments
		var st procStat
		if (lineage != "" || again) && err == nil {
			st, err = s.stat(c.pid, buf)
		}
		if again {
			if c.start == "" {
				c.start = st.start
			}
			c.shown = shown
			again = st.exists && st.start == c.start
		}
		if !s.record(turn, c, again, lineage, st, err) {
			s.census.setStuck(c.pid, false)
			return
		}
	}
}

// following is the next process for the worker in turn; without one the worker ends.
func (s *scan) following(turn int, buf []byte) (candidate, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != turn {
		return candidate{}, false
	}
	s.buf, s.pid = buf, 0
	if len(s.queue) == 0 && len(s.unsettled) > 0 && s.err == nil {
		s.requeueLocked()
	}
	if s.err == nil && len(s.queue) > 0 {
		c := s.queue[0]
		s.queue = s.queue[1:]
		s.pid, s.since = c.pid, time.Now()
		return c, true
	}
	for _, c := range s.unsettled {
		if c.shown == showsNothing {
			s.hidden[c.pid] = c.start
		}
	}
	close(s.done)
	return candidate{}, false
}

// longestExecPause bounds the time between two readings of an unsettled process.
const longestExecPause = 5 * time.Millisecond

// requeueLocked has the unsettled processes read once more, after a pause. They share
// one allowance: many that never show anything take no longer than one does. No worker
// is replaced during the pause, because s.pid is 0.
func (s *scan) requeueLocked() {
	now := time.Now()
	if s.until.IsZero() {
		s.until = now.Add(execMost)
	}
	if !now.Before(s.until) {
		return
	}
	pause := s.pause
	s.pause = min(2*pause, longestExecPause)
	s.mu.Unlock()
	time.Sleep(pause)
	s.mu.Lock()
	s.queue, s.unsettled = s.unsettled, nil
}

// record notes what a process is. It reports false if the worker was replaced.
// Again says that the process is to be read again.
func (s *scan) record(turn int, c candidate, again bool, lineage string, st procStat, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != turn {
		return false
	}
	switch {
	case err != nil:
		s.err = err
	case again && s.census.isHidden(c):
		s.hidden[c.pid] = c.start
	case again:
		s.unsettled = append(s.unsettled, c)
	case lineage == "" || !st.exists:
	case st.dead:
		s.dead = append(s.dead, c.pid)
	default:
		s.found[lineage] = append(s.found[lineage], c.pid)
	}
	return true
}

package process

import (
	"sync"
	"time"
)

// procTable searches the process table for tagged processes. It is shared by all
// servers of this process.
var procTable procScanner

// procScanner searches the process table and remembers what a search may skip.
// Callers that call scan at the same time share one search.
type procScanner struct {
	mu   sync.Mutex // guards what follows
	next *sharedScan
	// servers are the children that have not been reaped, and the watchdog. A search skips
	// them: they are not descendants to kill, and would make up most of what it reads.
	servers map[int]bool
	// unreaped are the children whose exit status [Child.reap] will collect. No other
	// code may collect it.
	unreaped map[int]bool
	// stuck are the processes whose files are being read by a worker that hangs.
	stuck map[int]bool
	// hidden are the processes in state envHidden that a search has waited for, with
	// their start times. Later searches read them once and do not wait for them.
	hidden map[int]string
	// latest is the list of the last search, or of listForStart if that was later.
	latest *procList

	scanning sync.Mutex // held by the one search that runs; guards what follows
	rest     time.Time  // the next search begins at this time or later, unless all wait for it
	scans    int        // how many searches there were
}

// After a search, the next one begins no sooner than restFactor times its duration, at
// most maxRest: when many servers end at once, the searches must not slow down their end.
// It begins at once when every server that is not reaped waits for it: then no other one
// can come to share it.
const (
	restFactor = 4
	maxRest    = 50 * time.Millisecond
)

// maxListAge is how old a list may be that a server is started with. Older ones are
// correct, too, but the search at the end of the server then reads more processes. Servers
// that start together share a list.
const maxListAge = time.Second

// sharedScan is a search that has not begun, or its result once done is closed.
type sharedScan struct {
	callers int           // guarded by procScanner.mu until the search begins
	all     chan struct{} // closed when every server that is not reaped waits for the search
	done    chan struct{}
	since   *procList // of the caller whose list is the earliest; guarded by procScanner.mu until the search begins
	found   map[string][]int
	err     error
}

// addServer records a server that was just started.
func (s *procScanner) addServer(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers == nil {
		s.servers, s.unreaped = map[int]bool{}, map[int]bool{}
	}
	s.servers[pid], s.unreaped[pid] = true, true
}

// addWatchdog records the watchdog, which is no descendant of a server either. beforeReap
// ends that.
func (s *procScanner) addWatchdog(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers == nil {
		s.servers, s.unreaped = map[int]bool{}, map[int]bool{}
	}
	s.servers[pid] = true
}

// beforeReap is called just before a server is reaped: from then on its id may be
// that of a descendant.
func (s *procScanner) beforeReap(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, pid)
}

// afterReap is called after a server was reaped.
func (s *procScanner) afterReap(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unreaped, pid)
	s.checkCallersLocked()
}

func (s *procScanner) isServer(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[pid]
}

func (s *procScanner) isUnreaped(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreaped[pid]
}

// setStuck records whether the reading of a process hangs.
func (s *procScanner) setStuck(pid int, stuck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck == nil {
		s.stuck = map[int]bool{}
	}
	if s.stuck[pid] = stuck; !stuck {
		delete(s.stuck, pid)
	}
}

// setHidden replaces the processes that later searches do not wait for. Those that the
// search has not read stay what they were, unless they have ended.
func (s *procScanner) setHidden(t *tableScan, list *procList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, start := range s.hidden {
		if !t.wasRead(pid) && list.hasID(pid) {
			t.hidden[pid] = start
		}
	}
	s.hidden = t.hidden
}

// isHidden reports whether a process shows nothing and an earlier search has waited
// for it.
func (s *procScanner) isHidden(c candidate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.state == envHidden && s.hidden[c.pid] == c.start && c.start != ""
}

// listForStart returns a list of processes for a server that is started afterwards; nil if
// they cannot be listed.
func (s *procScanner) listForStart() *procList {
	s.mu.Lock()
	list := s.latest
	s.mu.Unlock()
	if list != nil && time.Since(list.taken) < maxListAge {
		return list
	}
	list, err := descriptors.list()
	if err != nil {
		return nil
	}
	s.setLatest(list)
	return list
}

func (s *procScanner) setLatest(list *procList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.earlier(list) == s.latest {
		s.latest = list
	}
}

// scan returns the living tagged processes by tag, as they were at some moment after
// the call, and at least those that are not in the list since. It reaps those among them
// that are zombies and that no other code waits for.
func (s *procScanner) scan(since *procList) (map[string][]int, error) {
	s.mu.Lock()
	shared, first := s.next, s.next == nil
	if first {
		shared = &sharedScan{all: make(chan struct{}), done: make(chan struct{}), since: since}
		s.next = shared
	}
	shared.since = shared.since.earlier(since)
	shared.callers++
	s.checkCallersLocked()
	s.mu.Unlock()
	if !first {
		<-shared.done
		return shared.found, shared.err
	}
	s.scanning.Lock()
	if rest := time.Until(s.rest); rest > 0 {
		t := time.NewTimer(rest)
		select {
		case <-shared.all:
		case <-t.C:
		}
		t.Stop()
	}
	s.mu.Lock()
	s.next = nil // callers from now on need a later search
	s.mu.Unlock()
	began := time.Now()
	shared.found, shared.err = s.scanOnce(shared.since)
	s.rest = time.Now().Add(min(restFactor*time.Since(began), maxRest))
	s.scans++
	s.scanning.Unlock()
	close(shared.done)
	return shared.found, shared.err
}

// checkCallersLocked reports it to the next search if no other server can share it.
func (s *procScanner) checkCallersLocked() {
	if s.next == nil || s.next.callers < len(s.unreaped) {
		return
	}
	select {
	case <-s.next.all:
	default:
		close(s.next.all)
	}
}

// scanOnce searches the processes that are not in the list since, and reaps.
func (s *procScanner) scanOnce(since *procList) (map[string][]int, error) {
	list, err := descriptors.list()
	if err != nil {
		return nil, err
	}
	s.setLatest(list)
	t := newTableScan(s, s.candidates(list, since))
	if err := t.run(); err != nil {
		return nil, err
	}
	s.setHidden(t, list)
	for _, pid := range t.dead {
		reapAdopted(pid, t.buf)
	}
	return t.found, nil
}

// candidate is a process that a search reads.
type candidate struct {
	pid   int
	state envState // at the last reading
	start string   // known after the first reading if that was not final
}

// candidates returns the processes of a list that a search reads.
func (s *procScanner) candidates(list, since *procList) []candidate {
	var all []candidate
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, proc := range list.procs {
		if pid := proc.pid(); !s.servers[pid] && !s.stuck[pid] && !since.has(proc) {
			all = append(all, candidate{pid: pid})
		}
	}
	return all
}

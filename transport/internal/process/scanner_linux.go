package process

import (
	"maps"
	"strconv"
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
	// servers are the children that have not been reaped. A search skips them: they are
	// not descendants to kill, and many servers would make up most of what it reads.
	servers map[int]bool
	// unreaped are the children whose exit status [Child.reap] will collect. No other
	// code may collect it.
	unreaped map[int]bool
	// stuck are the processes whose files are being read by a worker that hangs.
	stuck map[int]bool
	// hidden are the processes in state envHidden that a search has waited for, with
	// their start times. Later searches read them once and do not wait for them.
	hidden map[int]string

	scanning sync.Mutex // held by the one search that runs; guards rest
	rest     time.Time  // the next search begins at this time or later
}

// After a search, the next one begins no sooner than restFactor times its duration, at
// most maxRest: when many servers end at once, the searches must not slow down their end.
const (
	restFactor = 4
	maxRest    = 50 * time.Millisecond
)

// sharedScan is a search that has not begun, or its result once done is closed.
type sharedScan struct {
	done  chan struct{}
	found map[string][]int
	err   error
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

// skipped returns the processes that a search does not read.
func (s *procScanner) skipped() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	skip := maps.Clone(s.servers)
	if skip == nil {
		skip = map[int]bool{}
	}
	maps.Copy(skip, s.stuck)
	return skip
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

// setHidden replaces the processes that later searches do not wait for.
func (s *procScanner) setHidden(hidden map[int]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = hidden
}

// isHidden reports whether a process shows nothing and an earlier search has waited
// for it.
func (s *procScanner) isHidden(c candidate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.state == envHidden && s.hidden[c.pid] == c.start && c.start != ""
}

// scan returns the living tagged processes by tag, as they were at some moment after
// the call. It reaps zombies that no other code waits for.
func (s *procScanner) scan() (map[string][]int, error) {
	s.mu.Lock()
	shared, first := s.next, s.next == nil
	if first {
		shared = &sharedScan{done: make(chan struct{})}
		s.next = shared
	}
	s.mu.Unlock()
	if !first {
		<-shared.done
		return shared.found, shared.err
	}
	s.scanning.Lock()
	time.Sleep(time.Until(s.rest))
	s.mu.Lock()
	s.next = nil // callers from now on need a later search
	s.mu.Unlock()
	began := time.Now()
	shared.found, shared.err = s.scanOnce()
	s.rest = time.Now().Add(min(restFactor*time.Since(began), maxRest))
	s.scanning.Unlock()
	close(shared.done)
	return shared.found, shared.err
}

// scanOnce searches the process table, and reaps.
func (s *procScanner) scanOnce() (map[string][]int, error) {
	names, err := descriptors.listPIDs()
	if err != nil {
		return nil, err
	}
	t := newTableScan(s, names)
	if err := t.run(); err != nil {
		return nil, err
	}
	s.setHidden(t.hidden)
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

// candidates returns the processes among names that a search reads.
func (s *procScanner) candidates(names []string) []candidate {
	list := make([]candidate, 0, len(names))
	skip := s.skipped()
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && !skip[pid] {
			list = append(list, candidate{pid: pid})
		}
	}
	return list
}

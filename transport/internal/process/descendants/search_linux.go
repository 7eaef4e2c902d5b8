package descendants

import (
	"fmt"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

// table searches the process table for the tags of this host.
var table processTable

// processTable finds processes with a tag, and remembers what a search may skip. Callers
// that search at the same time share one search.
type processTable struct {
	mu   sync.Mutex // guards the fields below, up to latest
	next *sharedSearch
	// servers are the children that are not reaped. Only [Tracker.Reap] collects their exit
	// status. With true a search skips the server: it is no descendant to kill, and hundreds
	// of servers would be most of what a search reads. Once Reap has begun, the value is
	// false: at any moment the id can be that of a descendant.
	servers map[int]bool
	// stuck are the processes that a goroutine is trying to read without success. A search
	// skips them.
	stuck map[procRef]bool
	// latest is the latest list, of a search or of listForStart.
	latest *procList

	searching sync.Mutex // held by the one search that runs; guards the fields below
	notBefore time.Time  // when the next search may begin, unless every server waits for it
	searches  int        // how many searches there were
}

// After a search, the next one begins no sooner than pauseFactor times its duration, at
// most maxPause: when many servers end at once, the searches must not slow down their end.
// It begins at once when every server that is not reaped waits for it: then no other one
// can come to share it.
const (
	pauseFactor = 4
	maxPause    = 50 * time.Millisecond
)

// maxListAge is how old a list may be that a server is started with. Servers that start
// together share a list. An older one is correct, too, but the search at the end of the
// server then reads more processes.
const maxListAge = time.Second

// sharedSearch is a search that has not begun, or its result once done is closed.
type sharedSearch struct {
	callers int           // guarded by processTable.mu until the search begins
	all     chan struct{} // closed when every server that is not reaped waits for the search
	done    chan struct{}
	since   *procList // the earliest list of the callers; guarded by processTable.mu until the search begins
	found   map[string][]int
	err     error
}

// addServer records a server that was just started.
func (p *processTable) addServer(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.servers == nil {
		p.servers = map[int]bool{}
	}
	p.servers[pid] = true
}

// beforeReap is called just before a server is reaped: from then on its id may be that of a
// descendant.
func (p *processTable) beforeReap(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[pid] = false
}

// afterReap is called after a server was reaped.
func (p *processTable) afterReap(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.servers, pid)
	p.checkCallersLocked()
}

// isUnreaped reports whether a process is a server that is not reaped.
func (p *processTable) isUnreaped(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, unreaped := p.servers[pid]
	return unreaped
}

// setStuck records whether the reading of a process hangs.
func (p *processTable) setStuck(proc procRef, stuck bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !stuck:
		delete(p.stuck, proc)
	case p.stuck == nil:
		p.stuck = map[procRef]bool{proc: true}
	default:
		p.stuck[proc] = true
	}
}

// listForStart returns a list of processes for a server that is started afterwards; nil if
// they cannot be listed.
func (p *processTable) listForStart() *procList {
	p.mu.Lock()
	list := p.latest
	p.mu.Unlock()
	if list != nil && time.Since(list.taken) < maxListAge {
		return list
	}
	list, err := p.list()
	if err != nil {
		return nil
	}
	return list
}

// list lists the processes.
func (p *processTable) list() (*procList, error) {
	list, err := descriptors.listProcesses()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest.earlier(list) == p.latest {
		p.latest = list
	}
	return list, nil
}

// search returns the living processes with a tag of this host, by tag, as they were at some
// moment after the call: at least those that are not in the list since, and no server that
// is not reaped. It reaps the zombies among them if no other code waits for these.
func (p *processTable) search(since *procList) (map[string][]int, error) {
	p.mu.Lock()
	shared, first := p.next, p.next == nil
	if first {
		shared = &sharedSearch{all: make(chan struct{}), done: make(chan struct{}), since: since}
		p.next = shared
	}
	shared.since = shared.since.earlier(since)
	shared.callers++
	p.checkCallersLocked()
	p.mu.Unlock()
	if !first {
		<-shared.done
		return shared.found, shared.err
	}
	p.searching.Lock()
	if pause := time.Until(p.notBefore); pause > 0 {
		select {
		case <-shared.all:
		case <-time.After(pause):
		}
	}
	p.mu.Lock()
	p.next = nil // a call from now on needs a later search
	p.mu.Unlock()
	began := time.Now()
	shared.found, shared.err = p.searchOnce(shared.since)
	p.notBefore = time.Now().Add(min(pauseFactor*time.Since(began), maxPause))
	p.searches++
	p.searching.Unlock()
	close(shared.done)
	return shared.found, shared.err
}

// checkCallersLocked tells the next search to begin at once if every server that is not
// reaped waits for it.
func (p *processTable) checkCallersLocked() {
	if p.next == nil || p.next.callers < len(p.servers) {
		return
	}
	select {
	case <-p.next.all:
	default:
		close(p.next.all)
	}
}

// searchOnce searches the processes that are not in the list since, and reaps.
func (p *processTable) searchOnce(since *procList) (map[string][]int, error) {
	list, err := p.list()
	if err != nil {
		return nil, err
	}
	s := newTagSearch(p, p.candidates(list, since))
	if err := s.run(); err != nil {
		return nil, err
	}
	for _, pid := range s.dead {
		reapAdopted(pid)
	}
	return s.found, nil
}

// candidates returns the processes of a list that a search reads.
func (p *processTable) candidates(list, since *procList) (procs []procRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, proc := range list.procs {
		if !p.servers[proc.pid()] && !p.stuck[proc] && !since.has(proc) {
			procs = append(procs, proc)
		}
	}
	return procs
}

// tagSearch reads the tags of some processes, one after the other.
//
// Reading an environment can hang: it takes the memory lock of the process, which that process
// may never give back. So each process is read in a goroutine, for at most readTimeout. Searches
// skip a process that hangs until its reading returns.
//
// Processes in the middle of exec show nothing. They are read again after all others, until
// a deadline that they share: many such processes take no longer than one.
type tagSearch struct {
	table *processTable                                       // remembers the stuck processes
	read  func(pid int, buf []byte) (string, envState, error) // is readTagOnce, except in tests
	stat  func(pid int, buf []byte) (procfs.Stat, error)      // is readStat, except in tests
	queue []candidate
	buf   []byte // for read and stat

	// Results.
	found map[string][]int // living processes, by tag
	dead  []int            // zombies with a tag
	hung  []procRef        // could not be read
}

// candidate is a process that a search is to read.
type candidate struct {
	procRef
	state envState // at the last reading
}

const (
	// maxExecWait is how long a search waits for processes in the middle of exec.
	maxExecWait = 250 * time.Millisecond
	// minExecPause and maxExecPause bound the time between two readings of them.
	minExecPause = 200 * time.Microsecond
	maxExecPause = 5 * time.Millisecond
	// readTimeout is how long the files of one process may take.
	readTimeout = maxExecWait + 100*time.Millisecond
)

func newTagSearch(p *processTable, procs []procRef) *tagSearch {
	s := &tagSearch{table: p, read: readTagOnce, stat: readStat, found: map[string][]int{}}
	for _, proc := range procs {
		s.queue = append(s.queue, candidate{procRef: proc})
	}
	return s
}

// readTag returns the tag of one process; empty if it has none, or one of another host, or
// is dead. It waits for a process that is in the middle of exec. The error says that this
// process has no descriptors, or that the reading hangs.
func readTag(pid int) (string, error) {
	return newTagSearch(new(processTable), []procRef{newProcRef(pid, 0)}).onlyTag()
}

// onlyTag runs a search for the tag of one process.
func (s *tagSearch) onlyTag() (string, error) {
	if err := s.run(); err != nil {
		return "", err
	}
	if len(s.hung) > 0 {
		return "", fmt.Errorf("its environment could not be read within %v", readTimeout)
	}
	for tag := range s.found {
		return tag, nil
	}
	return "", nil
}

// run reads all candidates, and reads those again that are probably in the middle of exec.
func (s *tagSearch) run() error {
	var deadline time.Time
	for pause := minExecPause; ; pause = min(2*pause, maxExecPause) {
		again, err := s.readQueue()
		if err != nil || len(again) == 0 {
			return err
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(maxExecWait)
		}
		if !now.Before(deadline) {
			return nil
		}
		s.queue = again
		time.Sleep(pause)
	}
}

// readQueue reads each candidate once. It returns those that are to be read again.
func (s *tagSearch) readQueue() (again []candidate, err error) {
	for _, c := range s.queue {
		r, ok := s.readInTime(c.procRef)
		switch {
		case !ok:
		case r.err != nil:
			return nil, r.err
		case r.state != envFinal && c.state != envArgsOnly:
			again = append(again, candidate{c.procRef, r.state})
		case r.tag == "" || !r.stat.Exists():
		case r.stat.Dead:
			s.dead = append(s.dead, c.pid())
		default:
			s.found[r.tag] = append(s.found[r.tag], c.pid())
		}
	}
	return again, nil
}

// reading is what a process has shown.
type reading struct {
	tag   string
	state envState
	stat  procfs.Stat // set if it has a tag
	err   error
}

// readInTime reads one process. It reports false if the reading hangs.
func (s *tagSearch) readInTime(proc procRef) (r reading, ok bool) {
	if s.buf == nil {
		s.buf = make([]byte, procBufferSize)
	}
	done, buf := make(chan reading, 1), s.buf
	go func() {
		var r reading
		if r.tag, r.state, r.err = s.read(proc.pid(), buf); r.tag != "" && r.err == nil {
			r.stat, r.err = s.stat(proc.pid(), buf)
		}
		done <- r
	}()
	select {
	case r = <-done:
		return r, true
	case <-time.After(readTimeout):
	}
	s.buf = nil // the reading still uses it
	s.hung = append(s.hung, proc)
	s.table.setStuck(proc, true)
	go func() {
		<-done
		s.table.setStuck(proc, false)
	}()
	return r, false
}

package process

import (
	"slices"
	"sync"
	"time"
)

// tableScan is one search of the process table.
//
// A worker goroutine reads one process after the other. Reading an environment can
// hang: it takes the memory lock of the process, which that process may hold for
// ever. run then starts another worker in the place of the one that hangs, and the
// process is skipped until the reading returns. limits, which are read first, cannot
// hang.
type tableScan struct {
	scanner *procScanner
	all     []candidate                                         // what the search reads
	read    func(pid int, buf []byte) (string, envState, error) // is readTagOnce, except in tests
	stat    func(pid int, buf []byte) (procStat, error)         // is readStat, except in tests

	mu       sync.Mutex // guards what follows; the current worker writes it
	queue    []candidate
	again    []candidate // probably in the middle of exec; read again after queue
	deadline time.Time   // for all of again together; zero while again is empty
	pause    time.Duration
	hidden   map[int]string // processes that show nothing; later searches do not wait for them
	worker   int            // number of the current worker; the others stop
	pid      int            // process that the current worker reads; 0 between two
	since    time.Time      // when the worker began to read pid
	found    map[string][]int
	dead     []int
	buf      []byte // of the current worker
	err      error
	done     chan struct{}
}

const (
	// readTimeout is how long the files of one process may take.
	readTimeout = maxExecWait + 100*time.Millisecond
	// maxExecPause bounds the time between two readings of a process in exec.
	maxExecPause = 5 * time.Millisecond
)

func newTableScan(s *procScanner, candidates []candidate) *tableScan {
	return &tableScan{scanner: s, all: candidates, read: readTagOnce, stat: readStat, since: time.Now(), pause: execPollInterval,
		queue: candidates, hidden: map[int]string{}, found: map[string][]int{}, done: make(chan struct{})}
}

// wasRead reports whether a process was among the candidates.
func (t *tableScan) wasRead(pid int) bool {
	return slices.ContainsFunc(t.all, func(c candidate) bool { return c.pid == pid })
}

// run reads all candidates and replaces a worker that hangs.
func (t *tableScan) run() error {
	if len(t.all) == 0 {
		return nil
	}
	go t.work(0)
	check := time.NewTicker(readTimeout / 4)
	defer check.Stop()
	for {
		select {
		case <-t.done:
			return t.err
		case <-check.C:
			t.mu.Lock()
			if time.Since(t.since) >= readTimeout && t.pid != 0 {
				t.scanner.setStuck(t.pid, true)
				t.worker++
				t.since = time.Now()
				go t.work(t.worker)
			}
			t.mu.Unlock()
		}
	}
}

// work is a worker goroutine. It ends after the last candidate, or when it has been
// replaced.
func (t *tableScan) work(worker int) {
	buf := make([]byte, procBufferSize)
	for {
		c, ok := t.nextCandidate(worker, buf)
		if !ok {
			return
		}
		tag, state, err := t.read(c.pid, buf)
		again := err == nil && !state.isFinal() && c.state != envArgsOnly
		var st procStat
		if (tag != "" || again) && err == nil {
			st, err = t.stat(c.pid, buf)
		}
		if again {
			if c.start == "" {
				c.start = st.start
			}
			c.state = state
			again = st.exists && st.start == c.start
		}
		if !t.record(worker, c, again, tag, st, err) {
			t.scanner.setStuck(c.pid, false)
			return
		}
	}
}

// nextCandidate returns what the worker reads next. It returns false if there is
// nothing left, or if the worker has been replaced.
func (t *tableScan) nextCandidate(worker int, buf []byte) (candidate, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.worker != worker {
		return candidate{}, false
	}
	t.buf, t.pid = buf, 0
	if len(t.queue) == 0 && len(t.again) > 0 && t.err == nil {
		t.requeueLocked()
	}
	if t.err == nil && len(t.queue) > 0 {
		c := t.queue[0]
		t.queue = t.queue[1:]
		t.pid, t.since = c.pid, time.Now()
		return c, true
	}
	for _, c := range t.again {
		if c.state == envHidden {
			t.hidden[c.pid] = c.start
		}
	}
	close(t.done)
	return candidate{}, false
}

// requeueLocked has the processes of again read once more, after a pause, until their
// deadline. They share it: many processes that never show anything take no longer than
// one. The lock is free during the pause; run starts no worker then, because t.pid is 0.
func (t *tableScan) requeueLocked() {
	now := time.Now()
	if t.deadline.IsZero() {
		t.deadline = now.Add(maxExecWait)
	}
	if !now.Before(t.deadline) {
		return
	}
	pause := t.pause
	t.pause = min(2*pause, maxExecPause)
	t.mu.Unlock()
	time.Sleep(pause)
	t.mu.Lock()
	t.queue, t.again = t.again, nil
}

// record files the result of one reading. again says that the process is to be read
// again. record returns false if the worker has been replaced.
func (t *tableScan) record(worker int, c candidate, again bool, tag string, st procStat, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.worker != worker {
		return false
	}
	switch {
	case err != nil:
		t.err = err
	case again && t.scanner.isHidden(c):
		t.hidden[c.pid] = c.start
	case again:
		t.again = append(t.again, c)
	case tag == "" || !st.exists:
	case st.dead:
		t.dead = append(t.dead, c.pid)
	default:
		t.found[tag] = append(t.found[tag], c.pid)
	}
	return true
}

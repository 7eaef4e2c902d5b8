package process

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// parentThreads starts children from locked OS threads, each of which lives as long
// as any of its children.
//
// PR_SET_PDEATHSIG requires such threads. The signal is sent when "the parent" dies, and
// "the 'parent' in this case is considered to be the thread that created this
// process" (PR_SET_PDEATHSIG(2const)). A child started from an ordinary thread of
// the Go runtime would be killed whenever the runtime ends that thread.
//
// One thread serves all servers. If it hangs in starting one, the next start gets
// another thread.
var parentThreads = newThreadPool()

// hungAfter is how long a start waits while no thread takes anything from the queue,
// before the pool adds a thread.
const hungAfter = 250 * time.Millisecond

// threadPool is a pool of parentThreads.
type threadPool struct {
	mu       sync.Mutex // guards the fields below, and those of each parentThread
	changed  sync.Cond  // signals a change of any of them
	queue    []*startJob
	threads  int
	live     []*parentThread // the threads; one may end when it has no children
	kept     int             // calls of keep; while there are any, one thread stays
	lastTake time.Time       // when a thread last took a job
}

// startJob is a child to start. The thread that takes the job sets thread and err
// before it closes done.
type startJob struct {
	start  func() error
	thread *parentThread
	err    error
	done   chan struct{}
}

// parentThread is a goroutine that is locked to its OS thread.
type parentThread struct {
	children int  // children that were started and not released
	busy     bool // runs a job
	ended    bool // takes no more jobs
	done     chan struct{}
}

func newThreadPool() *threadPool {
	p := &threadPool{}
	p.changed.L = &p.mu
	return p
}

// run calls start on a parent thread. If start succeeds it has started a child, and
// release must be called with the thread after the child has been reaped.
func (p *threadPool) run(start func() error) (*parentThread, error) {
	j := &startJob{start: start, done: make(chan struct{})}
	p.mu.Lock()
	p.queue = append(p.queue, j)
	if p.threads == 0 {
		p.addThreadLocked()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	check := time.NewTicker(hungAfter)
	defer check.Stop()
	for {
		select {
		case <-j.done:
			if j.err != nil {
				p.awaitEnd(j.thread)
				return nil, j.err
			}
			return j.thread, nil
		case <-check.C:
			p.mu.Lock()
			if len(p.queue) > 0 && time.Since(p.lastTake) >= hungAfter {
				p.addThreadLocked()
			}
			p.mu.Unlock()
		}
	}
}

// release is called for a child that has been reaped. After the last child of a thread it
// returns when the thread has ended.
func (p *threadPool) release(t *parentThread) {
	p.mu.Lock()
	t.children--
	p.changed.Broadcast()
	p.mu.Unlock()
	p.awaitEnd(t)
}

// awaitEnd waits for the end of a thread, unless it has children or a job.
func (p *threadPool) awaitEnd(t *parentThread) {
	p.mu.Lock()
	for t.children == 0 && !t.busy && !t.ended && p.mayEndLocked() {
		p.changed.Wait()
	}
	ended := t.ended
	p.mu.Unlock()
	if ended {
		<-t.done
	}
}

// mayEndLocked reports whether a thread without children ends.
func (p *threadPool) mayEndLocked() bool { return p.kept == 0 || p.threads > 1 }

// keep makes one thread outlive its children until unkeep is called.
func (p *threadPool) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept++
}

// unkeep ends one keep. After the last one it returns when the threads without children have
// ended.
func (p *threadPool) unkeep() {
	p.mu.Lock()
	p.kept--
	p.changed.Broadcast()
	live := slices.Clone(p.live)
	p.mu.Unlock()
	for _, t := range live {
		p.awaitEnd(t)
	}
}

func (p *threadPool) addThreadLocked() {
	p.threads++
	p.lastTake = time.Now()
	t := &parentThread{done: make(chan struct{})}
	p.live = append(p.live, t)
	go p.serve(t)
}

// serve runs jobs until the thread has no children and the queue is empty.
func (p *threadPool) serve(t *parentThread) {
	defer close(t.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.queue) == 0 {
			if t.children == 0 && p.mayEndLocked() {
				t.ended = true
				p.threads--
				p.live = slices.DeleteFunc(p.live, func(other *parentThread) bool { return other == t })
				p.changed.Broadcast()
				return
			}
			p.changed.Wait()
		}
		j := p.queue[0]
		p.queue[0] = nil // or the array keeps the environment of the child
		p.queue, p.lastTake, t.busy = p.queue[1:], time.Now(), true
		p.mu.Unlock()
		err := j.start()
		p.mu.Lock()
		if err == nil {
			t.children++
		}
		t.busy = false
		j.thread, j.err = t, err
		close(j.done)
		p.changed.Broadcast()
	}
}

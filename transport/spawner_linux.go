package transport

import (
	"runtime"
	"sync"
	"time"
)

// spawner starts children from locked threads, each of which lives as long as
// any of its children. PR_SET_PDEATHSIG speaks of the parent's thread, not its
// process: a child started from a thread of the pool would be killed whenever
// the runtime lets that thread go.
//
// One thread does for all, save for when it does not come back from starting
// something: then the next start gets another one.
var spawner = newSpawnPool()

// stuckAfter is how long a start waits for a thread, while none takes anything,
// before it gets one more.
const stuckAfter = 250 * time.Millisecond

type spawnPool struct {
	mu      sync.Mutex
	changed sync.Cond // of what mu guards
	queue   []*spawnJob
	threads int
	taken   time.Time // when a thread last took a job
}

// spawnJob is a child to be started. The thread that takes it sets thread and
// err, and then closes done.
type spawnJob struct {
	begin  func() error
	thread *parentThread
	err    error
	done   chan struct{}
}

// parentThread is a locked thread; the lock of its pool guards the fields.
type parentThread struct {
	live int  // its children
	busy bool // with a job
	gone bool
	done chan struct{}
}

func newSpawnPool() *spawnPool {
	p := &spawnPool{}
	p.changed.L = &p.mu
	return p
}

// run has begin called on a locked thread. If that started a child, end must be
// called with the thread, once the child is reaped.
func (p *spawnPool) run(begin func() error) (*parentThread, error) {
	j := &spawnJob{begin: begin, done: make(chan struct{})}
	p.mu.Lock()
	p.queue = append(p.queue, j)
	if p.threads == 0 {
		p.addThreadLocked()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	patience := time.NewTicker(stuckAfter)
	defer patience.Stop()
	for {
		select {
		case <-j.done:
			if j.err != nil {
				p.awaitIdle(j.thread)
				return nil, j.err
			}
			return j.thread, nil
		case <-patience.C:
			p.mu.Lock()
			if len(p.queue) > 0 && time.Since(p.taken) >= stuckAfter {
				p.addThreadLocked()
			}
			p.mu.Unlock()
		}
	}
}

// end counts one child out. It returns when the thread is gone, if that was its
// last one.
func (p *spawnPool) end(t *parentThread) {
	p.mu.Lock()
	t.live--
	p.changed.Broadcast()
	p.mu.Unlock()
	p.awaitIdle(t)
}

// awaitIdle waits for the end of a thread that has nothing more to do.
func (p *spawnPool) awaitIdle(t *parentThread) {
	p.mu.Lock()
	for t.live == 0 && !t.busy && !t.gone {
		p.changed.Wait()
	}
	gone := t.gone
	p.mu.Unlock()
	if gone {
		<-t.done
	}
}

func (p *spawnPool) addThreadLocked() {
	p.threads++
	p.taken = time.Now()
	go p.serve(&parentThread{done: make(chan struct{})})
}

// serve starts what is queued until the thread has no child left, and there is
// nothing to start.
func (p *spawnPool) serve(t *parentThread) {
	defer close(t.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.queue) == 0 {
			if t.live == 0 {
				t.gone = true
				p.threads--
				p.changed.Broadcast()
				return
			}
			p.changed.Wait()
		}
		j := p.queue[0]
		p.queue, p.taken, t.busy = p.queue[1:], time.Now(), true
		p.mu.Unlock()
		err := j.begin()
		p.mu.Lock()
		if err == nil {
			t.live++
		}
		t.busy = false
		j.thread, j.err = t, err
		close(j.done)
		p.changed.Broadcast()
	}
}

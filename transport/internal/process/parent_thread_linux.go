package process

import (
	"runtime"
	"sync"
)

// parent is the OS thread that starts all children. It is locked to a goroutine, and lives as
// long as any of them.
//
// PR_SET_PDEATHSIG requires that. The signal is sent when "the parent" dies, and "the 'parent'
// in this case is considered to be the thread that created this process"
// (PR_SET_PDEATHSIG(2const)). A child started from an ordinary thread of the Go runtime would
// be killed whenever the runtime ends that thread.
//
// A start that hangs in the file system hangs in openBeforeExec, before it gets the thread. So it
// delays no other one.
var parent parentThread

// parentThread is a goroutine that is locked to its OS thread, while it has users. Safe for
// concurrent use.
type parentThread struct {
	mu    sync.Mutex    // guards the fields below
	users int           // starts, children that are not released, and calls of keep
	jobs  chan func()   // what the thread is to run; nil without users
	ended chan struct{} // closed when the thread has ended
}

// run calls start on the thread. If start succeeds it has started a child, and release must be
// called after the child has been reaped.
func (p *parentThread) run(start func() error) error {
	done := make(chan error, 1)
	p.keep() <- func() { done <- start() }
	err := <-done
	if err != nil {
		p.release()
	}
	return err
}

// keep makes the thread run until release is called.
func (p *parentThread) keep() (jobs chan<- func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users++; p.users == 1 {
		p.jobs, p.ended = make(chan func()), make(chan struct{})
		go runJobs(p.jobs, p.ended)
	}
	return p.jobs
}

// release ends one keep or run. After the last one it returns when the thread has ended.
func (p *parentThread) release() {
	p.mu.Lock()
	p.users--
	last, ended := p.users == 0, p.ended
	if last {
		close(p.jobs)
		p.jobs = nil
	}
	p.mu.Unlock()
	if last {
		<-ended
	}
}

func runJobs(jobs <-chan func(), ended chan<- struct{}) {
	defer close(ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for job := range jobs {
		job()
	}
}

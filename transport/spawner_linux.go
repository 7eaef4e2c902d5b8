package transport

import (
	"os/exec"
	"runtime"
	"sync"
)

// spawner starts children from one locked thread that lives as long as any of
// them. PR_SET_PDEATHSIG speaks of the parent's thread, not its process: a
// child started from a thread of the pool would be killed whenever the
// runtime lets that thread go. The thread keeps the watchdog, too.
var spawner parentThread

type parentThread struct {
	mu   sync.Mutex
	live int
	jobs chan func(*watchdog)
	done chan struct{} // the thread has let everything go
}

func (p *parentThread) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	if p.live++; p.jobs == nil {
		p.jobs = make(chan func(*watchdog), 16)
		p.done = make(chan struct{})
		go p.run(p.jobs, p.done)
	}
	jobs := p.jobs
	p.mu.Unlock()
	result := make(chan error, 1)
	jobs <- func(dog *watchdog) {
		err := cmd.Start()
		result <- err
		if err == nil {
			dog.watch(cmd.Process.Pid)
		}
	}
	err := <-result
	if err != nil {
		p.end(0)
	}
	return err
}

// end counts one child out; pgid is its group, 0 if it never started. The last
// one lets the thread go, and waits until nothing is left of it.
func (p *parentThread) end(pgid int) {
	p.mu.Lock()
	if pgid != 0 {
		p.jobs <- func(dog *watchdog) { dog.forget(pgid) }
	}
	p.live--
	last, done := p.live == 0, p.done
	if last {
		close(p.jobs)
		p.jobs = nil
	}
	p.mu.Unlock()
	if last {
		<-done
	}
}

func (p *parentThread) run(jobs <-chan func(*watchdog), done chan<- struct{}) {
	defer close(done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var dog watchdog
	for job := range jobs {
		job(&dog)
	}
	dog.dismiss()
}

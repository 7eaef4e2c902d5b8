package poll

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Poller watches files in one goroutine. The goroutine and its epoll descriptor exist while
// there is something to watch. The zero Poller is ready. Safe for concurrent use.
type Poller struct {
	mu   sync.Mutex // guards the fields below, and set.watches
	set  *set       // nil while there is nothing to watch, unless kept
	last int32      // the last key that was given out
	keep int        // the calls of Keep less those of Unkeep
}

// set is one epoll descriptor, and what it watches.
type set struct {
	epoll   *os.File
	raw     syscall.RawConn // of epoll
	fd      int             // of epoll
	watches map[int32]*Watch
	events  [64]unix.EpollEvent // owned by the goroutine that waits
}

// Watch is one file that a [Poller] watches. Safe for concurrent use.
type Watch struct {
	// Constant.
	poller *Poller
	set    *set
	key    int32
	raw    syscall.RawConn
	ready  func()

	mu      sync.Mutex // guards the fields below
	added   bool       // the set has the file
	removed bool       // Remove was called

	// Of the current change of the set. apply is constant; a function value for each
	// change would allocate.
	apply     func(fd uintptr)
	operation int
	event     unix.EpollEvent
	err       error
}

// Watch prepares to watch a file. After each Arm
// ready is called once, when the file is readable or has ended. It may also be called
// without Arm when the file has ended. The goroutine that watches all files calls ready, so
// ready must neither block nor panic.
//
// Watch returns nil if the system does not allow that.
func (p *Poller) Watch(file *os.File, ready func()) *Watch {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		if p.set = newSet(); p.set == nil {
			return nil
		}
		go p.watchAll(p.set)
	}
	p.last++
	w := &Watch{poller: p, set: p.set, key: p.last, raw: raw, ready: ready}
	w.apply = w.applyTo
	p.set.watches[w.key] = w
	return w
}

// Arm schedules one call of ready, which comes soon if the file is readable already. It reports false after
// Remove, or if the system refuses.
func (w *Watch) Arm() (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.added {
		w.added = w.changeLocked(unix.EPOLL_CTL_ADD, unix.EPOLLIN|unix.EPOLLONESHOT)
		return w.added
	}
	return w.changeLocked(unix.EPOLL_CTL_MOD, unix.EPOLLIN|unix.EPOLLONESHOT)
}

// Disarm cancels the last Arm. A call of ready that has begun continues.
func (w *Watch) Disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.added {
		w.changeLocked(unix.EPOLL_CTL_MOD, unix.EPOLLONESHOT)
	}
}

// Remove ends the watch. It must be called before the file is closed. A call of ready that
// has begun continues. Further calls do nothing.
func (w *Watch) Remove() {
	w.mu.Lock()
	if w.added {
		w.changeLocked(unix.EPOLL_CTL_DEL, 0)
	}
	first := !w.removed
	w.removed = true
	w.mu.Unlock()
	if first {
		w.poller.forget(w)
	}
}

// changeLocked changes the set. The epoll descriptor is open until the watch is forgotten.
func (w *Watch) changeLocked(operation int, events uint32) (ok bool) {
	if w.removed {
		return false
	}
	w.operation, w.event = operation, unix.EpollEvent{Events: events, Fd: w.key}
	return w.raw.Control(w.apply) == nil && w.err == nil
}

func (w *Watch) applyTo(fd uintptr) {
	w.err = unix.EpollCtl(w.set.fd, w.operation, int(fd), &w.event)
}

// isRemoved reports whether Remove was called. Taking w.mu makes the owner's writes before Arm
// visible to ready.
func (w *Watch) isRemoved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed
}

// forget removes a watch from its set. The goroutine of a set that watches nothing ends.
func (p *Poller) forget(w *Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(w.set.watches, w.key)
	p.closeUnusedLocked()
}

// Keep keeps the goroutine running when there is nothing to watch, until Unkeep. Otherwise the
// next Watch has to start it.
func (p *Poller) Keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep++
}

// Unkeep takes one Keep back.
func (p *Poller) Unkeep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep--
	p.closeUnusedLocked()
}

// closeUnusedLocked ends the goroutine if there is nothing to watch.
func (p *Poller) closeUnusedLocked() {
	if s := p.set; s != nil && len(s.watches) == 0 && p.keep == 0 {
		p.set = nil
		_ = s.epoll.Close()
	}
}

// watchAll calls the functions of a set until it is closed.
func (p *Poller) watchAll(s *set) {
	for {
		n, failed := 0, error(nil)
		closed := s.raw.Read(func(fd uintptr) (done bool) { // the runtime's poller waits, without a thread
			for {
				if n, failed = unix.EpollWait(int(fd), s.events[:], 0); failed != unix.EINTR {
					return n != 0
				}
			}
		})
		if closed != nil || failed != nil {
			return
		}
		for _, event := range s.events[:n] {
			p.mu.Lock()
			w := s.watches[event.Fd]
			p.mu.Unlock()
			if w != nil && !w.isRemoved() {
				w.ready()
			}
		}
	}
}

// newSet returns an empty set; nil if the system has no descriptor for it.
func newSet() *set {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	if unix.SetNonblock(fd, true) != nil { // so that the runtime's poller takes it
		_ = unix.Close(fd)
		return nil
	}
	s := &set{epoll: os.NewFile(uintptr(fd), "epoll"), fd: fd, watches: make(map[int32]*Watch)}
	if s.raw, err = s.epoll.SyscallConn(); err != nil || s.epoll.SetReadDeadline(time.Time{}) != nil { // the runtime's poller has not taken it
		_ = s.epoll.Close()
		return nil
	}
	return s
}

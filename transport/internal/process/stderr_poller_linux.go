package process

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
)

// stderrPolls reads the stderr of all servers of this process.
var stderrPolls stderrPoller

// stderrPoller reads many stderrs in one goroutine: most servers write to stderr rarely, and
// a goroutine for each costs more than all else that an idle server needs. It reads a bounded
// piece of each in turn, so that a server that floods its stderr delays no other one for
// long. The goroutine and its epoll descriptor exist while there is something to read from.
type stderrPoller struct {
	mu   sync.Mutex // guards the fields below, and set.readers
	set  *stderrSet // nil while it is empty
	last int32      // the last key that was given out
}

// stderrSet is one epoll descriptor, and what it watches.
type stderrSet struct {
	epoll   *os.File
	raw     syscall.RawConn // of epoll
	readers map[int32]*polledStderr
	events  [64]unix.EpollEvent // owned by the goroutine that reads
}

// polledStderr is the stderr of one server.
type polledStderr struct {
	set  *stderrSet
	key  int32
	raw  syscall.RawConn
	tail *StderrTail
	done chan struct{} // closed when it is taken out of the set
}

// add begins to read a stderr. It returns nil if the system does not allow that. done is
// closed when all was read, or by remove.
func (p *stderrPoller) add(stderr *os.File, tail *StderrTail, done chan struct{}) *polledStderr {
	raw, err := stderr.SyscallConn()
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		if p.set = newStderrSet(); p.set == nil {
			return nil
		}
		go p.readAll(p.set)
	}
	p.last++
	r := &polledStderr{set: p.set, key: p.last, raw: raw, tail: tail, done: done}
	if !r.control(unix.EPOLL_CTL_ADD) {
		p.closeIfEmptyLocked(r.set)
		return nil
	}
	p.set.readers[r.key] = r
	return r
}

// remove ends the reading of a stderr, unless it has ended.
func (p *stderrPoller) remove(r *polledStderr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.set.readers[r.key] != r {
		return
	}
	_ = r.control(unix.EPOLL_CTL_DEL)
	delete(r.set.readers, r.key)
	close(r.done)
	p.closeIfEmptyLocked(r.set)
}

// closeIfEmptyLocked ends the goroutine of a set that watches nothing.
func (p *stderrPoller) closeIfEmptyLocked(set *stderrSet) {
	if len(set.readers) == 0 && p.set == set {
		p.set = nil
		_ = set.epoll.Close()
	}
}

// readAll reads from a set until it is closed.
func (p *stderrPoller) readAll(set *stderrSet) {
	for {
		n, failed := 0, error(nil)
		closed := set.raw.Read(func(fd uintptr) (done bool) { // the runtime's poller waits, without a thread
			for {
				if n, failed = unix.EpollWait(int(fd), set.events[:], 0); failed != unix.EINTR {
					return n != 0
				}
			}
		})
		if closed != nil || failed != nil {
			return
		}
		buffer := pipe.GetBuffer(stderrBuffer)
		for _, event := range set.events[:n] {
			p.mu.Lock()
			r := set.readers[event.Fd]
			p.mu.Unlock()
			if r != nil && r.readPiece(buffer.Bytes) {
				p.remove(r)
			}
		}
		buffer.Put()
	}
}

// readPiece reads once. It reports whether the stream has ended.
func (r *polledStderr) readPiece(buffer []byte) (ended bool) {
	var n int
	var failed error
	closed := r.raw.Read(func(fd uintptr) bool {
		n, failed = unix.Read(int(fd), buffer)
		return true
	})
	if n > 0 {
		_, _ = r.tail.Write(buffer[:n])
	}
	return closed != nil || n == 0 || failed != nil && failed != unix.EAGAIN && failed != unix.EINTR
}

// control adds the stderr to the set or takes it out.
func (r *polledStderr) control(operation int) (ok bool) {
	_ = r.set.raw.Control(func(epoll uintptr) {
		_ = r.raw.Control(func(fd uintptr) {
			ok = unix.EpollCtl(int(epoll), operation, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: r.key}) == nil
		})
	})
	return ok
}

// newStderrSet returns an empty set; nil if the system has no descriptor for it.
func newStderrSet() *stderrSet {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	if unix.SetNonblock(fd, true) != nil { // so that the runtime's poller takes it
		_ = unix.Close(fd)
		return nil
	}
	set := &stderrSet{epoll: os.NewFile(uintptr(fd), "epoll"), readers: make(map[int32]*polledStderr)}
	if set.raw, err = set.epoll.SyscallConn(); err != nil {
		_ = set.epoll.Close()
		return nil
	}
	return set
}

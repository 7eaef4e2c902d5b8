package process

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptors holds the files that ending a server needs. So a server can be ended even
// when this process has reached its limit of open files (RLIMIT_NOFILE).
var descriptors descriptorReserve

// spareDescriptors is how many spare descriptors are held. Ending one process takes
// two: its pidfd, and a file in /proc. The others replace those that another goroutine
// takes between the closing of a spare one and the opening of the file.
const spareDescriptors = 12

// descriptorReserve holds the open directory /proc and spare descriptors while there
// are servers.
type descriptorReserve struct {
	mu     sync.Mutex // guards what follows
	users  int        // servers that may still have processes
	proc   *os.File
	spares []int

	listing sync.Mutex // held while proc is read, and while it is closed; guards buf
	buf     []byte     // for reading proc; nil before the first reading, and while there are no servers
}

// addUser counts a server in and fills the reserve as far as possible.
func (r *descriptorReserve) addUser() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
	if r.proc == nil {
		r.proc, _ = os.Open("/proc")
	}
	for len(r.spares) < spareDescriptors {
		if !r.addSpareLocked() {
			return
		}
	}
}

func (r *descriptorReserve) addSpareLocked() bool {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	r.spares = append(r.spares, fd)
	return true
}

// removeUser counts a server out. After the last one it closes the reserve.
func (r *descriptorReserve) removeUser() {
	r.mu.Lock()
	var proc *os.File
	if r.users--; r.users == 0 {
		proc, r.proc = r.proc, nil
		r.closeSparesLocked()
	}
	r.mu.Unlock()
	if proc == nil {
		return
	}
	// A search that was given up may still be reading the directory.
	r.listing.Lock()
	defer r.listing.Unlock()
	_ = proc.Close()
	r.buf = nil
}

func (r *descriptorReserve) closeSparesLocked() {
	for _, fd := range r.spares {
		_ = unix.Close(fd)
	}
	r.spares = nil
}

// descriptor is an open file descriptor.
type descriptor struct {
	fd    int
	spare bool // opened in the place of a spare descriptor
}

// open calls open. If that fails for lack of descriptors, it closes a spare one and
// tries again.
func (r *descriptorReserve) open(open func() (int, error)) (descriptor, error) {
	fd, err := open()
	if !isOutOfDescriptors(err) {
		return descriptor{fd: fd}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for isOutOfDescriptors(err) && len(r.spares) > 0 {
		last := len(r.spares) - 1
		_ = unix.Close(r.spares[last])
		r.spares = r.spares[:last]
		if fd, err = open(); err != nil && !isOutOfDescriptors(err) {
			r.addSpareLocked() // replaces the one that was closed
		}
	}
	return descriptor{fd: fd, spare: true}, err
}

// close ends the use of a descriptor. One that took the place of a spare one becomes a
// spare one, whatever it refers to: if it were closed, another goroutine would take it.
func (r *descriptorReserve) close(d descriptor) {
	if d.spare {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.users > 0 {
			r.spares = append(r.spares, d.fd)
			return
		}
	}
	_ = unix.Close(d.fd)
}

// list lists the processes.
func (r *descriptorReserve) list() (*procList, error) {
	r.listing.Lock()
	defer r.listing.Unlock()
	r.mu.Lock()
	dir := r.proc
	r.mu.Unlock()
	if dir != nil {
		if r.buf == nil {
			r.buf = make([]byte, procListBuffer)
		}
		return readProcList(int(dir.Fd()), r.buf)
	}
	d, err := r.open(func() (int, error) {
		return unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	defer r.close(d)
	return readProcList(d.fd, make([]byte, procListBuffer))
}

// isOutOfDescriptors reports whether an error says that this process (EMFILE) or the
// system (ENFILE) has no free descriptor (open(2)).
func isOutOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

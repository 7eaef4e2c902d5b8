package transport

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptors keeps what the end of a server needs, so that it can be carried out
// when the host has no descriptor left: the directory /proc, and spare ones.
var descriptors descriptorReserve

// spareDescriptors is how many are kept. Two are in use for one process that is
// ended: one that holds its number, and one of a file in /proc. The others are for
// those that another goroutine snatches, in the moment between the closing of a spare
// one and the opening of what is wanted.
const spareDescriptors = 12

type descriptorReserve struct {
	mu     sync.Mutex
	users  int // servers of which something may be left
	proc   *os.File
	spares []int

	listing sync.Mutex // while the directory is read
}

// begin keeps descriptors for one server more. What cannot be had is done without.
func (r *descriptorReserve) begin() {
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

// end gives them back after the last server.
func (r *descriptorReserve) end() {
	r.mu.Lock()
	var proc *os.File
	if r.users--; r.users == 0 {
		proc, r.proc = r.proc, nil
		r.drainLocked()
	}
	r.mu.Unlock()
	if proc == nil {
		return
	}
	// A search that was given up may still be reading it.
	r.listing.Lock()
	defer r.listing.Unlock()
	_ = proc.Close()
}

func (r *descriptorReserve) drainLocked() {
	for _, fd := range r.spares {
		_ = unix.Close(fd)
	}
	r.spares = nil
}

// descriptor is one that was opened for a moment.
type descriptor struct {
	fd    int
	spare bool // opened in the place of a spare one
}

// open opens something, in the place of a spare descriptor if no other is left.
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
			r.addSpareLocked() // in the place of the one that was closed
		}
	}
	return descriptor{fd: fd, spare: true}, err
}

// close ends the use of a descriptor. One in the place of a spare one becomes a spare
// one, whatever it refers to: closed, it would go to another goroutine.
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

// processes lists the numbers in the process table.
func (r *descriptorReserve) processes() ([]string, error) {
	r.listing.Lock()
	defer r.listing.Unlock()
	r.mu.Lock()
	dir := r.proc
	r.mu.Unlock()
	if dir != nil {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		return dir.Readdirnames(-1)
	}
	d, err := r.open(func() (int, error) {
		return unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	own := os.NewFile(uintptr(d.fd), "/proc")
	defer own.Close()
	return own.Readdirnames(-1)
}

func isOutOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

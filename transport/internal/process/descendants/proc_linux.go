package descendants

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

const (
	// procBufferSize is room for any file about a process, except for a large environment.
	procBufferSize = 16 << 10
	// statBufferSize is room for /proc/PID/stat.
	statBufferSize = 2 << 10
	// procListBuffer is the size of one read of the directory /proc: room for a hundred
	// processes.
	procListBuffer = 4 << 10
	// pageSize is the least that one read of a file below /proc returns, unless the read
	// reaches the end of the file.
	pageSize = 4096
)

// readProcFile reads a file below /proc, given by its path, or as much of it as buf holds. It returns nil for
// a file that may not be read. The only error is a lack of descriptors.
func readProcFile(path string, buf []byte) ([]byte, error) {
	file, err := descriptors.open(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		if isOutOfDescriptors(err) {
			return nil, err
		}
		return nil, nil
	}
	defer descriptors.close(file)
	size := 0
	for size < len(buf) {
		n, err := unix.Read(file.fd, buf[size:])
		if n <= 0 || err != nil {
			break
		}
		size += n
		if n < pageSize { // the next read would return nothing
			break
		}
	}
	return buf[:size], nil
}

// readStat reads the stat of a process. The only error is a lack of descriptors.
func readStat(pid int, buf []byte) (procfs.Stat, error) {
	text, err := readProcFile(procfs.Path(pid, "stat"), buf)
	return procfs.ParseStat(text), err
}

// childrenOf lists the children of all threads of a process. It
// returns none on kernels that do not tell.
func childrenOf(pid int, buf []byte) []int {
	children, _ := procfs.Children(pid, func(path string) ([]byte, error) { return readProcFile(path, buf) })
	return children
}

// IsAlone reports whether a process has no child. It reports false on kernels that do not tell
// (CONFIG_PROC_CHILDREN).
func IsAlone(pid int) bool {
	children, known := procfs.Children(pid, os.ReadFile)
	return known && len(children) == 0
}

// procList holds the processes that existed at one moment. It is immutable.
//
// A process that existed before a server was started is no descendant of that server. So a
// search reads only the processes that are not in the list of the server's start. These are
// usually few.
type procList struct {
	taken time.Time // every process of the list existed at this time or after it
	procs []procRef // sorted
}

// procRef identifies a process among all that this host process ever sees. The upper half
// is the id. Because an id can be given to another process, the lower half is the inode
// number of the process's directory in /proc, which Linux takes from one counter
// (get_next_ino, fs/inode.c). When the kernel is short of memory, it may give the directory
// of the same process another inode. The process then counts as a new one: it is read once
// more than necessary.
type procRef uint64

func newProcRef(pid int, inode uint64) procRef {
	return procRef(uint64(pid)<<32 | uint64(uint32(inode))) // the counter of the kernel has 32 bits
}

func (r procRef) pid() int { return int(r >> 32) }

// has reports whether the list holds a process. A nil list holds none.
func (l *procList) has(r procRef) bool {
	if l == nil {
		return false
	}
	_, found := slices.BinarySearch(l.procs, r)
	return found
}

// earlier returns the list that was taken first. A nil list holds nothing, and so is
// earlier than any.
func (l *procList) earlier(other *procList) *procList {
	switch {
	case l == nil || other == nil:
		return nil
	case other.taken.Before(l.taken):
		return other
	default:
		return l
	}
}

// listProcesses reads the directory /proc (getdents64(2)).
func (r *descriptorReserve) listProcesses() (*procList, error) {
	dir, err := r.open(openProc)
	if err != nil {
		return nil, err
	}
	defer r.close(dir)
	list, buf := &procList{taken: time.Now()}, make([]byte, procListBuffer)
	for {
		n, err := unix.ReadDirent(dir.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case n <= 0:
			if !slices.IsSorted(list.procs) { // the kernel lists them in the order of their ids
				slices.Sort(list.procs)
			}
			return list, nil
		}
		list.procs = appendProcRefs(list.procs, buf[:n])
	}
}

// appendProcRefs appends the processes among directory entries. An entry is a struct
// linux_dirent64: inode, offset, length, type, and a name that a zero byte ends.
func appendProcRefs(procs []procRef, entries []byte) []procRef {
	const length = int(unsafe.Offsetof(unix.Dirent{}.Reclen))
	const name = int(unsafe.Offsetof(unix.Dirent{}.Name))
	for len(entries) > name {
		size := int(binary.NativeEndian.Uint16(entries[length:]))
		if size <= name || size > len(entries) {
			break
		}
		pid, digits := 0, 0
		for _, c := range entries[name:size] {
			if c < '0' || c > '9' {
				if c != 0 {
					digits = 0 // the name is no process id
				}
				break
			}
			pid = 10*pid + int(c-'0')
			digits++
		}
		if digits > 0 {
			procs = append(procs, newProcRef(pid, binary.NativeEndian.Uint64(entries)))
		}
		entries = entries[size:]
	}
	return procs
}

// descriptors holds the files that ending a server needs. So a server can be ended even
// when this process has reached its limit of open files (RLIMIT_NOFILE).
var descriptors descriptorReserve

// spareDescriptors is how many spare descriptors are held. Ending one process takes two:
// its pidfd, and a file in /proc. The others replace those that another goroutine takes
// between the closing of a spare one and the opening of the file.
const spareDescriptors = 12

// descriptorReserve holds spare descriptors while there are servers.
type descriptorReserve struct {
	mu     sync.Mutex // guards the fields below
	users  int        // servers that are not reaped, and calls of Keep
	spares []int
}

// addUser adds a user and fills the reserve as far as possible.
func (r *descriptorReserve) addUser() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
	for len(r.spares) < spareDescriptors && r.addSpareLocked() {
	}
}

func (r *descriptorReserve) addSpareLocked() bool {
	fd, err := openProc()
	if err != nil {
		return false
	}
	r.spares = append(r.spares, fd)
	return true
}

func openProc() (fd int, err error) {
	return unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// removeUser removes a user. After the last one it closes the reserve.
func (r *descriptorReserve) removeUser() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
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

// open calls open. If that fails for lack of descriptors, it closes a spare one and tries
// again.
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

// isOutOfDescriptors reports whether an error says that this process (EMFILE) or the
// system (ENFILE) has no free descriptor (open(2)).
func isOutOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

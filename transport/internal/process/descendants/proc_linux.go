package descendants

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procPath returns the path of a file about a process, below /proc.
func procPath(pid int, file string) string { return strconv.Itoa(pid) + "/" + file }

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

// readProcFile reads a file below /proc, or as much of it as buf holds. It returns nil for
// a file that may not be read. The only error is a lack of descriptors.
func readProcFile(path string, buf []byte) ([]byte, error) {
	file, err := descriptors.open(func() (int, error) {
		return unix.Open("/proc/"+path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

// procStat is the part of /proc/PID/stat that is used here.
type procStat struct {
	exists bool
	name   string // of the program, at most 15 bytes
	dead   bool   // a zombie without threads: only its id is left
	parent int
	group  int
	start  string // start time in clock ticks since boot; identifies the process together with its id
	// exiting: the first thread is in exit. The streams of the process are closed after
	// that, and its status can be collected later still.
	exiting bool
}

// readStat reads /proc/PID/stat (proc_pid_stat(5)).
func readStat(pid int, buf []byte) (st procStat, err error) {
	text, err := readProcFile(procPath(pid, "stat"), buf)
	// The name is in parentheses and may contain any character.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if err != nil || open < 0 || end < open {
		return st, err
	}
	fields := bytes.Fields(text[end+1:])
	const state, ppid, pgrp, flags, threads, startTime = 0, 1, 2, 6, 17, 19
	if len(fields) <= startTime {
		return st, nil
	}
	st.name, st.exists = string(text[open+1:end]), true
	st.parent, _ = strconv.Atoi(string(fields[ppid]))
	st.group, _ = strconv.Atoi(string(fields[pgrp]))
	st.start = string(fields[startTime])
	const pfExiting = 0x4 // PF_EXITING, include/linux/sched.h
	bits, _ := strconv.ParseUint(string(fields[flags]), 10, 64)
	st.exiting = bits&pfExiting != 0
	// The first thread may be a zombie while other threads still run.
	st.dead = (fields[state][0] == 'Z' || fields[state][0] == 'X') && string(fields[threads]) <= "1"
	return st, nil
}

// childrenOf lists the children of all threads of a process (proc_tid_children(5)). It
// returns none on kernels without that file (CONFIG_PROC_CHILDREN).
func childrenOf(pid int, buf []byte) (children []int) {
	threads, _ := os.ReadDir("/proc/" + procPath(pid, "task"))
	for _, thread := range threads {
		text, _ := readProcFile(procPath(pid, "task/"+thread.Name()+"/children"), buf)
		for _, field := range bytes.Fields(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// IsAlone reports whether a process has no child. It reports false on kernels that do not tell
// (CONFIG_PROC_CHILDREN).
func IsAlone(pid int) bool {
	_, err := os.Stat("/proc/" + procPath(pid, "task/"+strconv.Itoa(pid)+"/children"))
	return err == nil && len(childrenOf(pid, make([]byte, 64<<10))) == 0
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

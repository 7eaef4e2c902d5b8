package process

import (
	"encoding/binary"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procList is the processes that existed at one moment. It is immutable.
//
// A process that existed before a server was started is no descendant of it. So the
// search for what a server has left reads only the processes that have come since, which
// are usually few.
type procList struct {
	taken time.Time // every process of the list existed at this time or after it
	procs []procRef // sorted
}

// procRef identifies a process among all that this host process ever sees: the id in the
// upper half, and in the lower half the inode number of its directory in /proc. An id can
// be given to another process, whose directory then has another inode: Linux numbers them
// from one counter (get_next_ino, fs/inode.c). The kernel may also give the directory of
// the same process another inode, when it is short of memory. The process then counts as
// another one, which is the safe side.
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

// hasID reports whether the list holds a process with that id.
func (l *procList) hasID(pid int) bool {
	i, _ := slices.BinarySearch(l.procs, newProcRef(pid, 0))
	return i < len(l.procs) && l.procs[i].pid() == pid
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

// procListBuffer is the size of one read of the directory /proc: that of some hundred
// processes.
const procListBuffer = 16 << 10

// readProcList reads the directory /proc from its beginning (getdents64(2)).
func readProcList(fd int, buf []byte) (*procList, error) {
	list := &procList{taken: time.Now()}
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	for {
		n, err := unix.ReadDirent(fd, buf)
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
					digits = 0 // another name than a process id
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

package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// groupList is the list of process groups that the watchdog kills. It is a file in memory
// (memfd_create(2)) that the watchdog has open and reads when this process has ended. So a
// change of the list is one system call here, and costs the watchdog nothing: a shell takes
// long to read a line. Each group has a slot: a line of fixed length, blank when it is free.
// The mutex of the watchdog guards it.
type groupList struct {
	file  *os.File    // nil until the first add, and after clear
	slots map[int]int // groups and the numbers of their slots
	free  []int       // numbers of slots that were used before
}

// groupSlot is the length of a slot in bytes.
const groupSlot = 16

// add lists a group. It reports whether the watchdog can see it. Without that file there is
// no watchdog.
func (l *groupList) add(pgid int) bool {
	if l.slots == nil {
		l.slots = make(map[int]int)
	}
	slot, listed := l.slots[pgid]
	if !listed {
		slot = len(l.slots)
		if last := len(l.free) - 1; last >= 0 {
			slot, l.free = l.free[last], l.free[:last]
		}
		l.slots[pgid] = slot
	}
	if l.file == nil {
		fd, err := unix.MemfdCreate("mcpvisor-groups", unix.MFD_CLOEXEC)
		if err != nil {
			return false
		}
		l.file = os.NewFile(uintptr(fd), "groups")
		for group, slot := range l.slots {
			_ = l.write(slot, fmt.Sprint(group))
		}
	}
	return l.write(slot, fmt.Sprint(pgid))
}

// remove frees the slot of a group.
func (l *groupList) remove(pgid int) {
	if slot, listed := l.slots[pgid]; listed {
		delete(l.slots, pgid)
		l.free = append(l.free, slot)
		if l.file != nil {
			_ = l.write(slot, "")
		}
	}
}

// has reports whether a group is listed.
func (l *groupList) has(pgid int) bool {
	_, listed := l.slots[pgid]
	return listed
}

// write fills a slot. It does not move the position in the file, which the watchdog shares
// and at which it begins to read.
func (l *groupList) write(slot int, text string) bool {
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%*s\n", groupSlot-1, text), int64(slot)*groupSlot)
	return err == nil
}

// clear closes the file.
func (l *groupList) clear() {
	if l.file != nil {
		_ = l.file.Close()
	}
	*l = groupList{}
}

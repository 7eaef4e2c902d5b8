package descendants

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watchdog runs a process that outlives this one by a moment. When its stdin ends, because
// this process has ended without stopping it, it kills what is left of the servers: their
// groups, and every process with a tag of this host. PR_SET_PDEATHSIG acts sooner, but only
// on the servers and not on their descendants.
//
// The process is a shell that waits in read. It has a session of its own
// (setsid(2)), so a signal to our process group does not reach it. Without /bin/sh
// there is no watchdog.
type watchdog struct {
	mu      sync.Mutex // guards the fields below
	cmd     *exec.Cmd  // nil while no watchdog runs
	stdin   *os.File
	groups  groupList // the groups of servers that are not reaped
	servers int       // servers that are not reaped, and calls of keep
}

// hostWatchdog is the watchdog of this process.
var hostWatchdog watchdog

// watchdogScript waits for the end of stdin, to which nothing is written. Then it kills
// the groups that file descriptor 3 lists (groupList), and looks for tagged processes
// until it finds none twice in a row. Once is not enough: a process that is killed
// may just have forked, and during exec a process shows no environment. Tags in
// limits come before tags in environments: reading an environment can hang, and the
// script with it.
const watchdogScript = `
trap "" HUP INT TERM QUIT PIPE
while read -r id; do :; done
while read -r id; do
	[ "$id" ] && kill -s KILL -- "-$id"
done <&3
for tag in limits environ; do
	pattern=$1
	[ $tag = limits ] && pattern=$2
	none=
	for round in 1 2 3 4 5 6; do
		found=$(grep -ls -- "$pattern" /proc/[0-9]*/$tag)
		[ "$found$none" = none ] && break
		none=none
		[ "$found" ] && none=
		for file in $found; do
			id=${file#/proc/}
			kill -s KILL "${id%/*}"
		done
	done
done
`

// add lists the group of a server. If the watchdog does not run, it is started in the
// background. done is closed after that.
func (d *watchdog) add(pgid int) (done <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers++
	d.groups.add(pgid)
	watched := make(chan struct{})
	if d.runsLocked() {
		close(watched)
		return watched
	}
	go func() {
		defer close(watched)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.groups.has(pgid) { // remove may have been called meanwhile
			d.watchLocked(pgid)
		}
	}()
	return watched
}

// remove takes the group of a server off the list, just before the server is reaped:
// afterwards the id may belong to another group. remove of the last server stops
// the watchdog.
func (d *watchdog) remove(pgid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.groups.remove(pgid)
	d.releaseLocked()
}

// keep makes the watchdog outlive the last server until unkeep is called.
func (d *watchdog) keep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers++
}

func (d *watchdog) unkeep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseLocked()
}

// releaseLocked ends one add or keep. After the last one the watchdog is stopped.
func (d *watchdog) releaseLocked() {
	if d.servers--; d.servers == 0 {
		d.stopLocked()
		d.groups.clear()
	}
}

// watchLocked lists a group. It starts the watchdog if it does not run, and replaces one
// that has been stopped by a signal.
func (d *watchdog) watchLocked(pgid int) {
	if d.groups.add(pgid) && !d.runsLocked() {
		d.stopLocked()
		d.startLocked()
	}
}

// runsLocked reports whether there is a watchdog that can act: it has neither ended nor
// been stopped by a signal (waitid(2)).
func (d *watchdog) runsLocked() bool {
	if d.cmd == nil {
		return false
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, d.cmd.Process.Pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == 0
}

func (d *watchdog) startLocked() {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return
	}
	defer theirs.Close()
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "mcpvisor-watchdog", tagVar+"="+hostTag, limitTagPrefix+"[0-9]\\{7\\} ")
	cmd.Env, cmd.Dir, cmd.Stdin = []string{"PATH=/usr/bin:/bin"}, "/", theirs
	cmd.ExtraFiles = []*os.File{d.groups.file} // descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		_ = ours.Close()
		return
	}
	clearOuterTag(cmd.Process.Pid)
	d.cmd, d.stdin = cmd, ours
}

// clearOuterTag removes the tag of an outer host from a watchdog. This process may be a
// server of another host, which would kill the watchdog together with this process, before
// the watchdog has killed the servers of this one. The new value is below all tags, so
// setLimitTag leaves it alone, and beyond any time that a process can compute.
func clearOuterTag(pid int) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil || limit.Max < limitTagBase {
		return // a process without a tag
	}
	limit.Cur = limitTagBase - 1
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, nil)
}

// stopLocked kills the watchdog, if it runs, and waits for its end. Only then it closes
// stdin, whose end would make the watchdog act.
func (d *watchdog) stopLocked() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	_ = d.stdin.Close()
	_ = d.cmd.Wait()
	d.cmd, d.stdin = nil, nil
}

// groupList is the list of process groups that the watchdog kills. It is a file in memory
// (memfd_create(2)) that the watchdog has open, and reads only when this process has ended.
// So a change of the list is one system call here and nothing there, where a shell would
// take long to read a line. Each group has a slot: a line of fixed length, blank when it is
// free. The mutex of the watchdog guards the list.
type groupList struct {
	file  *os.File    // nil until the first add, and after clear
	slots map[int]int // groups and the numbers of their slots
	free  []int       // numbers of slots that were used before
}

// groupSlot is the length of a slot in bytes.
const groupSlot = 16

// add lists a group, and makes a missing file. It reports whether the watchdog
// can see the group.
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

package process

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog runs a process that outlives this one by a moment. When its stdin ends,
// because this process has ended without stopping it, it kills what is left of the
// servers: their groups, and every process with a tag of this host.
// PR_SET_PDEATHSIG acts sooner, but reaches the servers only, not their descendants.
//
// The process is a shell that waits in read. It has a session of its own
// (setsid(2)), so a signal to our process group does not reach it. Without /bin/sh
// there is no watchdog.
type watchdog struct {
	mu      sync.Mutex // guards what follows
	cmd     *exec.Cmd  // nil while no watchdog runs
	stdin   *os.File
	groups  map[int]bool // groups of servers that are not reaped
	sent    map[int]bool // groups that the running watchdog has received
	servers int          // servers that may still have processes, and keepers
}

// hostWatchdog is the watchdog of this process.
var hostWatchdog watchdog

// watchdogScript reads lines "+ group" and "- group" from stdin. "- group" removes
// the group from its list, however often it is on it.
//
// When stdin ends it kills the listed groups, and then looks for tagged processes
// until it finds none twice in a row. Once is not enough: a process that is killed
// may just have forked, and during exec a process shows no environment. Tags in
// limits come before tags in environments: reading an environment can hang, and the
// script would not go on.
const watchdogScript = `
trap "" HUP INT TERM QUIT PIPE
groups=" "
while read -r op id; do
	case $op in
	+) groups="$groups$id " ;;
	-) while :; do
		case $groups in
		*" $id "*) groups="${groups%%" $id "*} ${groups#*" $id "}" ;;
		*) break ;;
		esac
	done ;;
	esac
done
for id in $groups; do kill -s KILL -- "-$id"; done
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

// watchdogWriteTimeout is how long the watchdog may take to read a line. A watchdog that
// does not read has been stopped by a signal, and is replaced.
const watchdogWriteTimeout = 250 * time.Millisecond

// add lists the group of a server. The watchdog receives it a moment later, in the
// background, and is started first if it does not run. done is closed after that.
func (d *watchdog) add(pgid int) (done <-chan struct{}) {
	d.mu.Lock()
	d.servers++
	if d.groups == nil {
		d.groups = make(map[int]bool)
	}
	d.groups[pgid] = true
	d.mu.Unlock()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.groups[pgid] { // remove may have been called meanwhile
			d.watchLocked(pgid)
		}
	}()
	return sent
}

// remove takes the group of a server off the list, just before the server is reaped:
// afterwards the id may belong to another group. remove of the last server stops
// the watchdog.
func (d *watchdog) remove(pgid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sent := d.sent[pgid]
	delete(d.groups, pgid)
	delete(d.sent, pgid)
	switch d.servers--; {
	case d.servers == 0:
		d.stopLocked()
	case sent && !d.writeLocked("- %d\n", pgid):
		d.replaceLocked() // the old watchdog must not act on a list with this group
	}
}

// keep has the watchdog outlive the last server until unkeep is called.
func (d *watchdog) keep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers++
}

func (d *watchdog) unkeep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.servers--; d.servers == 0 {
		d.stopLocked()
	}
}

// watchLocked sends a group to the watchdog, and replaces a watchdog that does not
// read.
func (d *watchdog) watchLocked(pgid int) {
	if d.groups == nil {
		d.groups = make(map[int]bool)
	}
	d.groups[pgid] = true
	if d.cmd == nil || !d.sendLocked(pgid) {
		d.replaceLocked()
	}
}

// sendLocked sends a group to the running watchdog, once. Two servers that start
// together may both find it sent: replaceLocked sends the whole list.
func (d *watchdog) sendLocked(pgid int) bool {
	if !d.sent[pgid] && d.writeLocked("+ %d\n", pgid) {
		d.sent[pgid] = true
	}
	return d.sent[pgid]
}

// replaceLocked stops the watchdog if it runs, starts another one and sends it the
// whole list.
func (d *watchdog) replaceLocked() {
	d.stopLocked()
	if !d.startLocked() {
		return
	}
	for pgid := range d.groups {
		d.sendLocked(pgid)
	}
}

func (d *watchdog) startLocked() bool {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return false
	}
	defer theirs.Close()
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "mcpvisor-watchdog", tagVar+"="+hostTag, limitTagPrefix+"[0-9]\\{7\\} ")
	cmd.Env, cmd.Dir, cmd.Stdin = []string{"PATH=/usr/bin:/bin"}, "/", theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		_ = ours.Close()
		return false
	}
	clearOuterTag(cmd.Process.Pid)
	d.cmd, d.stdin, d.sent = cmd, ours, make(map[int]bool)
	return true
}

// clearOuterTag removes the tag of an outer host from a watchdog. It matters where
// this process is itself a server of another host: that host would kill the watchdog
// together with this process, before the watchdog has killed the servers of this one.
// The value that it sets is below all tags, so setLimitTag leaves it alone. It is
// still beyond any time that a process can compute.
func clearOuterTag(pid int) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil || limit.Max < limitTagBase {
		return // a process without a tag
	}
	limit.Cur = limitTagBase - 1
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, nil)
}

// writeLocked writes a line to the running watchdog. It returns false if the watchdog
// has ended or does not read.
func (d *watchdog) writeLocked(format string, args ...any) bool {
	_ = d.stdin.SetWriteDeadline(time.Now().Add(watchdogWriteTimeout))
	_, err := fmt.Fprintf(d.stdin, format, args...)
	return err == nil
}

// stopLocked kills the watchdog, if it runs, and waits for its end. To close stdin
// would make it act. A line that asks it to exit would take long: a shell is slow, and
// may first have to read many removals.
func (d *watchdog) stopLocked() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	_ = d.stdin.Close()
	_ = d.cmd.Wait()
	d.cmd, d.stdin, d.sent = nil, nil, nil
}

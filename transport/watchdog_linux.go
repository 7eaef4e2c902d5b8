package transport

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog is a process that outlives this one by a moment. When its stdin
// ends, because this process ended without having dismissed it, it kills what
// is left of the servers: their groups, and everything that carries the mark of
// this host, wherever it has gone. PR_SET_PDEATHSIG is faster, and reaches the
// servers themselves only.
//
// It is a shell that waits in read, in a session of its own, so that what ends
// our process group spares it. Where there is no /bin/sh there is no watchdog.
type watchdog struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	stdin  *os.File
	groups map[int]bool // those whose leader is not reaped
	known  map[int]bool // groups that are on the list of the watchdog that runs
	live   int          // servers of which something may be left
}

// hostWatchdog is the one of this process.
var hostWatchdog watchdog

// watchdogScript reads "+ group" and "- group", which takes the group off the list
// however often it is on it. It looks for marks until there are
// none twice in a row: what is killed may just have forked, and for a moment in
// exec a process shows no environment. Limits come first: an environment may be
// one that cannot be read, and then nothing comes after it.
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
for mark in limits environ; do
	pattern=$1
	[ $mark = limits ] && pattern=$2
	none=
	for round in 1 2 3 4 5 6; do
		found=$(grep -ls -- "$pattern" /proc/[0-9]*/$mark)
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

// patience is how long the watchdog may take to read a line. It always reads;
// one that does not was stopped by somebody, and is replaced.
const watchdogPatience = 250 * time.Millisecond

// begin adds a server and its group. The watchdog hears of it a moment later, and is
// started if there is none: the server need not wait for that.
func (d *watchdog) begin(pgid int) (told <-chan struct{}) {
	d.mu.Lock()
	d.live++
	if d.groups == nil {
		d.groups = make(map[int]bool)
	}
	d.groups[pgid] = true
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.groups[pgid] { // not forgotten meanwhile
			d.watch(pgid)
		}
	}()
	return done
}

// end takes a group off the list, of whose server nothing is left but the leader, not
// reaped yet: when the watchdog has been told, the number may be another's. After the
// last server the watchdog is dismissed.
func (d *watchdog) end(pgid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.known[pgid]
	delete(d.groups, pgid)
	delete(d.known, pgid)
	switch d.live--; {
	case d.live == 0:
		d.dismiss()
	case known && !d.tell("- %d\n", pgid):
		d.replace() // so that it does not act on an old list
	}
}

func (d *watchdog) watch(pgid int) {
	if d.groups == nil {
		d.groups = make(map[int]bool)
	}
	d.groups[pgid] = true
	if d.cmd == nil || !d.list(pgid) {
		d.replace()
	}
}

// list puts a group on the list of the watchdog that runs, unless it is on it: where
// two servers start together, the one that starts the watchdog tells it of both.
func (d *watchdog) list(pgid int) bool {
	if !d.known[pgid] && d.tell("+ %d\n", pgid) {
		d.known[pgid] = true
	}
	return d.known[pgid]
}

// replace starts a watchdog, in the place of one that does not read if there is
// one, and gives it the whole list.
func (d *watchdog) replace() {
	d.dismiss()
	if !d.start() {
		return
	}
	for pgid := range d.groups {
		d.list(pgid)
	}
}

func (d *watchdog) start() bool {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return false
	}
	defer theirs.Close()
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "mcpvisor-watchdog", lineageVar+"="+hostMark, limitPrefix+"[0-9]\\{7\\} ")
	cmd.Env, cmd.Dir, cmd.Stdin = []string{"PATH=/usr/bin:/bin"}, "/", theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		_ = ours.Close()
		return false
	}
	unmarkWatchdog(cmd.Process.Pid)
	d.cmd, d.stdin, d.known = cmd, ours, make(map[int]bool)
	return true
}

// unmarkWatchdog takes the mark of an outer host from a watchdog, where this process
// is a server itself. The outer host would kill the watchdog with this process, before
// it has ended the servers of this one. The value is below all marks, so that
// setLimitMark leaves it alone, and bounds nothing all the same.
func unmarkWatchdog(pid int) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil || limit.Max < limitBase {
		return // then it has no mark
	}
	limit.Cur = limitBase - 1
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, nil)
}

func (d *watchdog) tell(format string, args ...any) bool {
	_ = d.stdin.SetWriteDeadline(time.Now().Add(watchdogPatience))
	_, err := fmt.Fprintf(d.stdin, format, args...)
	return err == nil
}

// dismiss ends the watchdog, if there is one, and waits for its end. It is killed:
// a shell is slow, and may have a long list to strike out before it would hear
// that it can go.
func (d *watchdog) dismiss() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	_ = d.stdin.Close()
	_ = d.cmd.Wait()
	d.cmd, d.stdin, d.known = nil, nil, nil
}

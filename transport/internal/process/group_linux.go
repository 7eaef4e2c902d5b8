package process

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/transport/internal/poll"
)

// processGroup is the process group of one child. It belongs to the goroutine of
// [Child.reap]; only terminate and kill are called by others, while the child is
// not reaped.
type processGroup struct {
	pgid   int
	pidfd  *os.File      // becomes readable at the exit (pidfd_open(2)); nil without pidfd
	exit   *poll.Watch   // of pidfd; nil: a goroutine waits for the exit
	thread *parentThread // the thread that started the child
	since  *procList     // processes that were there before the child, so are no descendants
	// noneLeft: a search that awaitEmpty began after the exit has found no descendant. So
	// no descendant can appear any more.
	noneLeft bool
}

// startInGroup starts the command as the leader of a process group of its own
// (setpgid(2)) and asks the kernel to kill it when this process ends
// (PR_SET_PDEATHSIG; see parentThreads for what that takes). The child gets the
// tag in its limits; descendants inherit it. An empty tag means none.
func startInGroup(cmd *exec.Cmd, tag string) (*processGroup, error) {
	fd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &fd}
	var since *procList
	thread, err := parentThreads.run(func() error {
		since = procTable.listForStart()
		err := cmd.Start()
		if err == nil {
			procTable.addServer(cmd.Process.Pid)
			tagServer(cmd.Process.Pid, tag)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	g := &processGroup{pgid: cmd.Process.Pid, thread: thread, since: since}
	descriptors.addUser()
	hostWatchdog.add(g.pgid)
	if fd >= 0 {
		if err := unix.SetNonblock(fd, true); err == nil {
			g.pidfd = os.NewFile(uintptr(fd), "pidfd")
		} else {
			_ = unix.Close(fd)
		}
	}
	return g, nil
}

// onExit has f called once at the exit, by the goroutine of the poller. It reports false if
// the system does not allow that; then waitExit waits for the exit.
func (g *processGroup) onExit(f func()) bool {
	if g.pidfd == nil {
		return false
	}
	if g.exit = poll.Shared.Watch(g.pidfd, f); g.exit == nil {
		return false
	}
	if !g.exit.Arm() {
		g.exit.Remove()
		g.exit = nil
	}
	return g.exit != nil
}

// waitExit returns the exit status of the child and leaves the child a zombie
// (WNOWAIT, waitid(2)). While it is one, neither its process id nor its group id can
// be given to another process. The status is nil if another part of this process has
// collected it.
func (g *processGroup) waitExit() *syscall.WaitStatus {
	var info unix.Siginfo
	var err error
	hasExited := func(options int) bool {
		for {
			info = unix.Siginfo{}
			err = unix.Waitid(unix.P_PID, g.pgid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
			if err != unix.EINTR {
				return err != nil || info.Signo != 0
			}
		}
	}
	seen := false
	if g.pidfd != nil { // the runtime's poller waits, without a thread
		raw, unusable := g.pidfd.SyscallConn()
		seen = unusable == nil && raw.Read(func(uintptr) bool { return hasExited(unix.WNOHANG) }) == nil
	}
	if !seen {
		hasExited(0)
	}
	if err != nil {
		return nil
	}
	return waitStatus(&info)
}

// waitStatus converts the result of waitid(2) to the status that wait4(2) would
// have returned.
func waitStatus(info *unix.Siginfo) *syscall.WaitStatus {
	const exited, dumped = 1, 3 // CLD_EXITED and CLD_DUMPED; CLD_KILLED is 2
	// siginfo_t begins with three ints. Behind them, aligned to a pointer, is a union.
	// For SIGCHLD it begins with si_pid, si_uid and si_status (sigaction(2)).
	const union = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
	value := *(*int32)(unsafe.Add(unsafe.Pointer(info), union+2*4)) //nolint:gosec // inside of a Siginfo, which has 128 bytes
	status := syscall.WaitStatus(value)
	switch info.Code {
	case exited:
		status <<= 8
	case dumped:
		status |= 0x80
	}
	return &status
}

// groupPollInterval is the time between two looks at the members of a group.
const groupPollInterval = 10 * time.Millisecond

// awaitEmpty waits until the group holds no living process, or until stop is
// closed. The leader has exited and is a zombie. Linux does not report the end of a
// group, so it is polled: the process table is searched once, then the members that
// were found are checked until all have ended; then it is searched again.
func (g *processGroup) awaitEmpty(tag string, stop <-chan struct{}) {
	for {
		members, complete := g.membersUntil(tag, stop)
		if len(members) == 0 {
			g.noneLeft = complete
			return
		}
		if !g.awaitEnds(members, stop) {
			return
		}
	}
}

// awaitEnds waits until none of some processes is in the group. It returns false if stop is
// closed before that.
func (g *processGroup) awaitEnds(pids []int, stop <-chan struct{}) bool {
	tick := time.NewTicker(groupPollInterval)
	defer tick.Stop()
	for len(pids) > 0 {
		select {
		case <-stop:
			return false
		case <-tick.C:
		}
		pids = g.living(pids)
	}
	return true
}

// membersUntil is members, but returns nothing as soon as stop is closed. The
// search goes on in the background: other servers may share it.
func (g *processGroup) membersUntil(tag string, stop <-chan struct{}) (pids []int, complete bool) {
	read := make(chan struct{})
	var found []int
	var all bool
	go func() {
		defer close(read)
		found, all = g.members(tag)
	}()
	select {
	case <-read:
		return found, all
	case <-stop:
		return nil, false
	}
}

// members returns the living processes of the group. With a tag it uses the shared
// search for tagged processes; without, it checks every process that has come since the
// child was started. complete means that there is no other descendant: the search has
// found no process with the tag but these.
func (g *processGroup) members(tag string) (pids []int, complete bool) {
	if tag != "" {
		found, err := procTable.scan(g.since)
		if err != nil {
			return nil, false
		}
		pids = slices.Clone(found[tag])
		complete = len(pids) == 0
	} else {
		list, err := descriptors.list()
		if err != nil {
			return nil, false
		}
		for _, proc := range list.procs {
			if !g.since.has(proc) {
				pids = append(pids, proc.pid())
			}
		}
	}
	return g.living(pids), complete
}

// living keeps those of pids that live and belong to the group.
func (g *processGroup) living(pids []int) []int {
	if len(pids) == 0 {
		return nil
	}
	buf := make([]byte, statBufferSize)
	return slices.DeleteFunc(pids, func(pid int) bool {
		st, err := readStat(pid, buf)
		return err != nil || !st.exists || st.dead || st.group != g.pgid
	})
}

// isReaped reports whether the child's id may belong to another process. It never
// does while the group is signalled: the child stays a zombie until afterReap.
func (*processGroup) isReaped() bool { return false }

// beforeReap is called when the child and its descendants are dead, just before the
// child is reaped. From then on another process may get its id: the watchdog must
// not kill it, and the search for tagged processes must not skip it.
func (g *processGroup) beforeReap() {
	hostWatchdog.remove(g.pgid)
	procTable.beforeReap(g.pgid)
}

// afterReap releases what this process holds for the group.
func (g *processGroup) afterReap() {
	procTable.afterReap(g.pgid)
	if g.exit != nil {
		g.exit.Remove()
	}
	if g.pidfd != nil {
		_ = g.pidfd.Close()
	}
	parentThreads.release(g.thread)
	descriptors.removeUser()
}

// keepShared has what all servers share outlive the last one, until releaseShared.
func keepShared() {
	parentThreads.keep()
	hostWatchdog.keep()
	descriptors.addUser()
	poll.Shared.Keep()
	stderrPoller.Keep()
}

func releaseShared() {
	stderrPoller.Unkeep()
	poll.Shared.Unkeep()
	hostWatchdog.unkeep()
	parentThreads.unkeep()
	descriptors.removeUser()
}

// largePipeSize is the size of a pipe for large messages, in bytes. It is the default of
// /proc/sys/fs/pipe-max-size (pipe(7)).
const largePipeSize = 1 << 20

// growPipe asks for a large pipe (F_SETPIPE_SZ, fcntl(2)). The pipes of one user
// share a soft limit of 64 MiB, so callers do it for large messages only. If the kernel
// refuses, messages take more reads.
func growPipe(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, largePipeSize) })
	}
}

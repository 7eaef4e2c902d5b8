package transport

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processGroup is a child's process group, and on Linux a file descriptor of
// the child by which its exit can be awaited without a thread.
type processGroup struct {
	pgid   int
	pidfd  *os.File
	thread *parentThread // that started it
}

// startInGroup starts the command in a group of its own, bound to die with
// this process. What it starts in turn carries the mark of the lineage, if there
// is one.
func startInGroup(cmd *exec.Cmd, lineage string) (*processGroup, error) {
	fd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &fd}
	thread, err := spawner.run(func() error {
		err := cmd.Start()
		if err == nil {
			census.born(cmd.Process.Pid)
			markDescendants(cmd.Process.Pid, lineage)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	g := &processGroup{pgid: cmd.Process.Pid, thread: thread}
	descriptors.begin()
	hostWatchdog.begin(g.pgid)
	if fd >= 0 {
		if err := unix.SetNonblock(fd, true); err == nil {
			g.pidfd = os.NewFile(uintptr(fd), "pidfd")
		} else {
			_ = unix.Close(fd)
		}
	}
	return g, nil
}

// waitExit returns the status when the child has exited, and leaves the child to be
// reaped: as long as it is a zombie its group id cannot be given to another. The
// status is nil if the child is not ours to wait for.
func (g *processGroup) waitExit() *syscall.WaitStatus {
	var info unix.Siginfo
	var err error
	look := func(options int) bool {
		for {
			info = unix.Siginfo{}
			err = unix.Waitid(unix.P_PID, g.pgid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
			if err != unix.EINTR {
				return err != nil || info.Signo != 0
			}
		}
	}
	seen := false
	if g.pidfd != nil {
		raw, unusable := g.pidfd.SyscallConn()
		seen = unusable == nil && raw.Read(func(uintptr) bool { return look(unix.WNOHANG) }) == nil
	}
	if !seen {
		look(0)
	}
	if err != nil {
		return nil
	}
	return waitStatus(&info)
}

// waitStatus is what wait4 would have told of the exit (waitid(2)).
func waitStatus(info *unix.Siginfo) *syscall.WaitStatus {
	const exited, dumped = 1, 3 // CLD_EXITED, CLD_DUMPED; CLD_KILLED is 2
	// After three numbers comes, aligned to a pointer, a union that begins with the
	// process, its user and its status.
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

// groupPause is how long after one look the group is looked at again.
const groupPause = 10 * time.Millisecond

// awaitEmpty waits until nothing of the group is left but its leader, which has
// exited and is not reaped, or until stop is closed. The search is the one by which
// the lineage is ended, if there is one.
func (g *processGroup) awaitEmpty(lineage string, stop <-chan struct{}) {
	tick := time.NewTicker(groupPause)
	defer tick.Stop()
	buf := make([]byte, procBuffer)
	for {
		members, err := g.membersUntil(lineage, buf, stop)
		if err != nil || len(members) == 0 {
			return
		}
		for len(members) > 0 {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			members = slices.DeleteFunc(members, func(pid int) bool { return !g.holds(pid, buf) })
		}
	}
}

// membersUntil is members, or nothing when stop is closed first: a look at the process
// table may take long, and goes on for those that share it.
func (g *processGroup) membersUntil(lineage string, buf []byte, stop <-chan struct{}) (pids []int, err error) {
	read := make(chan struct{})
	var found []int
	var failed error
	go func() {
		defer close(read)
		found, failed = g.members(lineage, buf)
	}()
	select {
	case <-read:
		return found, failed
	case <-stop:
		return nil, nil
	}
}

// members are the living processes of the group.
func (g *processGroup) members(lineage string, buf []byte) ([]int, error) {
	var pids []int
	if lineage != "" {
		found, err := census.take()
		if err != nil {
			return nil, err
		}
		pids = slices.Clone(found[lineage])
	} else {
		names, err := descriptors.processes()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return !g.holds(pid, buf) }), nil
}

// holds reports whether a process lives and belongs to the group.
func (g *processGroup) holds(pid int, buf []byte) bool {
	st, err := statOf(pid, buf)
	return err == nil && st.exists && !st.dead && st.group == g.pgid
}

// isReaped reports whether the child's number may be another's by now: never, for
// as long as it is signalled.
func (*processGroup) isReaped() bool { return false }

// reaping comes before the child is reaped, when it and its descendants are dead:
// from then on its number may be another's, which neither the watchdog may kill nor
// a look at the process table pass over.
func (g *processGroup) reaping() {
	hostWatchdog.end(g.pgid)
	census.reaping(g.pgid)
}

// reaped comes after that, and gives back what the group held here.
func (g *processGroup) reaped() {
	census.reaped(g.pgid)
	if g.pidfd != nil {
		_ = g.pidfd.Close()
	}
	spawner.end(g.thread)
	descriptors.end()
}

// widePipe is the size of a pipe for large messages. Ordinary users share 64
// MiB of pipe memory, so it is not asked for before it is needed; a refusal
// costs nothing but speed.
const widePipe = 1 << 20

func widenPipe(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
	}
}

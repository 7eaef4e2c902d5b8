package process

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/internal/poll"
	"github.com/mcpvisor/mcpvisor/transport/internal/process/descendants"
)

// processGroup is the process group of one child. It belongs to the goroutine of
// [Child.reap]. Others call terminate, kill and tagAgain while the child is not reaped,
// and exiting and dead.
type processGroup struct {
	pgid        int
	pidfd       *os.File    // becomes readable at the exit (pidfd_open(2)); nil without pidfd
	exit        *poll.Watch // of pidfd; nil: a goroutine waits for the exit
	descendants *descendants.Tracker
}

// startInGroup starts the command as the leader of a process group of its own (setpgid(2))
// and asks the kernel to kill it when this process ends (PR_SET_PDEATHSIG; see
// [parent] for what that takes). With keepDaemons, what leaves the group may stay.
func startInGroup(cmd *exec.Cmd, keepDaemons bool) (*processGroup, error) {
	fd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &fd}
	var tracker *descendants.Tracker
	err := parent.run(func() (err error) {
		tracker, err = descendants.Start(cmd, keepDaemons)
		return err
	})
	if err != nil {
		return nil, err
	}
	g := &processGroup{pgid: cmd.Process.Pid, descendants: tracker}
	if fd >= 0 {
		if err := unix.SetNonblock(fd, true); err == nil {
			g.pidfd = os.NewFile(uintptr(fd), "pidfd")
		} else {
			_ = unix.Close(fd)
		}
	}
	return g, nil
}

// onExit makes the goroutine of the poller call f at the exit, once. It reports false if the
// system does not allow that; then waitExit waits for the exit.
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

// awaitEmpty waits until the group holds no living process, or until stop is closed. The
// child has exited.
func (g *processGroup) awaitEmpty(stop <-chan struct{}) { g.descendants.AwaitGroup(stop) }

// tagAgain makes sure that everything the child has started has its tag.
func (g *processGroup) tagAgain() { g.descendants.TagAgain() }

// killDescendants kills what the child has started and what has left the group. The child is
// dead.
func (g *processGroup) killDescendants() error { return g.descendants.Kill(killGrace) }

// exiting reports whether the child has begun to exit.
func (g *processGroup) exiting() bool { return g.descendants.Exiting() }

// IsAlone reports whether a process is known to have no child.
func IsAlone(pid int) bool { return descendants.IsAlone(pid) }

// dead reports whether nothing is left of the child but its process id.
func (g *processGroup) dead() bool { return g.descendants.Dead() }

// isReaped reports whether the child's id may belong to another process. The child stays a zombie until
// reap, unless the host reaps all its children, or ignores SIGCHLD.
func (g *processGroup) isReaped() bool {
	err := error(nil)
	if g.pidfd != nil {
		if raw, closed := g.pidfd.SyscallConn(); closed == nil {
			_ = raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), 0, nil, 0) })
		}
	}
	return err == unix.ESRCH
}

// reap calls wait, which collects the exit status, and releases what this process holds for
// the group.
func (g *processGroup) reap(wait func()) {
	g.descendants.Reap(wait)
	if g.exit != nil {
		g.exit.Remove()
	}
	if g.pidfd != nil {
		_ = g.pidfd.Close()
	}
	parent.release()
}

// keepShared makes what all servers share outlive the last one, until releaseShared.
func keepShared() {
	parent.keep()
	descendants.Keep()
	poll.Shared.Keep()
	stderrPoller.Keep()
}

func releaseShared() {
	stderrPoller.Unkeep()
	poll.Shared.Unkeep()
	descendants.Unkeep()
	parent.release()
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

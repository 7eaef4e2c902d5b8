package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// tokenName is the variable that the exclusive servers of a node have in common.
	tokenName = "MCPVISOR_GUARD" //nolint:gosec // a name, and no credential
	// roleName is set for the process of a guard.
	roleName = "MCPVISOR_GUARD_PROCESS"
)

// supported returns nil if this system has pidfds.
func supported() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return unix.Close(fd)
}

// stat is a process as /proc/PID/stat describes it.
type stat struct {
	pid, parent, group int
	zombie             bool
	start              string // when it was started; with the pid it names one process
}

// readStat reads the stat of a process; ok is false if it is gone.
func readStat(pid int) (s stat, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	// The name of the program is in parentheses and may have any character.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return s, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	group, err2 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil {
		return s, false
	}
	return stat{pid: pid, parent: parent, group: group, zombie: fields[0] == "Z" || fields[0] == "X", start: fields[19]}, true
}

// pids are the ids of all processes.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

// hasToken reports whether the environment of a process has the entry. It is false for a process of
// another user.
func hasToken(pid int, entry []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for _, e := range bytes.Split(env, []byte{0}) {
		if bytes.Equal(e, entry) {
			return true
		}
	}
	return false
}

// servers are the processes that a guard has to end.
type servers struct {
	node, self int
	entry      []byte // of the environment
	leaders    map[int]*leader
	// dying are the processes that were killed and are not gone, by their pids, with their starts. A
	// process that exits has no environment any longer while it still holds files and locks.
	dying map[int]string
}

func newServers(node int) *servers {
	return &servers{node: node, self: os.Getpid(), leaders: map[int]*leader{}, dying: map[int]string{}}
}

// leader is a process that the node has named, held by a pidfd.
type leader struct {
	pid, fd int
}

// hold opens a process that the node has named. A process that is no child of the node is not its
// server: that has ended, and the id belongs to another process.
func (s *servers) hold(pid int) {
	if s.leaders[pid] != nil || pid <= 1 {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	if st, ok := readStat(pid); !ok || st.parent != s.node {
		_ = unix.Close(fd)
		return
	}
	s.leaders[pid] = &leader{pid, fd}
}

func (s *servers) forget(pid int) {
	if l := s.leaders[pid]; l != nil {
		_ = unix.Close(l.fd)
		delete(s.leaders, pid)
	}
}

// exists reports whether the process has not been reaped, so that its id and that of its group are
// its own.
func (l *leader) exists() bool {
	return unix.PidfdSendSignal(l.fd, 0, nil, 0) == nil
}

// find returns all living processes of the servers: those with the entry, those of the groups that
// are held, and their descendants.
func (s *servers) find() (map[int]stat, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	groups := map[int]bool{}
	for _, l := range s.leaders {
		if l.exists() {
			groups[l.pid] = true
		}
	}
	children := map[int][]stat{}
	var found []stat
	for _, pid := range all {
		st, ok := readStat(pid)
		if !ok || pid == s.node || pid == s.self {
			continue
		}
		children[st.parent] = append(children[st.parent], st)
		if groups[st.group] || groups[pid] || s.dying[pid] == st.start || !st.zombie && hasToken(pid, s.entry) {
			found = append(found, st)
		}
	}
	living := map[int]stat{}
	seen := map[int]bool{}
	for len(found) > 0 {
		st := found[len(found)-1]
		found = found[:len(found)-1]
		if seen[st.pid] {
			continue
		}
		seen[st.pid] = true
		if !st.zombie {
			living[st.pid] = st
		}
		found = append(found, children[st.pid]...)
	}
	return living, nil
}

// kill kills all living processes of the servers, and returns how many there were. The processes are
// held while they are compared with what was found, because an id may have a new owner.
func (s *servers) kill() (int, error) {
	living, err := s.find()
	if err != nil {
		return 0, err
	}
	for _, l := range s.leaders {
		if l.exists() {
			_ = unix.Kill(-l.pid, unix.SIGKILL)
		}
	}
	clear(s.dying)
	var errs []error
	for pid, st := range living {
		s.dying[pid] = st.start
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it is gone
		}
		if now, ok := readStat(pid); ok && now.start == st.start {
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("process %d: %w", pid, err))
			}
		}
		_ = unix.Close(fd)
	}
	return len(living), errors.Join(errs...)
}

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	pids  func() ([]int, error) // of all processes
}

func newServers(node int) *servers {
	return &servers{node: node, self: os.Getpid(), leaders: map[int]*leader{}, dying: map[int]string{}, pids: pids}
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

// groups are the groups that are held.
func (s *servers) groups() map[int]bool {
	groups := map[int]bool{}
	for _, l := range s.leaders {
		if l.exists() {
			groups[l.pid] = true
		}
	}
	return groups
}

// descendants are the leaders of the groups that live, and what is below them, without a search of all
// processes; ok is false if this kernel does not tell them.
func descendants(groups map[int]bool) (living map[int]stat, ok bool) {
	living = map[int]stat{}
	queue := slices.Collect(maps.Keys(groups))
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		st, exists := readStat(pid)
		if !exists || st.zombie || living[pid].pid != 0 {
			continue
		}
		living[pid] = st
		threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
		if _, exists = readStat(pid); len(threads) == 0 && exists {
			return nil, false
		}
		for _, file := range threads {
			text, _ := os.ReadFile(file)
			for _, field := range strings.Fields(string(text)) {
				child, err := strconv.Atoi(field)
				if st, exists := readStat(child); err == nil && exists && st.parent == pid {
					queue = append(queue, child)
				}
			}
		}
	}
	return living, true
}

// find returns all living processes of the servers: those with the entry, those of the groups that
// are held, and their descendants.
func (s *servers) find(groups map[int]bool) (map[int]stat, error) {
	all, err := s.pids()
	if err != nil {
		return nil, err
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

// kill kills all living processes of the servers; it returns 0 when there were none. What is held comes first:
// the search reads something of every process of the machine, which takes long on a busy one. Whether a group was
// held is decided before, because its leader may be reaped before the others have ended.
func (s *servers) kill() (int, error) {
	groups := s.groups()
	held, ok := descendants(groups)
	if ok { // they have other parents when the leaders have ended
		killGroups(groups)
		_ = s.killEach(held) // what lives then is found below
	}
	living, err := s.find(groups)
	if err != nil {
		return 0, err
	}
	clear(s.dying)
	killGroups(s.groups())
	return max(len(held), len(living)), s.killEach(living)
}

func killGroups(groups map[int]bool) {
	for pid := range groups {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
}

// killEach kills processes. They are held while they are compared with what was found, because an id may have
// a new owner.
func (s *servers) killEach(all map[int]stat) error {
	var errs []error
	for pid, st := range all {
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
	return errors.Join(errs...)
}

package guard

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
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

// process is a process that was found.
type process struct {
	pid int
	procfs.Stat
}

// servers are the processes that a guard has to end.
type servers struct {
	node, self int
	entry      string // of the environment
	leaders    map[int]*leader
	// dying are the processes that were killed and are not gone, by their pids, with their starts. A
	// process that exits no longer has an environment while it still holds files and locks.
	dying map[int]string
	pids  func() ([]int, error) // of all processes
}

func newServers(node int) *servers {
	return &servers{node: node, self: os.Getpid(), leaders: map[int]*leader{}, dying: map[int]string{}, pids: procfs.PIDs}
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
	if procfs.ReadStat(pid).Parent != s.node {
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
func descendants(groups map[int]bool) (living map[int]process, ok bool) {
	living = map[int]process{}
	queue := slices.Collect(maps.Keys(groups))
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		st := procfs.ReadStat(pid)
		if !st.Exists() || st.Dead || living[pid].pid != 0 {
			continue
		}
		living[pid] = process{pid, st}
		children, known := procfs.Children(pid, os.ReadFile)
		if !known && procfs.ReadStat(pid).Exists() {
			return nil, false
		}
		for _, child := range children {
			if procfs.ReadStat(child).Parent == pid {
				queue = append(queue, child)
			}
		}
	}
	return living, true
}

// find returns all living processes of the servers: those with the entry, those of the groups that
// are held, and their descendants.
func (s *servers) find(groups map[int]bool) (map[int]process, error) {
	all, err := s.pids()
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	var found []process
	for _, pid := range all {
		p := process{pid, procfs.ReadStat(pid)}
		if !p.Exists() || pid == s.node || pid == s.self {
			continue
		}
		children[p.Parent] = append(children[p.Parent], p)
		if groups[p.Group] || groups[pid] || s.dying[pid] == p.Start || !p.Dead && procfs.HasEntry(pid, s.entry) {
			found = append(found, p)
		}
	}
	living := map[int]process{}
	seen := map[int]bool{}
	for len(found) > 0 {
		p := found[len(found)-1]
		found = found[:len(found)-1]
		if seen[p.pid] {
			continue
		}
		seen[p.pid] = true
		if !p.Dead {
			living[p.pid] = p
		}
		found = append(found, children[p.pid]...)
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
func (s *servers) killEach(all map[int]process) error {
	var errs []error
	for pid, found := range all {
		s.dying[pid] = found.Start
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it is gone
		}
		if procfs.ReadStat(pid).Start == found.Start {
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("process %d: %w", pid, err))
			}
		}
		_ = unix.Close(fd)
	}
	return errors.Join(errs...)
}

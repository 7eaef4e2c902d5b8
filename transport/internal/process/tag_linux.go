package process

import (
	"crypto/rand"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A process tag names one server of one host process. It is written in two places
// that all descendants of the server inherit, so a daemon that has left the process
// group and its parent is still found.
//
//   - A variable in the environment. A program that clears its environment, or starts
//     another program with an empty one, removes it.
//   - The soft limit RLIMIT_RTTIME. It is the CPU time, in microseconds, that a process
//     "scheduled under a real-time scheduling policy may consume without making a
//     blocking system call" (getrlimit(2)). The tag is a number of microseconds that
//     make more than a hundred thousand years, so it limits nothing. "A child process
//     created via fork(2) inherits its parent's resource limits. Resource limits are
//     preserved across execve(2)" (getrlimit(2)). So it survives setsid(2) and
//     daemon(3). /proc/PID/limits shows it for every process, also for a zombie, and
//     reading that takes no lock of the process. Only a program that sets
//     this limit removes it.
const tagVar = "MCPVISOR_PROCESS_TAG"

// hostTag begins the value of tagVar in everything that this host process starts.
var hostTag = func() string {
	id := make([]byte, 12)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id) + "-"
}()

// The tag in RLIMIT_RTTIME has 19 decimal digits. From the left: a 4, eleven random
// digits of this host process, and seven of the server.
const (
	limitTagBase    = 4_000_000_000_000_000_000
	limitTagServers = 10_000_000
	limitTagHosts   = 100_000_000_000
)

// hostLimitTag is the tag of server 0 of this host. limitTagPrefix is how the tags of
// all its servers begin in /proc/PID/limits.
var (
	hostLimitTag = func() uint64 {
		n, _ := rand.Int(rand.Reader, big.NewInt(limitTagHosts)) // never fails
		return limitTagBase + n.Uint64()*limitTagServers
	}()
	limitTagPrefix = " " + strconv.FormatUint(hostLimitTag/limitTagServers, 10)
)

var lastTag atomic.Uint64

// newTag returns the tag of one more server.
func newTag() string { return tagOf(lastTag.Add(1)) }

// tagOf returns the tag of server n. Numbers start again after limitTagServers.
func tagOf(n uint64) string { return hostTag + strconv.FormatUint(n%limitTagServers, 10) }

// tagEntry returns the variable that carries a tag, as "NAME=value".
func tagEntry(tag string) string { return tagVar + "=" + tag }

// tagDescendants sets the tag in the limits of a server and of its descendants, which
// are found by parent ids. Children inherit it by themselves, except for those that the
// server forks before it has the tag or just then. So this is done once more after a
// moment (retagDelay), or before the server is ended if that is sooner.
func tagDescendants(pid int, tag string) {
	number, ok := limitTagOf(tag)
	if !ok {
		return
	}
	buf := make([]byte, 4096)
	treeTagger{
		stat:     func(pid int) procStat { st, _ := readStat(pid, buf); return st },
		children: func(pid int) []int { return childrenOf(pid, buf) },
		set:      setLimitTag,
	}.run(pid, number)
}

// tagServer sets the tag in the limits of a server that was just started. It has forked
// nothing yet, as a rule: then its descendants need not be searched.
func tagServer(pid int, tag string) {
	number, ok := limitTagOf(tag)
	if !ok {
		return
	}
	setLimitTag(pid, number)
	children, _ := readProcFile(procPath(pid, "task/"+strconv.Itoa(pid)+"/children"), make([]byte, 64))
	if len(children) > 0 {
		tagDescendants(pid, tag)
	}
}

// limitTagOf returns the form of a tag that limits hold; false for the empty tag.
func limitTagOf(tag string) (number uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(tag, hostTag), 10, 64)
	return hostLimitTag + n%limitTagServers, tag != "" && err == nil
}

// treeTagger tags a process and its descendants. Its functions are those of the
// system, or of a test.
type treeTagger struct {
	stat     func(pid int) procStat
	children func(pid int) []int
	set      func(pid int, tag uint64) (changed bool)
}

// processRef identifies a process by its id and its start time. The id alone does
// not: the id of a process that is not our child can be reused at any time.
type processRef struct {
	pid   int
	start string
}

// run tags a child of ours that is not reaped, and its descendants.
func (t treeTagger) run(pid int, tag uint64) {
	t.set(pid, tag)
	for queue := []processRef{{pid, t.stat(pid).start}}; len(queue) > 0; queue = queue[1:] {
		parent := queue[0]
		for _, child := range t.childrenOf(parent) {
			before := t.stat(child)
			if before.parent != parent.pid {
				continue // the child has ended, and its id may belong to another process
			}
			changed := t.set(child, tag)
			if after := t.stat(child); changed && after.exists && after.start != before.start {
				t.set(child, unix.RLIM_INFINITY) // the id was reused meanwhile: undo
				continue
			}
			queue = append(queue, processRef{child, before.start})
		}
	}
}

// childrenOf returns the children of a process; none if it has ended before or while
// they were read.
func (t treeTagger) childrenOf(parent processRef) []int {
	if t.stat(parent.pid).start != parent.start {
		return nil
	}
	children := t.children(parent.pid)
	if t.stat(parent.pid).start != parent.start {
		return nil
	}
	return children
}

// setLimitTag sets the tag in the limits of a process (prlimit(2)) and reports whether
// it has changed them. It leaves a process alone that has set this limit for a purpose
// of its own. It fails for a process of another user, such as a set-user-ID program;
// the variable in the environment has to do there.
func setLimitTag(pid int, tag uint64) bool {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil {
		return false
	}
	if limit.Cur == tag || limit.Cur != unix.RLIM_INFINITY && limit.Cur < limitTagBase {
		return false
	}
	limit.Cur = tag
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, nil) == nil
}

package descendants

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

// A process tag names one server of one host process. It is written in two places that all
// descendants of the server inherit. So a daemon that has left its process group and its
// parent is still found.
//
//   - A variable in the environment. A program that clears its environment, or starts
//     another program with an empty one, removes it.
//   - The soft limit RLIMIT_RTTIME. It is the CPU time, in microseconds, that a process
//     "scheduled under a real-time scheduling policy may consume without making a
//     blocking system call" (getrlimit(2)). The tag is a number of microseconds that
//     make more than a hundred thousand years, so it limits nothing. "A child process
//     created via fork(2) inherits its parent's resource limits. Resource limits are
//     preserved across execve(2)" (getrlimit(2)). So it survives setsid(2) and
//     daemon(3). /proc/PID/limits shows it for every process, even a zombie, and reading
//     that takes no lock of the process. Only a program that sets this limit removes it.
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

// newTag returns the tag for the next server.
func newTag() string { return tagOf(lastTag.Add(1)) }

// tagOf returns the tag of server n. Numbers start again after limitTagServers.
func tagOf(n uint64) string { return hostTag + strconv.FormatUint(n%limitTagServers, 10) }

// tagEntry returns the variable that carries a tag, as "NAME=value".
func tagEntry(tag string) string { return tagVar + "=" + tag }

// tagDescendants sets the tag in the limits of a server and of its descendants, which it
// finds by parent ids. The empty tag means none.
func tagDescendants(pid int, tag string) {
	number, ok := limitTagOf(tag)
	if !ok {
		return
	}
	buf := make([]byte, 4096)
	treeTagger{
		stat:     func(pid int) procfs.Stat { st, _ := readStat(pid, buf); return st },
		children: func(pid int) []int { return childrenOf(pid, buf) },
		set:      setLimitTag,
	}.run(pid, number)
}

// tagServer sets the tag in the limits of a server that was just started. As a rule that
// has forked nothing yet, which one file tells; otherwise its descendants are tagged, too.
func tagServer(pid int, tag string) {
	number, ok := limitTagOf(tag)
	if !ok {
		return
	}
	setLimitTag(pid, number)
	children, _ := readProcFile(procfs.Path(pid, "task/"+strconv.Itoa(pid)+"/children"), make([]byte, 64))
	if len(children) > 0 {
		tagDescendants(pid, tag)
	}
}

// limitTagOf returns a tag as the number that limits hold; false for the empty tag.
func limitTagOf(tag string) (number uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(tag, hostTag), 10, 64)
	return hostLimitTag + n%limitTagServers, tag != "" && err == nil
}

// treeTagger tags a process and its descendants. Its functions are those of the system,
// or of a test.
type treeTagger struct {
	stat     func(pid int) procfs.Stat
	children func(pid int) []int
	set      func(pid int, tag uint64) (changed bool)
}

// startedProcess identifies a process by its id and its start time. The id alone does not:
// the id of a process that is not our child can be given to another one at any time.
type startedProcess struct {
	pid   int
	start string
}

// run tags a child of this process that is not reaped, and its descendants.
func (t treeTagger) run(pid int, tag uint64) {
	t.set(pid, tag)
	for queue := []startedProcess{{pid, t.stat(pid).Start}}; len(queue) > 0; queue = queue[1:] {
		parent := queue[0]
		for _, child := range t.childrenOf(parent) {
			before := t.stat(child)
			if before.Parent != parent.pid {
				continue // the child has ended, and its id may belong to another process
			}
			changed := t.set(child, tag)
			if after := t.stat(child); changed && after.Exists() && after.Start != before.Start {
				t.set(child, unix.RLIM_INFINITY) // the id was reused meanwhile: undo
				continue
			}
			queue = append(queue, startedProcess{child, before.Start})
		}
	}
}

// childrenOf returns the children of a process; none if it ended before they were read.
func (t treeTagger) childrenOf(parent startedProcess) []int {
	if t.stat(parent.pid).Start != parent.start {
		return nil
	}
	children := t.children(parent.pid)
	if t.stat(parent.pid).Start != parent.start {
		return nil
	}
	return children
}

// setLimitTag sets the tag in the limits of a process (prlimit(2)) and reports whether it
// has changed them. If a program has set this limit for a purpose of its own, the limit
// stays. Those of another user, as of a set-user-ID program, cannot be set: there the
// variable in the environment has to suffice.
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

// envState says what a process shows of its environment.
//
// The environment and the arguments of a process are read from its memory. During exec,
// between the old program image and the new one, both are empty. A process that shows
// arguments and no environment was either started with an empty one, or is just receiving
// both; a second reading tells.
type envState int

const (
	envFinal    envState = iota // it was read; or the process is dead or not readable
	envArgsOnly                 // arguments, and no environment
	envHidden                   // neither
)

// readTagOnce returns the tag of a process; empty if it has none, or one of another host. It
// does not wait for the end of exec, but reading an environment can hang for as long as the
// process holds its memory lock. The only error is a lack of descriptors.
func readTagOnce(pid int, buf []byte) (tag string, state envState, err error) {
	if tag, err = limitTag(pid, buf); tag != "" || err != nil {
		return tag, envFinal, err
	}
	return environTag(pid, buf)
}

// limitTag returns the tag in the limits of a process (proc_pid_limits(5)). A zombie
// still has it.
func limitTag(pid int, buf []byte) (string, error) {
	text, err := readProcFile(procfs.Path(pid, "limits"), buf)
	if err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(text, []byte(limitTagPrefix))
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	if n, err := strconv.ParseUint(string(digits[:min(len(digits), 20)]), 10, 64); err == nil && n < limitTagServers {
		return tagOf(n), nil
	}
	return "", nil
}

// maxEnviron is longer than any environment.
const maxEnviron = 64 << 20

// environTag returns the tag in the environment of a process (proc_pid_environ(5)).
func environTag(pid int, buf []byte) (string, envState, error) {
	whole, err := readProcFile(procfs.Path(pid, "environ"), buf)
	if err != nil {
		return "", envFinal, err
	}
	if whole != nil && len(whole) == 0 && hasMemory(pid, buf) {
		args, err := readProcFile(procfs.Path(pid, "cmdline"), buf)
		if len(args) > 0 {
			return "", envArgsOnly, err
		}
		return "", envHidden, err
	}
	for len(whole) == len(buf) && len(buf) < maxEnviron { // a large one, which is rare
		buf = make([]byte, 4*len(buf))
		if whole, err = readProcFile(procfs.Path(pid, "environ"), buf); err != nil {
			return "", envFinal, err
		}
	}
	_, rest, ok := bytes.Cut(whole, []byte(tagVar+"="+hostTag))
	if !ok {
		return "", envFinal, nil
	}
	number, _, _ := strings.Cut(string(rest[:min(len(rest), 32)]), "\x00")
	return hostTag + number, envFinal, nil
}

// hasMemory reports whether a process has memory of its own: zombies and kernel
// threads have none (proc_pid_statm(5)).
func hasMemory(pid int, buf []byte) bool {
	pages, _ := readProcFile(procfs.Path(pid, "statm"), buf)
	return len(pages) > 0 && pages[0] != '0'
}

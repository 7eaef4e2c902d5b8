package transport

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A server and all its descendants are known by two marks. Both are inherited,
// so they find a daemon that has left the process group, and its parent.
//
//   - A variable in the environment. A program that clears its environment, or
//     starts another one with a clean one, takes it away.
//   - The soft limit of RLIMIT_RTTIME, a bound on the time that a process with a
//     real-time scheduling policy may compute without a pause. The value is a
//     number of microseconds beyond a hundred thousand years: it limits nothing, and
//     is as good as a name. It stays over exec, setsid and daemon, can be read of any
//     process and also of a zombie, and reading it waits for no lock of the process.
//     Only a program that sets this very limit takes it away.
const lineageVar = "MCPVISOR_LINEAGE"

// hostMark begins the value of lineageVar in everything that this process starts.
var hostMark = func() string {
	id := make([]byte, 12)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id) + "-"
}()

// The mark in RLIMIT_RTTIME has 19 decimal digits: 4, eleven of this host process,
// and seven of the server.
const (
	limitBase    = 4_000_000_000_000_000_000
	limitServers = 10_000_000
	limitHosts   = 100_000_000_000
)

// hostLimit is the mark of server 0, and limitPrefix how the marks of all servers
// of this process begin in /proc/PID/limits.
var (
	hostLimit = func() uint64 {
		n, _ := rand.Int(rand.Reader, big.NewInt(limitHosts)) // never fails
		return limitBase + n.Uint64()*limitServers
	}()
	limitPrefix = " " + strconv.FormatUint(hostLimit/limitServers, 10)
)

var lineages atomic.Uint64

// newLineage is the value for one more server.
func newLineage() string { return lineageName(lineages.Add(1)) }

func lineageName(n uint64) string { return hostMark + strconv.FormatUint(n%limitServers, 10) }

// lineageEntry is what a server's environment gets for it.
func lineageEntry(lineage string) string { return lineageVar + "=" + lineage }

// markDescendants gives a server the mark in its limits, and all its descendants by
// parent number. A child inherits the mark, save for those that are forked before
// the server has it, or in that moment; so this is done again when that is over, and
// before the server is ended.
func markDescendants(pid int, lineage string) {
	n, err := strconv.ParseUint(strings.TrimPrefix(lineage, hostMark), 10, 64)
	if lineage == "" || err != nil {
		return
	}
	buf := make([]byte, 4096)
	familyMarker{
		stat:     func(pid int) procStat { st, _ := statOf(pid, buf); return st },
		children: func(pid int) []int { return childrenOf(pid, buf) },
		mark:     setLimitMark,
	}.run(pid, hostLimit+n%limitServers)
}

// familyMarker marks a process and its descendants.
type familyMarker struct {
	stat     func(pid int) procStat
	children func(pid int) []int
	mark     func(pid int, mark uint64) bool
}

// relative is a process, known by its number and its start time: the number of one that
// is no child of ours may be another's at any time.
type relative struct {
	pid   int
	start string
}

// run marks a child of ours that is not reaped, and its descendants.
func (m familyMarker) run(pid int, mark uint64) {
	m.mark(pid, mark)
	for family := []relative{{pid, m.stat(pid).start}}; len(family) > 0; family = family[1:] {
		parent := family[0]
		for _, child := range m.childrenOf(parent) {
			before := m.stat(child)
			if before.parent != parent.pid {
				continue // it has ended; its number may be another's
			}
			marked := m.mark(child, mark)
			if after := m.stat(child); marked && after.exists && after.start != before.start {
				m.mark(child, unix.RLIM_INFINITY)
				continue
			}
			family = append(family, relative{child, before.start})
		}
	}
}

// childrenOf are the children of a process, unless it has ended before they were read.
func (m familyMarker) childrenOf(parent relative) []int {
	if m.stat(parent.pid).start != parent.start {
		return nil
	}
	children := m.children(parent.pid)
	if m.stat(parent.pid).start != parent.start {
		return nil
	}
	return children
}

// setLimitMark reports whether it has changed anything. A process is left alone
// that has a limit which is no mark, and one whose limits are not ours to change, as
// those of a set-uid program: there the environment has to do.
func setLimitMark(pid int, mark uint64) bool {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil {
		return false
	}
	if limit.Cur == mark || limit.Cur != unix.RLIM_INFINITY && limit.Cur < limitBase {
		return false
	}
	limit.Cur = mark
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, nil) == nil
}

// lineageOf reads the marks of a process, and waits for one that is in the midst of
// exec. Marks of other hosts and of other users count as no marks. Reading the
// environment may hang, for as long as the process holds its memory lock; err is only
// of a want of descriptors.
func lineageOf(pid int, buf []byte) (lineage string, err error) {
	lineage, shown, err := lineageNow(pid, buf)
	for until := time.Now().Add(execMost); !shown.isFinal() && err == nil && time.Now().Before(until); {
		before := shown
		time.Sleep(execPause)
		if lineage, shown, err = lineageNow(pid, buf); before == showsArguments {
			break
		}
	}
	return lineage, err
}

// shownMemory is how much a process shows of its memory. In the midst of exec, between
// the old image and the new one, it shows neither an environment nor arguments. One
// that shows arguments only has no environment, unless it has just got both: its
// environment is read once more.
type shownMemory int

const (
	showsEnviron shownMemory = iota // or is dead, or may not be read
	showsArguments
	showsNothing
)

// isFinal reports whether another reading would show the same.
func (s shownMemory) isFinal() bool { return s == showsEnviron }

// lineageNow reads the marks of a process and waits for nothing.
func lineageNow(pid int, buf []byte) (lineage string, shown shownMemory, err error) {
	if lineage, err = limitMark(pid, buf); lineage != "" || err != nil {
		return lineage, showsEnviron, err
	}
	return environMark(pid, buf)
}

// limitMark is the mark in the limits. The dead have it, too.
func limitMark(pid int, buf []byte) (string, error) {
	text, err := readAtOnce(procPath(pid, "limits"), buf)
	if err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(text, []byte(limitPrefix))
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	if n, err := strconv.ParseUint(string(digits[:min(len(digits), 20)]), 10, 64); err == nil && n < limitServers {
		return lineageName(n), nil
	}
	return "", nil
}

// environMost is more than any environment has.
const environMost = 64 << 20

// environMark is the mark in the environment.
func environMark(pid int, buf []byte) (string, shownMemory, error) {
	whole, err := readAtOnce(procPath(pid, "environ"), buf)
	if err != nil {
		return "", showsEnviron, err
	}
	if whole != nil && len(whole) == 0 && hasMemory(pid, buf) {
		args, err := readAtOnce(procPath(pid, "cmdline"), buf)
		if len(args) > 0 {
			return "", showsArguments, err
		}
		return "", showsNothing, err
	}
	for len(whole) == len(buf) && len(buf) < environMost { // a large one, which is rare
		buf = make([]byte, 4*len(buf))
		if whole, err = readAtOnce(procPath(pid, "environ"), buf); err != nil {
			return "", showsEnviron, err
		}
	}
	_, rest, ok := bytes.Cut(whole, []byte(lineageVar+"="+hostMark))
	if !ok {
		return "", showsEnviron, nil
	}
	number, _, _ := strings.Cut(string(rest[:min(len(rest), 32)]), "\x00")
	return hostMark + number, showsEnviron, nil
}

// execMost is how long a process is waited for that is in the midst of exec, and
// execPause how long between two readings of it.
const (
	execMost  = 250 * time.Millisecond
	execPause = 200 * time.Microsecond
)

// hasMemory reports whether a process is neither dead nor a thread of the kernel's.
func hasMemory(pid int, buf []byte) bool {
	pages, _ := readAtOnce(procPath(pid, "statm"), buf)
	return len(pages) > 0 && pages[0] != '0'
}

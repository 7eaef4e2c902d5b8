package transport

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// lineageVar is in the environment of every server, and so in that of all its
// descendants: by its value a daemon that has left the process group, and its
// parent, is still known.
const lineageVar = "MCPVISOR_LINEAGE"

// hostMark begins the value in everything that this process starts.
var hostMark = func() string {
	id := make([]byte, 12)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id) + "-"
}()

var lineages atomic.Int64

// newLineage is the value for one more server.
func newLineage() string { return hostMark + strconv.FormatInt(lineages.Add(1), 10) }

// lineageEntry is what a server's environment gets for it.
func lineageEntry(lineage string) string { return lineageVar + "=" + lineage }

// endLineage kills every process of a lineage and waits until they have ended.
// The server itself is dead, so only what it left behind can fork.
func endLineage(lineage string) {
	for range endRounds {
		pids := census.take()[lineage]
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			if !killDescendant(pid, lineage) {
				return
			}
		}
	}
}

// endRounds is how often descendants are looked for. What forks in between is
// found in the next round; a fork bomb is not for us to win.
const endRounds = 8

// killDescendant kills a process, unless its number has been given to somebody
// else meanwhile: the mark is read again while a pidfd holds the number. It
// reports false for one that cannot be killed.
func killDescendant(pid int, lineage string) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true // it is gone
	}
	defer func() { _ = unix.Close(fd) }()
	if lineageOf(pid, nil) != lineage {
		return true
	}
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	for wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}; ; {
		if n, err := unix.Poll(wait, int(killGrace.Milliseconds())); err != unix.EINTR {
			return n > 0
		}
	}
}

// census counts the descendants of this process, by lineage. Those who ask at
// the same time share one look at the process table.
var census headcount

type headcount struct {
	mu   sync.Mutex
	next *look
	// children are the servers that have not been reaped. They are no descendants
	// that anybody looks for, and where there are many they are most of what there
	// is to read.
	children map[int]bool

	busy sync.Mutex
	buf  []byte
	rest time.Time // when the next look may begin
}

// A look is followed by share times as long, at most longestRest, without one:
// when many servers end at once, their dying is not slowed down by being watched.
const (
	share       = 4
	longestRest = 50 * time.Millisecond
)

type look struct {
	done  chan struct{}
	found map[string][]int
}

// born notes a server, and reaped that its number may be another's from now on:
// it comes before that.
func (h *headcount) born(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.children == nil {
		h.children = map[int]bool{}
	}
	h.children[pid] = true
}

func (h *headcount) reaped(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.children, pid)
}

func (h *headcount) isChild(pid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.children[pid]
}

// take is what the process table says at some moment after the call.
func (h *headcount) take() map[string][]int {
	h.mu.Lock()
	l, first := h.next, h.next == nil
	if first {
		l = &look{done: make(chan struct{})}
		h.next = l
	}
	h.mu.Unlock()
	if !first {
		<-l.done
		return l.found
	}
	h.busy.Lock()
	time.Sleep(time.Until(h.rest))
	h.mu.Lock()
	h.next = nil // whoever comes now wants a later one
	h.mu.Unlock()
	began := time.Now()
	l.found = h.descendants()
	h.rest = time.Now().Add(min(share*time.Since(began), longestRest))
	h.busy.Unlock()
	close(l.done)
	return l.found
}

func (h *headcount) descendants() map[string][]int {
	found := map[string][]int{}
	dir, err := os.Open("/proc")
	if err != nil {
		return found
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	if h.buf == nil {
		h.buf = make([]byte, 64<<10)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || h.isChild(pid) {
			continue
		}
		if lineage := lineageOf(pid, h.buf); lineage != "" {
			found[lineage] = append(found[lineage], pid)
		}
	}
	return found
}

// lineageOf reads the mark of a process. Those of other hosts, of other users
// and of the dead have none for us.
func lineageOf(pid int, buf []byte) string {
	dir := "/proc/" + strconv.Itoa(pid)
	if buf == nil {
		buf = make([]byte, 64<<10)
	}
	whole := readAtOnce(dir+"/environ", buf)
	if whole != nil && len(whole) == 0 && hasMemory(dir, buf) {
		whole = environAfterExec(dir, buf)
	}
	if len(whole) == len(buf) { // a large one, which is rare
		whole, _ = os.ReadFile(dir + "/environ")
	}
	_, rest, ok := bytes.Cut(whole, []byte(lineageVar+"="+hostMark))
	if !ok {
		return ""
	}
	number, _, _ := strings.Cut(string(rest[:min(len(rest), 32)]), "\x00")
	return hostMark + number
}

// execMost is how long a process is waited for that is in the midst of exec, and
// execPause how long between two looks at it.
const (
	execMost  = 250 * time.Millisecond
	execPause = 200 * time.Microsecond
)

// hasMemory reports whether a process is neither dead nor a thread of the kernel's.
func hasMemory(dir string, buf []byte) bool {
	pages := readAtOnce(dir+"/statm", buf)
	return len(pages) > 0 && pages[0] != '0'
}

// environAfterExec is the environment of a process that has just shown none. In
// the midst of exec, between the old image and the new one, it shows no arguments
// either; one that has some has no environment indeed, unless it has just got both.
func environAfterExec(dir string, buf []byte) (environ []byte) {
	for until := time.Now().Add(execMost); len(environ) == 0 && time.Now().Before(until); {
		settled := len(readAtOnce(dir+"/cmdline", buf)) > 0
		time.Sleep(execPause)
		if environ = readAtOnce(dir+"/environ", buf); settled {
			break
		}
	}
	return environ
}

// readAtOnce reads a file in /proc, or as much of it as there is room for. nil is
// of one that may not be read.
func readAtOnce(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	n, _ := unix.Read(fd, buf)
	return buf[:max(n, 0)]
}

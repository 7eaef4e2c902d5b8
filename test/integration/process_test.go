//go:build linux

package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// markVar is in the environment of every process that a test starts, and of
// what those start in turn: by it an orphan is found wherever it has gone.
const markVar = "MCPVISOR_INTEGRATION_MARK"

// marked reports whether a process carries the mark. A process that has died
// has no environment any more.
func marked(pid int, mark string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && slices.Contains(strings.Split(string(environ), "\x00"), markVar+"="+mark)
}

// processes lists the living processes that carry the mark.
func processes(mark string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && marked(pid, mark) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// children lists the processes whose parent we are, zombies included, as
// "pid state".
func children() []string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var out []string
	for _, path := range stats {
		if state, parent := readStat(path); parent == strconv.Itoa(os.Getpid()) {
			out = append(out, filepath.Base(filepath.Dir(path))+" "+state)
		}
	}
	return out
}

// readStat reads the state and the parent from a stat file in /proc; both are
// empty if the process is gone.
func readStat(path string) (state, parent string) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	// The command stands in brackets and may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return "", ""
	}
	return string(fields[0]), string(fields[1])
}

// stopped reports whether every thread of a process is stopped. SIGSTOP takes
// effect when one of them gets around to it; the others run until then.
func stopped(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, path := range threads {
		if state, _ := readStat(path); state != "T" {
			return false
		}
	}
	return len(threads) > 0
}

// signalMarked signals a process, unless it is gone or its pid was reused: the mark is read
// while a pidfd holds the pid.
func signalMarked(pid int, mark string, sig syscall.Signal) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return marked(pid, mark) && p.Signal(sig) == nil
}

// descriptors is what this process holds open, by what it refers to. The
// poller of the runtime is opened once and never closed; it is left out.
func descriptors() map[string]bool {
	links, _ := filepath.Glob("/proc/self/fd/*")
	open := map[string]bool{}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err == nil && to != "anon_inode:[eventpoll]" && to != "anon_inode:[eventfd]" && !strings.HasSuffix(to, "/fd") {
			open[filepath.Base(link)+" "+to] = true
		}
	}
	return open
}

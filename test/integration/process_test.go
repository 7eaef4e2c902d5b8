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

// markVar is an environment variable of every process that a test starts. Descendants
// inherit it, so orphans are found by it.
const markVar = "MCPVISOR_INTEGRATION_MARK"

// marked reports whether a process carries the mark. A process that has died has no
// environment.
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

// children lists the children of this process, zombies included, as "pid state".
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
	// The command is in parentheses and may contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return "", ""
	}
	return string(fields[0]), string(fields[1])
}

// stopped reports whether every thread of a process is stopped. After SIGSTOP threads
// run on until each of them handles the signal.
func stopped(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, path := range threads {
		if state, _ := readStat(path); state != "T" {
			return false
		}
	}
	return len(threads) > 0
}

// signalMarked signals a process, unless it has ended or its pid was reused: a pidfd
// holds the pid while the mark is read.
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

// descriptors returns the open descriptors of this process and what they refer to. The
// poller of the Go runtime is left out: it is opened once and never closed.
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

//go:build linux

package fleettest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// processesOf returns the processes that have an entry in their environment, and are no zombies.
func processesOf(entry string) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A zombie has no environment any longer.
		environment, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil {
			continue
		}
		for item := range bytes.SplitSeq(environment, []byte{0}) {
			if string(item) == entry {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// guardOf returns the guard of the process of a node, which is the same program; 0: it has none.
func guardOf(node int) int {
	own, _ := os.Readlink("/proc/self/exe")
	for _, pid := range processesOf(roleName + "=" + roleNode) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if exe == own && bytes.Contains(status, fmt.Appendf(nil, "\nPPid:\t%d\n", node)) {
			return pid
		}
	}
	return 0
}

// describe says what a process is.
func describe(pid int) string {
	environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	about := fmt.Sprint("process ", pid)
	for item := range bytes.SplitSeq(environment, []byte{0}) {
		for _, name := range []string{roleName, serverName} {
			if value, ok := bytes.CutPrefix(item, []byte(name+"=")); ok {
				about += " " + string(value)
			}
		}
	}
	return about
}

// peakBytes is the most memory that a process has had resident; 0: unknown.
func peakBytes(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	var kilobytes int
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes << 10
}

// cpuTime is how long a process has used a CPU; 0 if there is no such process.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third one on
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // 100 ticks a second on all Linux systems that Go knows
}

//go:build linux

package fleettest

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

// processesOf returns the processes that have an entry in their environment, and are no zombies.
func processesOf(entry string) (found []int) {
	pids, _ := procfs.PIDs()
	for _, pid := range pids {
		if pid != os.Getpid() && procfs.HasEntry(pid, entry) {
			found = append(found, pid)
		}
	}
	return found
}

// guardOf returns the guard of the process of a node, which is the same program; 0: it has none.
func guardOf(node int) int {
	own, _ := os.Readlink("/proc/self/exe")
	for _, pid := range processesOf(roleName + "=" + roleNode) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if exe == own && procfs.ReadStat(pid).Parent == node {
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

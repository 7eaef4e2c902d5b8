package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// searchesProcesses: this system shows what a server leaves behind.
const searchesProcesses = true

// process identifies a process, also when its pid is used again.
type process struct {
	pid   int
	start string // clock ticks since the system was booted
}

// signalChild signals a child of this process, and nothing else. A pidfd holds the process
// while its parent is read, so a pid that was used again is not hit.
func signalChild(pid int, sig signal) bool {
	return signalIf(pid, sig, func() bool {
		_, _, parent := readStat(pid)
		return parent == strconv.Itoa(os.Getpid())
	})
}

// kill kills a process of [processesOf], unless it has ended.
func (p process) kill() {
	signalIf(p.pid, sigKill, func() bool {
		_, start, _ := readStat(p.pid)
		return start == p.start
	})
}

// alive reports whether the process runs. A zombie does not.
func (p process) alive() bool {
	state, start, _ := readStat(p.pid)
	return start == p.start && state != "Z" && state != "X"
}

// processesOf returns the living processes whose environment has the entry, as "NAME=value".
func processesOf(entry string) (all []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+entry+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if _, start, _ := readStat(pid); err == nil && start != "" {
			all = append(all, process{pid, start})
		}
	}
	return all
}

// readStat reads /proc/PID/stat (proc_pid_stat(5)); all are empty if the process is gone.
func readStat(pid int) (state, start, parent string) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", ""
	}
	// The command is in parentheses and may contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", "", ""
	}
	return string(fields[0]), string(fields[19]), string(fields[1])
}

package chaos

import (
	"os"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
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
	return signalIf(pid, sig, func() bool { return procfs.ReadStat(pid).Parent == os.Getpid() })
}

// kill kills a process of [processesOf], unless it has ended.
func (p process) kill() {
	signalIf(p.pid, sigKill, func() bool { return procfs.ReadStat(p.pid).Start == p.start })
}

// alive reports whether the process runs. A zombie does not.
func (p process) alive() bool {
	st := procfs.ReadStat(p.pid)
	return st.Start == p.start && !st.Dead
}

// processesOf returns the living processes whose environment has the entry, as "NAME=value".
func processesOf(entry string) (all []process) {
	pids, _ := procfs.PIDs()
	for _, pid := range pids {
		if procfs.HasEntry(pid, entry) {
			if st := procfs.ReadStat(pid); st.Exists() {
				all = append(all, process{pid, st.Start})
			}
		}
	}
	return all
}

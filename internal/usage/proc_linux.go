package usage

import (
	"strconv"

	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

// maxProcesses bounds a sample: on a system with more processes nothing is known.
const maxProcesses = 32 << 10

// readProcesses reads all processes that can be seen.
func readProcesses() []process {
	pids, err := procfs.PIDs()
	if err != nil || len(pids) > maxProcesses {
		return nil
	}
	processes := make([]process, 0, len(pids))
	for _, pid := range pids {
		if st := procfs.ReadStat(pid); st.Exists() {
			start, _ := strconv.ParseUint(st.Start, 10, 64)
			processes = append(processes, process{pid: pid, parent: st.Parent, group: st.Group, start: start, cpu: st.CPU, memory: st.Memory})
		}
	}
	return processes
}

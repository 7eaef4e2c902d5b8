package mcptest

import (
	"github.com/mcpvisor/mcpvisor/test/fixture/process"
	"github.com/mcpvisor/mcpvisor/test/fixture/statedir"
)

// Starts returns how many incarnations have started with this StateDir; 0 if dir is not
// a StateDir.
func Starts(dir string) int { return statedir.Starts(dir) }

// Executions returns how often the tool count has run with this StateDir, by the key
// it was called with. A count above 1 for a key that was called once shows a call
// that ran twice.
func Executions(dir string) map[string]int { return statedir.Executions(dir) }

// PIDs returns every process that was started with this StateDir, servers and grandchildren, in
// the order of their start. Many may have ended; see [Alive].
func PIDs(dir string) []int { return statedir.PIDs(dir) }

// Alive reports whether a process runs. A zombie, which has ended but was not waited
// for, is not alive.
func Alive(pid int) bool { return process.Alive(pid) }

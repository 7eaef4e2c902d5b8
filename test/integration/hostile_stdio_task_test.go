//go:build linux

package integration

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// taskRow is a row about a task: servers make tasks without being asked since 2026-07-28. The
// id of the task is shown nowhere, and no task stays open.
func taskRow(r stdioRow, texts ...string) stdioRow {
	r.eras = []mcpvisor.Era{mcpvisor.EraModern}
	check := r.check
	r.check = func(v *stdioRun) {
		if check != nil {
			check(v)
		}
		require.Empty(v.t, v.c.Tasks())
		if v.failure == nil {
			return
		}
		require.NotContains(v.t, v.failure.Error(), hostile.TaskID)
		for _, text := range texts {
			require.Contains(v.t, v.failure.Error(), text)
		}
	}
	return r
}

// boundedCall bounds a call as a whole.
func boundedCall(s *mcpvisor.ServerSpec) { s.Timeouts.CallTotal = 300 * time.Millisecond }

var failedTask = stdioRow{end: failsWith(mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown)}

var stdioTaskRows = map[string]stdioRow{
	"task/never-ends":     taskRow(stdioRow{spec: boundedCall, end: timesOut}, "Timeouts.CallTotal"),
	"task/no-id":          taskRow(failedTask, `no "taskId"`),
	"task/other-id":       taskRow(failedTask, "for another task"),
	"task/back":           taskRow(harmless),
	"task/no-result":      taskRow(failedTask, "does not hold what came of it"),
	"task/key-twice":      taskRow(stdioRow{spec: boundedCall, end: timesOut}, "Timeouts.CallTotal"),
	"task/times-negative": taskRow(harmless),
	"task/ttl-over":       taskRow(harmless),
	"task/forgotten":      taskRow(stdioRow{end: failsWith(mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown)}, "does not know the task"),
	"task/oversize":       taskRow(withSmallMessages(checked(stdioRow{end: ending{oneOf: []error{mcpvisor.ErrProtocol}}}, requireOversize))),
	"task/notices":        taskRow(harmless),
}

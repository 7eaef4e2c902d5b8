//go:build linux

package integration

import (
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// taskRow is a row about a task: servers make tasks without being asked since 2026-07-28. The
// id of the task is shown nowhere, and no task stays open.
func taskRow(r stdioRow, texts ...string) stdioRow {
	if r.eras == nil {
		r.eras = []mcpvisor.Era{mcpvisor.EraModern}
	}
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

// legacyTaskRow is a taskRow in 2025-11-25.
func legacyTaskRow(r stdioRow, texts ...string) stdioRow {
	r.eras = []mcpvisor.Era{mcpvisor.EraLegacy}
	return taskRow(r, texts...)
}

// startManyTasks starts the tasks of "task/many", and cancels them.
func startManyTasks(v *stdioRun) (*mcp.CallToolResult, error) {
	var all []*facade.Task
	for range hostile.ManyTasks {
		task, err := v.c.StartTask(v.within(), hostileServer+"/"+hostile.BadTool, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, task)
	}
	require.Len(v.t, v.c.Tasks(), hostile.ManyTasks)
	for _, task := range all {
		if err := task.Cancel(v.within()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

var stdioTaskRows = map[string]stdioRow{
	"task/never-ends":     taskRow(stdioRow{spec: boundedCall, end: timesOut}, "Timeouts.CallTotal"),
	"task/no-id":          taskRow(failedTask, `no "taskId"`),
	"task/other-id":       taskRow(failedTask, "for another task"),
	"task/back":           taskRow(harmless),
	"task/no-result":      taskRow(failedTask, "does not hold what came of it"),
	"task/key-twice":      taskRow(stdioRow{spec: boundedCall, end: timesOut}, "Timeouts.CallTotal"),
	"task/times-negative": taskRow(harmless),
	"task/ttl-over":       taskRow(harmless),
	"task/forgotten":      taskRow(stdioRow{end: failsWith(mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown)}, "no longer knows the task"),
	"task/oversize":       taskRow(withSmallMessages(checked(stdioRow{end: ending{oneOf: []error{mcpvisor.ErrProtocol}}}, requireOversize))),
	"task/notices":        taskRow(harmless),
	"task/inputs-endless": taskRow(stdioRow{end: failsWith(mcpvisor.ErrInputRequired, mcpvisor.OutcomeUnknown)}, "more than 256 inputs"),
	"task/key-long":       taskRow(stdioRow{end: failsWith(mcpvisor.ErrInputRequired, mcpvisor.OutcomeUnknown)}, "100000 bytes long"),
	"task/update-refused": taskRow(stdioRow{end: failsWith(mcpvisor.ErrInputRequired, mcpvisor.OutcomeUnknown)}, "the server refuses the answer"),
	"task/many":           taskRow(stdioRow{act: startManyTasks, anyResult: true}),
	"task/told":           taskRow(harmless),
	"task/told-junk":      taskRow(harmless),

	"task/back-legacy":           legacyTaskRow(harmless),
	"task/no-result-legacy":      legacyTaskRow(stdioRow{end: failsWith(mcpvisor.ErrRPC, mcpvisor.OutcomeUnknown)}, "no result of"),
	"task/task-in-result-legacy": legacyTaskRow(failedTask, "is a task again"),
}

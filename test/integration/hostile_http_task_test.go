//go:build linux

package integration

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
)

// asTask is a row about a task. The id of the task is shown nowhere, and no task stays open.
func (r httpRow) asTask() httpRow {
	return r.in(mcpvisor.EraModern).checking(func(s *httpRun) {
		require.Empty(s.t, s.c.Tasks())
		for _, text := range append(s.shown, s.log.String()) {
			require.NotContains(s.t, text, hostilehttp.TaskID)
		}
	})
}

// boundedTask bounds the call as a whole.
func boundedTask(r httpRow) httpRow {
	return r.with("", func(s *mcpvisor.ServerSpec) { s.Timeouts.CallTotal = 300 * time.Millisecond })
}

var httpTaskRows = []httpRow{
	httpTimesOut("task/no-answer").asTask(),
	httpTimesOut("task/stalled").asTask(),
	httpUnreadable("task/html", "a web page").asTask(),
	boundedTask(httpFails("task/unavailable", mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown, "Timeouts.CallTotal")).asTask(),
	httpSucceeds("task/unavailable-briefly").asTask(),
	httpUnreadable("task/404", "404").asTask(),
	httpFails("task/oversize", mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, "MaxMessageBytes").asTask(),
	boundedTask(httpFails("task/never-ends", mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown, "Timeouts.CallTotal")).asTask(),
	httpSucceeds("task/told-flood").asTask(),
	httpSucceeds("task/told-oversize").asTask(),
	httpSucceeds("task/listen-ends").asTask(),
	httpSucceeds("task/listen-refused").asTask(),
	httpSucceeds("task/listen-no-header").asTask(),
}

package top

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Errors of tools and failed calls are two counts, wherever they are shown, and say since when.
func TestCounts_of_tool_errors_and_failed_calls(t *testing.T) {
	f := outage()
	f.status.Servers[0].History, f.status.Servers[0].Gen = nil, 2
	f.status.Servers[0].Calls.Failed = 0
	f.server.Tools = []api.ToolStats{{Server: "files", OriginalName: "read", Calls: 12, ToolErrors: 3}, {Server: "files", OriginalName: "write", Calls: 5, ToolErrors: 1, Failed: map[mcpvisor.ErrorKind]int64{"crashed": 2}}}
	for _, width := range []int{80, 120} {
		m := shown(t, f, width, 24, "t")
		require.Regexp(t, `CALLS TOOL ERR  FAILED`, text(m))
		require.Regexp(t, `read +12 +3 +·`, text(m))
		require.Regexp(t, `write +5 +1 +2`, text(m))
		require.Contains(t, text(m), "calls are counted since its registration")
	}
	require.Contains(t, text(shown(t, f, 120, 24, "t")), " MAX ")
	m := shown(t, f, 120, 24, "enter")
	require.Contains(t, text(m), "12, 0 failed, 4 tool errors, 2 in flight, 1 with unknown outcome; since its registration")
	for gen, before := range map[uint64]time.Duration{1: time.Hour, 2: time.Minute} {
		m.Update(eventMsg{api.Event{Event: mcpvisor.Event{Kind: mcpvisor.EventRegistered, Server: "files", Gen: gen, Time: *ago(before)}}, true})
	}
	require.Contains(t, text(m), "1 with unknown outcome; since 11:59:00", "of this registration, not of the one before")
	f.status.Servers[0].History = []mcpvisor.Incarnation{{Epoch: 1, Started: *ago(2 * time.Hour)}}
	require.Contains(t, text(shown(t, f, 120, 24, "enter")), "since 10:00:00", "its first start")
}

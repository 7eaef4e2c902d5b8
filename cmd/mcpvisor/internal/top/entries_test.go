package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// text is what a view shows, without colours.
func text(m *model) string { return ansi.Strip(m.View().Content) }

// oneLine is text with breaks of lines as spaces.
func oneLine(m *model) string { return strings.Join(strings.Fields(text(m)), " ") }

// ↵ on a call shows its record: time, duration, outcome, client, and what is not
// kept.
func TestCalls_one(t *testing.T) {
	f := outage()
	f.calls.Recent = []mcpvisor.CallRecord{
		{Seq: 1, Server: "files", Target: "pay", Method: "tools/call", Epoch: 3, Began: *ago(time.Minute), Took: 3 * time.Second, Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent},
		{Seq: 2, Server: "files", Target: "read", Method: "tools/call", Began: *ago(time.Second), Took: 4 * time.Millisecond, ToolError: true, Client: "claude \x1b[2J 2.1", ResultBytes: 70},
	}
	f.calls.Unknown = []mcpvisor.CallRecord{{Seq: 3, Server: "files", Target: "charge", Began: clock, Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown},
		{Seq: 4, Server: "files", Target: "charge", Began: clock, Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown}}
	m := shown(t, f, 80, 30, "c")
	for _, want := range [][]string{
		{"▸      40s files/read", "method tools/call outcome not ended: in flight for 40s began 11:59:20"},
		{"▸     1.0s files/ping", "not ended: queued"},
		{"▸ 12:00:00", "call files/charge outcome the call failed, and the server may have executed it: look for its effect before you repeat it error crashed", "2 times in a row", "client none is named"},
		{"▸ 11:59:59", "files/read  one call", "the tool ran, and its result reports an error; the call itself did not fail", "ended 11:59:59, after 4.0ms", "client claude", "arguments not kept", "70 bytes"},
		{"▸ 11:59:03", "the call failed before anything was sent: nothing was executed error unavailable began 11:59:00 ended 11:59:03, after 3.0s", "start 3 of the server"},
	} {
		require.Contains(t, strings.Join(strings.Fields(text(m)), " "), strings.Join(strings.Fields(want[0]), " "))
		typeKeys(t, m, "enter")
		require.NotContains(t, m.View().Content, "\x1b[2J")
		for _, part := range want[1:] {
			require.Contains(t, oneLine(m), strings.Join(strings.Fields(part), " "))
		}
		typeKeys(t, m, "esc")
		require.Equal(t, screenCalls, m.screen)
		typeKeys(t, m, "down")
	}
	require.Contains(t, text(m), "▸ 11:59:03", "the last one")
	f.calls.Recent = f.calls.Recent[:1]
	f.calls.Recent = append(f.calls.Recent, mcpvisor.CallRecord{Seq: 5, Server: "files", Target: "later", Began: clock})
	settle(m, m.read())
	require.Contains(t, text(m), "▸ 11:59:03", "the same call, after a newer one")
	typeKeys(t, m, "enter")
	f.calls.Recent = nil
	settle(m, m.read())
	require.Contains(t, text(m), "files/pay", "what is not kept any more is shown until the user leaves")
	typeKeys(t, m, "esc")
	require.Contains(t, text(m), "▸ 12:00:00")
	typeKeys(t, m, "home")
	require.Contains(t, oneLine(m), "▸ 40s files/read")
}

// The selected call is in view, however many there are.
func TestCalls_scroll_to_the_selection(t *testing.T) {
	m := shown(t, crowd(), 80, 12, "c", "end")
	require.Contains(t, text(m), "▸      0s  files/tool-29")
	typeKeys(t, m, "up", "up", "up", "up", "up", "up", "up", "up", "up", "up", "up", "up")
	require.Contains(t, text(m), "▸      0s  files/tool-17")
	typeKeys(t, m, "home")
	require.Contains(t, text(m), "IN FLIGHT")
}

// changedLists is a source with an event that names what has changed, and one of a server that was
// replaced after it crashed.
func changedLists() *fakeSource {
	f := outage()
	added := &mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{"files/search"}, Removed: []string{"files/find"}}}
	for i := range 40 {
		added.Tools.Changed = append(added.Tools.Changed, fmt.Sprintf("files/tool-%02d", i))
	}
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "no key (exit status 7)", Stderr: []string{"Traceback \x1b[2J", "KeyError: API_KEY", "no key"}}
	f.summaries = api.EventSummaries{Instance: "1", Started: clock}
	for i, e := range []mcpvisor.Event{{Kind: mcpvisor.EventDown, Server: "gone", Epoch: 3, Cause: cause}, {Kind: mcpvisor.EventChanged, Server: "files", Change: added}} {
		e.Seq, e.Time = uint64(i+1), *ago(time.Minute)
		s := mcpvisor.EventSummary{Seq: e.Seq, Began: e.Time, Count: 1, Last: e}
		f.summaries.Summaries = append(f.summaries.Summaries, api.EventSummary{EventSummary: s, Text: s.String(), Last: api.Event{Event: e, Text: e.String(), Severity: e.Severity()}})
	}
	return f
}

// An event says which tools were added, removed and changed, as many as fit; ↵ shows all.
func TestEvents_names(t *testing.T) {
	m := shown(t, changedLists(), 80, 24, "e")
	require.Regexp(t, `files changed: added files/search; removed files/find; changed files/tool-00, .*; and 3\d more`, oneLine(m))
	require.NotContains(t, text(m), "+1")
	require.LessOrEqual(t, len(m.eventEntries()[0].lines), 3)
	typeKeys(t, m, "enter")
	require.Contains(t, oneLine(m), "files/tool-39")
	typeKeys(t, m, "esc")
	require.Equal(t, screenEvents, m.screen)
	f := changedLists()
	m.Update(eventMsg{f.summaries.Summaries[1].Last, true})
	typeKeys(t, m, "o")
	require.Contains(t, oneLine(m), "added files/search")
}

// ↵ on an event shows the stderr of a process whose server is not registered any more.
func TestEvents_stderr_of_a_replaced_server(t *testing.T) {
	m := shown(t, changedLists(), 80, 24, "e", "down", "enter")
	require.Contains(t, text(m), "gone  one event")
	require.Contains(t, oneLine(m), "start 3 cause no key (exit status 7) stderr Traceback")
	require.Contains(t, text(m), "KeyError: API_KEY")
	require.NotContains(t, m.View().Content, "\x1b[2J")
}

// e from a server shows its events, and says how to see all.
func TestEvents_of_one_server(t *testing.T) {
	for _, from := range []string{"enter", "t", "l"} {
		m := shown(t, changedLists(), 80, 24, from)
		was := m.screen
		typeKeys(t, m, "e")
		require.Contains(t, text(m), "files changed")
		require.Contains(t, text(m), "of files, the last first")
		require.Contains(t, text(m), "e all servers")
		require.NotContains(t, text(m), "gone down")
		typeKeys(t, m, "esc")
		require.Equal(t, was, m.screen)
		typeKeys(t, m, "e", "e")
		require.Contains(t, text(m), "gone down")
		require.NotContains(t, text(m), "all servers")
	}
	require.Contains(t, text(shown(t, changedLists(), 80, 24, "e")), "gone down", "from the table: all")
}

// What is known of a call includes why it failed.
func TestCalls_why(t *testing.T) {
	f := outage()
	f.calls = api.Calls{Recent: []mcpvisor.CallRecord{{Seq: 1, Server: "files", Target: "read", Began: clock, Kind: mcpvisor.KindCrashed, Error: "no space \x1b[2J left"}}}
	m := shown(t, f, 80, 24, "c", "enter")
	require.Contains(t, oneLine(m), "error crashed why no space")
	require.NotContains(t, m.View().Content, "\x1b[2J")
}

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

package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/monitor"
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
	f.calls.Recent = []monitor.CallRecord{
		{Seq: 1, Server: "files", Target: "pay", Method: "tools/call", Epoch: 3, Began: *ago(time.Minute), Took: 3 * time.Second, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent},
		{Seq: 2, Server: "files", Target: "read", Method: "tools/call", Began: *ago(time.Second), Took: 4 * time.Millisecond, ToolError: true, Client: "claude \x1b[2J 2.1", ResultBytes: 70},
	}
	f.calls.Unknown = []monitor.CallRecord{{Seq: 3, Server: "files", Target: "charge", Began: clock, Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown},
		{Seq: 4, Server: "files", Target: "charge", Began: clock, Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown}}
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
	f.calls.Recent = append(f.calls.Recent, monitor.CallRecord{Seq: 5, Server: "files", Target: "later", Began: clock})
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
		s := monitor.EventSummary{Seq: e.Seq, Began: e.Time, Count: 1, Last: e}
		f.summaries.Summaries = append(f.summaries.Summaries, api.EventSummary{EventSummary: s, Text: s.String(), Last: api.Event{Event: e, Text: e.String(), Severity: e.Severity()}})
	}
	return f
}

// An event counts the tools that were added, removed and changed; ↵ names them all.
func TestEvents_names(t *testing.T) {
	m := shown(t, changedLists(), 80, 24, "e")
	require.Contains(t, oneLine(m), "files changed: tools +1")
	typeKeys(t, m, "enter")
	require.Regexp(t, `changes added files/search removed files/find changed files/tool-00, .*files/tool-39`, oneLine(m))
	typeKeys(t, m, "esc")
	require.Equal(t, screenEvents, m.screen)
	m.Update(eventMsg{changedLists().summaries.Summaries[1].Last, true})
	typeKeys(t, m, "o")
	require.Contains(t, oneLine(m), "files changed: tools +1")
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
	f.calls = api.Calls{Recent: []monitor.CallRecord{{Seq: 1, Server: "files", Target: "read", Began: clock, Kind: mcpvisor.ErrCrashed, Error: "no space \x1b[2J left"}}}
	m := shown(t, f, 80, 24, "c", "enter")
	require.Contains(t, oneLine(m), "error crashed why no space")
	require.NotContains(t, m.View().Content, "\x1b[2J")
}

// Errors of tools and failed calls are two counts, wherever they are shown.
func TestCounts_of_tool_errors_and_failed_calls(t *testing.T) {
	f := outage()
	f.status.Servers[0].Calls.Failed = 0
	f.status.Servers[0].Totals.ToolErrors = 4
	f.server.Tools = []api.ToolStats{{Server: "files", OriginalName: "read", Calls: 12, ToolErrors: 3}, {Server: "files", OriginalName: "write", Calls: 5, ToolErrors: 1, Failed: map[mcpvisor.ErrorKind]int64{"crashed": 2}}}
	for _, width := range []int{80, 120} {
		m := shown(t, f, width, 24, "t")
		require.Regexp(t, `CALLS TOOL ERR  FAILED`, text(m))
		require.Regexp(t, `read +12 +3 +·`, text(m))
		require.Regexp(t, `write +5 +1 +2`, text(m))
	}
	require.Contains(t, text(shown(t, f, 120, 24, "enter")), "12, 0 failed, 4 tool errors, 2 in flight, 1 with unknown outcome")
}

// The screen of hosts has no heading without a row below it, and says how hosts come at any width.
func TestClients_none(t *testing.T) {
	f := outage()
	f.clients.Instance = "1"
	for _, width := range []int{40, 80} {
		m := shown(t, f, width, 24, "h")
		require.NotContains(t, text(m), "MAY CALL")
		require.Contains(t, oneLine(m), "hosts come with mcpvisor stdio, or with run --mcp ADDR")
	}
}

// A name of a state that does not say what it means has plain words beside it, wherever the state
// is explained.
func TestStates_in_words(t *testing.T) {
	f := outage()
	parked := &f.status.Servers[1]
	parked.State, parked.RetryAt = supervisor.StateParked, ago(-5*time.Minute)
	for i, e := range []mcpvisor.Event{{Kind: mcpvisor.EventEvicted, Server: "search", Attempt: 5, MaxAttempts: 5, Cause: parked.LastCause},
		{Kind: mcpvisor.EventParked, Server: "orders-database", Delay: 5 * time.Minute, RetryAt: parked.RetryAt, Cause: parked.LastCause}} {
		e.Seq, e.Time = uint64(i+1), clock
		s := monitor.EventSummary{Seq: e.Seq, Began: e.Time, Count: 1, Last: e}
		f.summaries.Instance = "1"
		f.summaries.Summaries = append(f.summaries.Summaries, api.EventSummary{EventSummary: s, Text: s.String(), Last: api.Event{Event: e, Text: e.String(), Severity: e.Severity()}})
	}
	require.Contains(t, text(shown(t, f, 80, 24, "down", "down", "enter")), "✗ evicted for 1d02h: given up, not tried again by itself")
	require.Contains(t, text(shown(t, f, 80, 24, "down", "enter")), "◷ parked for 3.0s: waits until 12:05:00 for its next attempt")
	wide := text(shown(t, f, 180, 24))
	require.Contains(t, wide, "given up: server process")
	require.Contains(t, wide, "waits until 12:05:00: server process")
	m := shown(t, f, 80, 24, "e")
	require.Contains(t, oneLine(m), "parked, waits until 12:05:00: server process ended")
	require.Contains(t, oneLine(m), "search evicted, given up after 5 of 5 restarts")
	typeKeys(t, m, "enter")
	require.Contains(t, oneLine(m), "parked, waits until 12:05:00")
	help := text(shown(t, f, 80, 40, "?"))
	require.Regexp(t, `evicted +given up`, help)
	require.Regexp(t, `parked .* waits until`, help)
}

// States without trouble are calm, and say what starts the server. The header counts what need not be ready.
func TestStates_at_rest(t *testing.T) {
	f := outage()
	cause := f.status.Servers[1].LastCause
	f.status.Attention = nil
	f.status.Servers = []mcpvisor.ServerStatus{
		{Name: "app", State: supervisor.StateWaiting, Since: *ago(time.Second), WaitsFor: []string{"db", "web"}},
		{Name: "db", State: supervisor.StateStopped, Since: *ago(time.Second), LastCause: cause},
		{Name: "job", State: supervisor.StateResting, Since: *ago(time.Second), LastCause: cause},
		{Name: "web", State: supervisor.StateAsleep, Since: *ago(time.Second), LastCause: cause}}
	f.status.Names = []string{"app", "db", "job", "web"}
	f.status.Groups = []mcpvisor.GroupStatus{{Name: "front", State: "starting", Strategy: supervisor.RestForOne, Members: []string{"app"}}}
	wide := text(shown(t, f, 180, 40))
	require.Contains(t, wide, "0 of 4 ready, 3 at rest")
	for _, row := range []string{`app +◔ waiting .*comes after db web`, `db +■ stopped .*by an operator; u starts it, and a reload does not`, `job +◦ resting .*its work is done; starts when it is wanted`, `web +◦ asleep .*starts when it is wanted`} {
		require.Regexp(t, row, wide)
	}
	require.Regexp(t, `\n  front +◐ starting +rest_for_one *\n▸   app +◔ waiting .*\n  db +■ stopped`, wide)
	require.Regexp(t, `group +front, starting, rest_for_one`, text(shown(t, f, 80, 24, "enter")))
	details := text(shown(t, f, 80, 24, "down", "enter"))
	require.Regexp(t, `last end +server process ended`, details, "a stop has no cause")
	require.Equal(t, 1, (&model{data: data{status: f.status}}).trouble(&f.status.Servers[0]))
	require.Zero(t, (&model{data: data{status: f.status}}).trouble(&f.status.Servers[1]))
}

// In the order of names, groups stand above their members, in the order of their start. The selection passes over them.
func TestTree(t *testing.T) {
	f := outage()
	f.status.Attention, f.status.Servers, f.status.Names = nil, nil, nil
	for _, name := range []string{"alone", "api", "db", "web"} {
		f.status.Servers = append(f.status.Servers, mcpvisor.ServerStatus{Name: name, State: supervisor.StateReady, Since: *ago(time.Second)})
	}
	f.status.Groups = []mcpvisor.GroupStatus{
		{Name: "all", State: "ready", Strategy: supervisor.OneForOne, Members: []string{"inner", "api"}},
		{Name: "inner", Parent: "all", State: "given up", Strategy: supervisor.RestForOne, Members: []string{"web", "gone", "db"}},
		{Name: "empty", State: "ready", Strategy: supervisor.OneForAll}}
	const tree = `\n  all +● ready +one_for_one *\n    inner +✗ given up +rest_for_one *\n      web +● ready.*\n      db +● ready.*\n    api +● ready.*\n  empty +● ready +one_for_all *\n▸ alone +● ready`
	m := shown(t, f, 100, 30)
	typeKeys(t, m, "end")
	require.Regexp(t, tree, text(m))
	for _, want := range []string{"api", "db", "web", "web"} {
		typeKeys(t, m, "up")
		require.Equal(t, want, m.selected)
	}
	low := text(shown(t, f, 100, 8))
	require.Regexp(t, `▸     web `, low)
	require.Contains(t, low, "below")
	typeKeys(t, m, "/", "d", "b", "enter")
	require.Regexp(t, `\n  all .*\n    inner .*\n▸     db .*\n *\n`, text(m))
	typeKeys(t, m, "esc", "s")
	require.NotContains(t, text(m), "✗", "other orders are those of servers")
}

// flappingSource has a server that ends within a second of each start; it is between two starts,
// or ready.
func flappingSource(state supervisor.State) *fakeSource {
	f := outage()
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "no key (exit status 7)"}
	s := mcpvisor.ServerStatus{Name: "loop", State: state, Since: *ago(300 * time.Millisecond), LastCause: cause, Restarts: 40}
	cpu := 0.37
	use := api.ServerUsage{Server: "loop", CPU: &cpu}
	if state != supervisor.StateReady {
		use.CPU = nil
	}
	f.status.Servers, f.usage.Servers, f.calls = []mcpvisor.ServerStatus{s, f.status.Servers[0]}, []api.ServerUsage{use}, api.Calls{}
	f.status.Attention = []api.Attention{{Server: "loop", Kind: api.AttentionFlapping, Severity: api.SeverityWarning, Text: "no key (exit status 7); has ended 6 times within 5 min", Since: ago(time.Second)}}
	return f
}

// A server that dies soon after each start reads alike at each moment, with its last cause; the
// header counts it neither as ready nor changes every second.
func TestFlapping(t *testing.T) {
	for _, state := range []supervisor.State{supervisor.StateReady, supervisor.StateBackoff, supervisor.StateConnecting} {
		m := shown(t, flappingSource(state), 140, 30)
		require.Regexp(t, `▸ loop +↻ flapping +· .*no key \(exit status 7\)`, text(m), state)
		require.Contains(t, text(m), "1 of 2 ready, 1 flapping")
		require.Contains(t, text(m), "NEXT", "the columns stay, too")
		require.Contains(t, oneLine(m), "state ↻ flapping: it ends again soon after each start; now "+glyph(state)+" "+string(state))
		require.Contains(t, oneLine(m), "cause no key")
		typeKeys(t, m, "s")
		require.Equal(t, "loop", m.servers()[0].Name)
	}
	f := flappingSource(supervisor.StateReady)
	f.status.Servers[0].Name = "alone"
	require.NotContains(t, text(shown(t, f, 140, 30)), "flapping:", "it is another one")
	f = flappingSource(supervisor.StateEvicted)
	require.Contains(t, text(shown(t, f, 140, 30)), "✗ evicted", "a state that lasts")
	f = flappingSource(supervisor.StateReady)
	f.status.Attention[0].Server, f.status.Attention[0].Servers = "", []string{"files", "loop"}
	require.Contains(t, text(shown(t, f, 140, 30)), "0 of 2 ready, 2 flapping", "the entry is about both")
}

// inFleet is outage on a node of a fleet that is cut off.
func inFleet() *fakeSource {
	f := outage()
	f.nodes = api.Nodes{Instance: "1", Fleet: true, FleetStatus: api.FleetStatus{Node: "north-1", Generation: 12, CutOffSince: ago(42 * time.Second), Fences: 1,
		Nodes: []api.Node{
			{ID: "north-1", Life: "1", Address: "10.0.0.1:7790", Weight: 1, Servers: 1, Labels: map[string]string{"zone": "north", "disk": "ssd"}},
			{ID: "south-1", Life: "2", Address: "10.0.0.2:7790", Weight: 2, Capacity: 40, Draining: true, Servers: 2},
			{ID: "west-1", Life: "3", Address: "10.0.0.3:7790", Weight: 0.5, UnreachableSince: ago(9 * time.Second)},
		},
		Placements: []api.Placement{{Server: "files", Node: "north-1", Epoch: 3}, {Server: "orders-database", Node: "south-1", Epoch: 17, Exclusive: true},
			{Server: "search", Epoch: 2, Reason: "no node has the labels gpu=yes"}, {Server: "web", Node: "south-1", Epoch: 1}}}}
	return f
}

// The nodes of a fleet have a screen, and each server shows its node.
func TestNodes(t *testing.T) {
	requireGolden(t, "nodes", shown(t, inFleet(), 100, 24, "n"))
	requireGolden(t, "nodes-servers", shown(t, inFleet(), 120, 24))
	plain := func(m *model) string { return ansi.Strip(m.View().Content) }
	require.Contains(t, plain(shown(t, inFleet(), 100, 30, "down", "enter")), "south-1, epoch 17 of its place, exclusive")
	require.Contains(t, plain(shown(t, inFleet(), 100, 30, "down", "down", "enter")), "none: no node has the labels gpu=yes")
	require.NotContains(t, plain(shown(t, outage(), 200, 24)), "nodes", "there is no fleet")
	require.Contains(t, plain(shown(t, outage(), 100, 24, "n")), "orders-database", "the key does nothing")
	require.Contains(t, plain(shown(t, inFleet(), 100, 40, "?")), "nodes of the fleet, and what runs on none")
	filtered := plain(shown(t, inFleet(), 120, 24, "/", "s", "o", "u", "t", "h", "enter"))
	require.Contains(t, filtered, "orders-database")
	require.NotContains(t, filtered, "● ready")
}

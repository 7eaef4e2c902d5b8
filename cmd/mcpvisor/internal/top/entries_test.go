package top

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// text is what a view shows, without colours.
func text(m *model) string { return ansi.Strip(m.View().Content) }

// oneLine is text with breaks of lines as spaces.
func oneLine(m *model) string { return strings.Join(strings.Fields(text(m)), " ") }

// ↵ on a call shows what is known of it: when, how long, how it ended, for whom, and what is not
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

package top

import (
	"fmt"
	"slices"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

const labelWidth = 11

func (m *model) lines() []string {
	switch m.screen {
	case screenHelp:
		return m.helpLines()
	case screenAttention:
		return m.allAttentionLines()
	case screenCalls, screenEvents:
		return m.entryLines(m.screen)
	case screenClients:
		return m.clientLines()
	case screenNodes:
		return m.nodeLines()
	case screenEntry:
		return m.openedLines()
	case screenCall:
		return m.callLines()
	default:
	}
	if m.data.server.Status.Name != m.selected {
		return []string{quiet.Render("reading …")}
	}
	switch m.screen {
	case screenTools:
		return m.toolLines()
	case screenStderr:
		return append(m.earlierStderr(), m.stderrLines()...)
	default:
	}
	return m.detailLines()
}

// detailLines describe one server: what it is, why it is not ready, and what came before.
func (m *model) detailLines() (lines []string) {
	s := &m.data.server.Status
	subject := facts.Subject{Server: m.data.server, Attention: m.data.status.Attention, Groups: m.data.status.Groups, Placement: m.placement(s.Name),
		Now: m.opts.Now(), Clock: m.clock, Starter: "u"}
	state := glyph(s.State) + " " + subject.State()
	if m.flapping(s) {
		state = "↻ flapping: it ends again soon after each start; now " + state
	}
	_, style := m.stateOf(s)
	lines = m.factLines(fact{"state", style, state})
	for _, f := range subject.List(m.trouble(s) > 0 && s.State != supervisor.StateWaiting) {
		lines = append(lines, m.factLines(fact{f.Label, styleOfColor[f.Color], f.Text})...)
	}
	lines = append(lines, m.stderrTail(8)...)
	if flight := append(m.inFlightLines(s.Name, 20), m.unfinishedLines(s.Name, 20)...); len(flight) > 0 {
		lines = append(append(lines, ""), flight...)
	}
	return append(lines, m.historyLines()...)
}

func (m *model) historyLines() (lines []string) {
	history := m.data.server.Status.History
	if len(history) == 0 {
		return nil
	}
	lines = append(lines, "", heading("HISTORY  the last end first"))
	for _, h := range slices.Backward(history) {
		text, style := facts.EndText(&h), plain
		if !h.Served {
			style = warning
		}
		row := fmt.Sprintf("%s ago  %s  ran %s  %s", cell(plaintext.Duration(m.opts.Now().Sub(h.Ended)), 7, true),
			cell(fmt.Sprintf("start %d", h.Epoch), 9, false), cell(plaintext.Duration(h.Ended.Sub(h.Started)), 7, true), display.Line(text))
		lines = append(lines, style.Render(fit(row, m.width, false)))
	}
	return lines
}

// stderrTail lists the last lines of stderr.
func (m *model) stderrTail(most int) []string {
	all := m.stderrLines()
	if m.data.server.Stderr.Total == 0 {
		return nil
	}
	all = all[max(len(all)-most, 0):]
	return append([]string{"", heading("STDERR  the last lines; l shows all")}, all...)
}

// earlierStderr is what the incarnation before the latest process has left of its stderr, if it
// did not end by a request.
func (m *model) earlierStderr() (lines []string) {
	history, latest := m.data.server.Status.History, &m.data.server.Stderr
	if len(history) == 0 {
		return nil
	}
	last := &history[len(history)-1]
	if last.Cause == nil || len(last.Cause.Stderr) == 0 || last.Epoch >= latest.Epoch {
		return nil
	}
	lines = append(lines, heading(fmt.Sprintf("of process %d, which ended %s ago", last.PID, plaintext.Duration(m.opts.Now().Sub(last.Ended)))))
	for _, line := range last.Cause.Stderr {
		lines = append(lines, wrap(line, m.width, 2)...)
	}
	return append(lines, "", heading(fmt.Sprintf("of process %d, the latest", latest.PID)))
}

func (m *model) stderrLines() (lines []string) {
	s := &m.data.server.Stderr
	kept := int64(len(s.First) + len(s.Lines))
	for i, line := range slices.Concat(s.First, s.Lines) {
		if dropped := s.Total - kept; i == len(s.First) && i > 0 && dropped > 0 {
			lines = append(lines, quiet.Render(fmt.Sprintf("… %s not kept", display.Count(dropped, "line"))))
		}
		lines = append(lines, wrap(line, m.width, 2)...)
	}
	if len(lines) == 0 {
		return []string{quiet.Render("nothing on stderr")}
	}
	if s.Ended {
		lines = append(lines, quiet.Render(fmt.Sprintf("process %d has ended", s.PID)))
	}
	return lines
}

// toolHead is how many lines stand above the tools.
const toolHead = 1

// toolLines list the tools of one server: how often they were called, how often they failed by
// themselves and how often the calls failed, how long they took, and what the definition costs a
// model.
func (m *model) toolLines() (lines []string) {
	stats := map[string]*api.ToolStats{}
	for i := range m.data.server.Tools {
		stats[m.data.server.Tools[i].OriginalName] = &m.data.server.Tools[i]
	}
	width := max(m.width-60, 12)
	lines = append(lines, heading("  "+cell("TOOL", width, false)+"    CALLS TOOL ERR  FAILED UNKNOWN     P50     P95  TOKENS"))
	for i, t := range m.data.tools.Tools {
		s := stats[t.OriginalName]
		if s == nil {
			s = &api.ToolStats{}
		}
		count := func(n int64, width int, style lipgloss.Style) string {
			text := cell(number(n), width, true)
			if n > 0 {
				text = style.Render(text)
			}
			return text
		}
		row := cell(number(s.Calls), 9, true) + count(s.ToolErrors, 9, warning) + count(facts.FailedCalls(s), 8, warning) + count(s.Unknown, 8, failure) +
			cell(latency(s.P50), 8, true) + cell(latency(s.P95), 8, true)
		mark, name := "  ", cell(t.OriginalName, width, false)
		if i == m.toolAt {
			mark, name = strong.Render("▸ "), strong.Render(name)
		}
		lines = append(lines, mark+name+row+cell(number(int64(t.Tokens)), 8, true))
	}
	if len(m.data.tools.Tools) == 0 {
		lines = append(lines, quiet.Render("no tools; a server that is not ready lists none"))
	}
	return lines
}

func (m *model) helpLines() (lines []string) {
	rows := [][2]string{
		{"↑ ↓ j k", "select a server, or scroll"}, {"↵", "details: cause, policy, stderr, calls in flight, history"}, {"l", "stderr of its latest process"},
		{"t", "its tools: calls, outcomes, durations, tokens; ↵ calls one"}, {"e", "what has changed, of one server or all; ↵ shows one, f / o select"}, {"a c h", "what needs attention; all calls, ↵ shows one; hosts (clients)"}, {"r", "restart it; asks first while it has calls in flight"}, {"R", "restart all servers, after a question"},
		{"x u", "stop it, after a question; start it"},
		{"s", "sort: name, trouble, CPU, memory, calls, P95, failures, restarts"},
		{"/", "show only servers whose name or state has a text; esc ends that"}, {"esc q", "back; quit"},
		{"evicted", "given up, not tried again by itself: r restarts it"}, {"parked", "its attempts are spent, and it waits until a later one"},
		{"waiting", "what it comes after is not ready"}, {"asleep", "or resting: nothing wants it, and a call starts it"},
		{"FOR", "how long it has been in its state"}, {"NEXT", "time until the next attempt to start it"},
		{"CPU", "of its processes; 100% is one processor"}, {"CALLS/M", "calls a minute, over the last one"}, {"FAILED", "share of the calls of the last 5 minutes"},
		{"BUSY", "calls in flight and queued"}, {"P95", "slowest tool: 95% of calls took at most this"}, {"TOOL ERR", "the tool ran and reports an error: that is no failed call"}, {"UNKNOWN", "failed calls that the server may have executed"},
	}
	if m.data.nodes.Fleet {
		rows = slices.Insert(rows, 6, [2]string{"n", "nodes of the fleet, and what runs on none"})
	}
	if v := m.data.status.Version; v != "" {
		rows = append(rows, [2]string{"version", v})
	}
	if m.opts.Page != "" {
		rows = append(rows, [2]string{"page", m.opts.Page})
	}
	for _, row := range rows {
		lines = append(lines, "  "+strong.Render(cell(row[0], 10, false))+row[1])
	}
	return lines
}

package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

const (
	maxAttention = 4 // lines
	maxInFlight  = 5 // lines
	maxCause     = 5 // lines
)

// column is a column of the table of servers.
type column struct {
	title string
	width int
	right bool
}

// columns returns the columns that fit: the first has the name, the last is what is left for
// the cause. At 80 columns there is no cause; the attention list has it.
func (m *model) columns() (all []column, gap string) {
	all = []column{{"SERVER", 13, false}, {"STATE", 14, false}, {"FOR", 7, true}, {"RESTARTS", 8, true}, {"PID", 7, true},
		{"TOOLS", 5, true}, {"BUSY", 4, true}, {"P95", 6, true}, {"NEXT", 6, true}}
	gap = " "
	if m.width >= 96 {
		gap = "  "
	}
	used := 2 + len(gap)*(len(all)-1) // the mark of the selection
	for _, c := range all[1:] {
		used += c.width
	}
	longest := len("SERVER")
	for i := range m.data.status.Servers {
		longest = max(longest, len(m.data.status.Servers[i].Name))
	}
	all[0].width = max(min(longest, m.width-used), 6)
	if rest := m.width - used - all[0].width - len(gap); rest >= 20 {
		all = append(all, column{"CAUSE", rest, false})
	}
	return all, gap
}

// serverLines are the lines of the first screen: what needs attention, the table, and calls
// in flight.
func (m *model) serverLines() (lines []string) {
	lines = m.attentionLines()
	flight := m.inFlightLines("", maxInFlight)
	columns, gap := m.columns()
	var head []string
	for _, c := range columns {
		head = append(head, cell(c.title, c.width, c.right))
	}
	lines = append(lines, quiet.Render("  "+strings.TrimRight(strings.Join(head, gap), " ")))
	room := m.room() - len(lines)
	if len(flight) > 0 && room-len(flight)-1 < 5 {
		flight = flight[:max(min(len(flight), room-6), 0)] // the table is more important
	}
	if len(flight) > 0 {
		room -= len(flight) + 1
	}
	room = max(room, 1)
	all := m.servers()
	selected := max(m.index(all), 0)
	first := max(min(selected-room/2, len(all)-room), 0)
	for i, s := range all[first:min(first+room, len(all))] {
		lines = append(lines, m.row(s, columns, gap, first+i == selected))
	}
	switch {
	case len(m.data.status.Servers) == 0:
		lines = append(lines, quiet.Render("  no servers yet"))
	case len(all) == 0:
		lines = append(lines, quiet.Render("  no server matches the filter"))
	}
	lines = append(lines, m.causeLines(all, selected, m.room()-len(lines)-len(flight)-2)...)
	if len(flight) > 0 {
		lines = append(append(lines, ""), flight...)
	}
	return lines
}

// causeLines say in full why the selected server is not ready, in the lines that are free.
func (m *model) causeLines(all []*mcpvisor.ServerStatus, selected, room int) []string {
	if selected >= len(all) || room < 1 {
		return nil
	}
	s := all[selected]
	if s.State == supervisor.StateReady || s.LastCause == nil {
		return nil
	}
	text := wrap(s.Name+": "+m.opts.Text(s.LastCause.Describe()), m.width-2, 0)
	lines := []string{""}
	for _, line := range text[:min(len(text), room, maxCause)] {
		lines = append(lines, styleOf(s.State).Render("  "+line))
	}
	return lines
}

// row renders a server.
func (m *model) row(s *mcpvisor.ServerStatus, columns []column, gap string, selected bool) string {
	now := m.opts.Now()
	pid, next := "", ""
	if s.Session != nil && s.Session.PID != 0 {
		pid = strconv.Itoa(s.Session.PID)
	}
	if s.RetryAt != nil {
		next = display.Duration(s.RetryAt.Sub(now))
	}
	cause := ""
	if s.State != supervisor.StateReady && s.LastCause != nil {
		cause = m.opts.Text(s.LastCause.Describe())
	}
	values := []string{s.Name, glyph(s.State) + " " + string(s.State), display.Duration(now.Sub(s.Since)), number(int64(s.Restarts)), pid,
		number(int64(s.Catalog.Tools)), number(s.Calls.InFlight), m.p95(s.Name), next, cause}
	var cells []string
	for i, c := range columns {
		text := cell(values[i], c.width, c.right)
		switch {
		case c.title == "STATE", c.title == "NEXT", c.title == "CAUSE":
			text = styleOf(s.State).Render(text)
		case selected, c.title == "SERVER" && s.State != supervisor.StateReady:
			text = strong.Render(text)
		case c.title == "RESTARTS" && s.Restarts > 0:
			text = warning.Render(text)
		}
		cells = append(cells, text)
	}
	mark := "  "
	if selected {
		mark = strong.Render("▸ ")
	}
	return mark + strings.Join(cells, gap)
}

// number renders a count; 0 is a dot, so that the others stand out.
func number(n int64) string {
	if n == 0 {
		return "·"
	}
	return strconv.FormatInt(n, 10)
}

// p95 is that of the slowest tool of a server; empty if none was called.
func (m *model) p95(server string) string {
	var slowest time.Duration
	called := false
	for i := range m.data.use.Tools {
		if t := &m.data.use.Tools[i]; t.Server == server && t.Calls > 0 {
			slowest, called = max(slowest, t.P95), true
		}
	}
	if !called {
		return ""
	}
	return latency(slowest)
}

// latency renders a duration of a call.
func latency(d time.Duration) string {
	switch {
	case d <= 0:
		return "·"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d/time.Microsecond)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	}
	return display.Duration(d)
}

// attentionLines list what an operator should look at, the most urgent first.
func (m *model) attentionLines() (lines []string) {
	all := m.data.status.Attention
	most := min(maxAttention, m.room()/4) // a low terminal has the table
	for i, a := range all {
		if i >= most-1 && len(all) > most {
			lines = append(lines, quiet.Render(fmt.Sprintf("  and %d more", len(all)-i)))
			break
		}
		style, symbol := severityStyle(a.Severity)
		text := symbol + " " + display.Line(strings.TrimSpace(a.Server+" "+m.opts.Text(a.Text)))
		if a.Since != nil {
			text = ends(text, sinceText(a.Kind, m.opts.Now().Sub(*a.Since)), m.width)
		}
		lines = append(lines, style.Render(fit(text, m.width, false)))
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return lines
}

// sinceText says when something happened, or since when it is so.
func sinceText(kind api.AttentionKind, d time.Duration) string {
	switch kind {
	case api.AttentionRestarted, api.AttentionFlapping, api.AttentionUnknownOutcome:
		return display.Duration(d) + " ago"
	default:
		return "for " + display.Duration(d)
	}
}

// inFlightLines list calls in flight, the oldest first: those of one server, or of all
// without a name.
func (m *model) inFlightLines(server string, most int) (lines []string) {
	all := slices.Clone(m.data.calls.InFlight)
	all = slices.DeleteFunc(all, func(c mcpvisor.CallInFlight) bool { return server != "" && c.Server != server })
	slices.SortStableFunc(all, func(a, b mcpvisor.CallInFlight) int { return a.Began.Compare(b.Began) })
	if len(all) == 0 {
		return nil
	}
	lines = append(lines, heading(fmt.Sprintf("  IN FLIGHT  %s", display.Count(len(all), "call"))))
	for i, c := range all {
		if i == most-1 && len(all) > most {
			return append(lines, quiet.Render(fmt.Sprintf("  and %d more", len(all)-i)))
		}
		target := c.Target
		if target == "" {
			target = c.Method
		}
		text := fmt.Sprintf("  %s  %s", cell(display.Duration(m.opts.Now().Sub(c.Began)), 7, true), display.Line(c.Server+"/"+target))
		if c.Queued {
			text += "  queued, not sent"
		}
		style := plain
		if m.opts.Now().Sub(c.Began) >= 30*time.Second {
			style = warning
		}
		lines = append(lines, style.Render(fit(text, m.width, false)))
	}
	return lines
}

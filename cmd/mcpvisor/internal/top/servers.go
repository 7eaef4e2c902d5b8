package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

const (
	maxAttention = 4 // lines, in a terminal that is not tall
	maxInFlight  = 5 // lines
	// A terminal with tallRoom lines keeps detailRoom of them for the selected server, however
	// many servers there are.
	tallRoom   = 36
	detailRoom = 14
	// maxUnfinished is how many lines calls of an earlier run have.
	maxUnfinished = 3
)

// serverLines are the lines of the first screen: what needs attention, the table, calls in
// flight and, where there is room, what is known of the selected server.
func (m *model) serverLines() (lines []string) {
	lines = m.attentionLines()
	flight := append(m.inFlightLines("", maxInFlight), m.unfinishedLines("", maxUnfinished)...)
	rows := m.tree()
	all := serversOf(rows)
	columns, gap, missing := m.columns(rows)
	var head []string
	for _, c := range columns {
		head = append(head, cell(c.title, c.width, c.right))
	}
	lines = append(lines, quiet.Render("  "+strings.TrimRight(strings.Join(head, gap), " ")))
	room := m.room() - len(lines)
	if len(flight) > 0 && room-len(flight)-1 < 5 {
		flight = nil // the table is more important; the title counts them
	}
	if len(flight) > 0 {
		room -= len(flight) + 1
	}
	if len(rows) > room && m.room() >= tallRoom {
		room -= detailRoom // of the selected server
	}
	if len(rows) > room || len(missing) > 0 {
		room-- // for what is hidden
	}
	room = max(room, 1)
	selected := max(slices.IndexFunc(rows, func(b branch) bool { return b.server != nil && b.server.Name == m.selected }), 0)
	first := max(min(selected-room/2, len(rows)-room), 0)
	last := min(first+room, len(rows))
	for i := range rows[first:last] {
		lines = append(lines, m.row(&rows[first+i], columns, gap, first+i == selected))
	}
	if hidden := hiddenLine(len(serversOf(rows[:first])), len(serversOf(rows[last:])), missing); hidden != "" {
		lines = append(lines, quiet.Render("  "+hidden))
	}
	switch {
	case len(m.data.status.Servers) == 0:
		lines = append(lines, quiet.Render("  no servers yet"))
	case len(all) == 0:
		lines = append(lines, quiet.Render("  no server matches the filter"))
	}
	if len(flight) > 0 {
		lines = append(append(lines, ""), flight...)
	}
	return append(lines, m.selectedLines(m.room()-len(lines))...)
}

// selectedLines are the beginning of the details of the selected server, in the lines that are
// free below the table.
func (m *model) selectedLines(room int) []string {
	if room < 4 || m.selected == "" || m.data.server.Status.Name != m.selected {
		return nil
	}
	narrower := *m // by the margin
	narrower.width -= 2
	details := narrower.detailLines()
	lines := []string{"", heading("  " + strings.ToUpper(m.selected))}
	room -= len(lines)
	cut := len(details) > room
	if cut {
		room--
	}
	for _, line := range details[:min(room, len(details))] {
		lines = append(lines, "  "+line)
	}
	if cut {
		lines = append(lines, quiet.Render(fmt.Sprintf("  %s more, ↵ shows them", display.Count(len(details)-room, "line"))))
	}
	return lines
}

func (m *model) row(b *branch, columns []column, gap string, selected bool) string {
	s := b.server
	if s == nil {
		return m.groupRow(b, columns, gap)
	}
	var cells []string
	for i, c := range columns {
		text := b.cell(c.width)
		if i > 0 {
			text = cell(c.value(m, s), c.width, c.right)
		}
		switch {
		case c.title == "STATE", c.title == "NEXT", c.title == "CAUSE":
			_, style := m.stateOf(s)
			text = style.Render(text)
		case selected, c.title == "SERVER" && m.trouble(s) > 0:
			text = strong.Render(text)
		case c.title == "RESTARTS" && s.Restarts > 0, c.title == "FAILED" && strings.HasSuffix(text, "%"):
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

// attentionLines list what an operator should look at, the most urgent first.
func (m *model) attentionLines() (lines []string) {
	all := m.data.status.Attention
	most := m.room() / 4
	if m.room() < tallRoom {
		most = min(most, maxAttention) // a low terminal has the table
	}
	for i, a := range all {
		if i >= most-1 && len(all) > most {
			lines = append(lines, quiet.Render(fmt.Sprintf("  and %d more, a shows all", len(all)-i)))
			break
		}
		style, symbol := severityStyle(a.Severity)
		text, since := symbol+" "+display.Line(strings.TrimSpace(a.Server+" "+a.Text)), ""
		if a.Since != nil {
			since = sinceText(a.Kind, m.opts.Now().Sub(*a.Since))
		}
		if since != "" {
			text = ends(text, since, m.width)
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
		return plaintext.Duration(d) + " ago"
	default:
		return "for " + plaintext.Duration(d)
	}
}

// keyOf shows the key of a call, if it has one.
func keyOf(key mcpvisor.JournalKey) string {
	if key.Key == "" {
		return ""
	}
	return " " + key.String()
}

// unfinishedTitle is the heading of calls of an earlier run.
func (m *model) unfinishedTitle(total int) string {
	return fmt.Sprintf("  WITHOUT AN END  %s of an earlier run", display.Count(total, "call"))
}

// unfinishedEntries are calls with a key that an earlier process has made and that have no end:
// those of one server, or of all without a name.
func (m *model) unfinishedEntries(server string) (all []entry) {
	for _, c := range m.data.calls.Unfinished {
		if server != "" && c.Server != server {
			continue
		}
		style, state := warning, "interrupted, may have been executed"
		if c.State == mcpvisor.JournalTask {
			style, state = plain, "task, no caller waits for it"
		}
		name := display.Line(c.Server + "/" + c.Tool)
		row := fmt.Sprintf("%s  %s  %s", cell(plaintext.Duration(m.opts.Now().Sub(c.Began)), 7, true), display.Line(c.Server+"/"+c.Tool+keyOf(c.JournalKey())), state)
		all = append(all, entry{key: fmt.Sprintf("unfinished %q %q", c.Principal, c.Key), lines: []string{fit(row, m.width-2, false)}, style: style, title: name, about: func() []fact {
			return []fact{{"call", strong, name}, {"key", plain, c.JournalKey().String()}, {"outcome", style, state}, {"began", plain, m.clock(c.Began) + ", by an earlier run"}, notKept}
		}})
	}
	return all
}

func (m *model) unfinishedLines(server string, most int) []string {
	all := m.unfinishedEntries(server)
	total := len(all)
	if server == "" {
		total += m.data.calls.MoreUnfinished
	}
	return firstEntries(m.unfinishedTitle(total), all, most, total, "; mcpvisor tasks lists all")
}

func flightTitle(total int) string { return "  IN FLIGHT  " + display.Count(total, "call") }

// flightEntries are calls in flight, tasks first, then the oldest: those of one server, or of all
// without a name.
func (m *model) flightEntries(server string) (all []entry) {
	now := m.opts.Now()
	age := func(began time.Time) string { return plaintext.Duration(now.Sub(began)) }
	for _, t := range m.data.calls.Tasks {
		if server != "" && t.Server != server {
			continue
		}
		name, state := display.Line(t.Server+"/"+t.Tool), strings.TrimSpace(display.Line(t.State+" "+t.Message))
		row := fmt.Sprintf("%s  %s  task, %s", cell(age(t.Began), 7, true), display.Line(t.Server+"/"+t.Tool+keyOf(t.JournalKey())), state)
		all = append(all, entry{key: fmt.Sprintf("task %d", t.Number), lines: []string{fit(row, m.width-2, false)}, style: plain, title: name, about: func() []fact {
			return []fact{{"call", strong, name}, {"outcome", plain, "not ended: its server executes it as a task, for " + age(t.Began)}, {"state", plain, state}, {"key", plain, cmp.Or(t.JournalKey().String(), "none")}, {"began", plain, m.clock(t.Began)}, notKept}
		}})
	}
	calls := slices.DeleteFunc(slices.Clone(m.data.calls.InFlight), func(c monitor.CallInFlight) bool { return server != "" && c.Server != server })
	slices.SortStableFunc(calls, func(a, b monitor.CallInFlight) int { return a.Began.Compare(b.Began) })
	for _, c := range calls {
		name, style, outcome := targetOf(c.Server, c.Target, c.Method), plain, "not ended: in flight for "
		row := fmt.Sprintf("%s  %s", cell(age(c.Began), 7, true), name)
		if c.Queued {
			row += "  queued, not sent"
			outcome = "not ended: queued behind maxInFlight and not sent, for "
		}
		if now.Sub(c.Began) >= 30*time.Second {
			style = warning
		}
		key := fmt.Sprintf("flight %s %s %d", c.Server, c.Target, c.Began.UnixNano())
		all = append(all, entry{key: key, lines: []string{fit(row, m.width-2, false)}, style: style, title: name, about: func() []fact {
			return []fact{{"call", strong, name}, {"method", plain, c.Method}, {"outcome", style, outcome + age(c.Began)}, {"began", plain, m.clock(c.Began)}, {"client", plain, "known when it has ended"}, notKept}
		}})
	}
	return all
}

func (m *model) inFlightLines(server string, most int) []string {
	all := m.flightEntries(server)
	return firstEntries(flightTitle(len(all)), all, most, len(all), ", c shows all")
}

// firstEntries are the lines of the first entries, below a heading, and how many more there are; none without an entry.
func firstEntries(title string, all []entry, most, total int, where string) (lines []string) {
	if len(all) == 0 {
		return nil
	}
	lines = append(lines, heading(title))
	for i, e := range all {
		if i == most-1 && total > most {
			return append(lines, quiet.Render(fmt.Sprintf("  and %d more%s", total-i, where)))
		}
		lines = append(lines, "  "+e.style.Render(e.lines[0]))
	}
	return lines
}

// flapping reports whether a server has ended several times in a short time, as the list of what
// needs attention says. Its state changes too often to be read.
func (m *model) flapping(s *mcpvisor.ServerStatus) bool {
	switch s.State {
	case supervisor.StateEvicted, supervisor.StateParked, supervisor.StateUnauthorized, supervisor.StateStopping, supervisor.StateUnregistered:
		return false // which lasts
	default:
	}
	return slices.ContainsFunc(m.data.status.Attention, func(a api.Attention) bool {
		return a.Kind == api.AttentionFlapping && (a.Server == s.Name || slices.Contains(a.Servers, s.Name))
	})
}

// stateOf is the state of a server as its row shows it.
func (m *model) stateOf(s *mcpvisor.ServerStatus) (text string, style lipgloss.Style) {
	if m.flapping(s) {
		return "↻ flapping", warning
	}
	return glyph(s.State) + " " + string(s.State), styleOf(s.State)
}

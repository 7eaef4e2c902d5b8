package top

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// chrome is how many lines of a screen are not its content: the title, the blank line below
// it, and the line of keys.
const chrome = 3

// room returns how many lines the content of a screen has.
func (m *model) room() int { return max(m.height-chrome, 1) }

// View implements tea.Model. It never has a line that is longer than the terminal is wide,
// or more lines than it is high.
func (m *model) View() tea.View {
	var content []string
	place := ""
	if m.screen == screenServers {
		content = m.serverLines()
	} else {
		content = m.lines()
		all, last := len(content), max(len(content)-m.room(), 0)
		first := min(m.top, last)
		if m.screen == screenStderr && m.follow {
			first = last
		}
		content = content[first:]
		if last > 0 {
			place = fmt.Sprintf("lines %d to %d of %d  ", first+1, min(first+m.room(), all), all)
		}
	}
	content = content[:min(len(content), m.room())]
	lines := append([]string{m.titleLine(place), ""}, content...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.footer())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	v := tea.NewView(strings.Join(lines[:min(len(lines), max(m.height, 1))], "\n"))
	v.AltScreen = true
	v.WindowTitle = "mcpvisor top"
	return v
}

// titleLine says what is shown, which part of it (place), and how many servers are ready.
func (m *model) titleLine(place string) string {
	title := strong.Render("mcpvisor") + "  " + quiet.Render(m.opts.Title)
	switch m.screen {
	case screenServers:
		if o := orders[m.order]; o.name != "" {
			place = "by " + o.name + "  "
		}
		if n := len(m.data.calls.InFlight) + len(m.data.calls.Tasks); n > 0 {
			place += fmt.Sprintf("%d in flight  ", n)
		}
	case screenEvents:
		title = strong.Render("events") + "  " + quiet.Render(display.Line(m.eventsTitle()))
	case screenAttention:
		title = strong.Render("needs attention")
	case screenCalls:
		title = strong.Render("calls")
	case screenEntry:
		title = strong.Render(cell(m.opened.title, min(ansi.StringWidth(m.opened.title), m.width/2), false)) + "  " + quiet.Render(map[screen]string{screenCalls: "one call", screenEvents: "one event"}[m.openedIn])
	case screenClients:
		title = strong.Render("clients") + "  " + quiet.Render("of the gateway, within 15 minutes")
	case screenNodes:
		title = strong.Render("nodes") + "  " + quiet.Render(display.Line(m.nodesTitle()))
	case screenDetails, screenTools, screenStderr:
		title = strong.Render(cell(m.selected, min(ansi.StringWidth(m.selected), m.width/2), false)) + "  " + quiet.Render(map[screen]string{screenDetails: "details", screenTools: "tools", screenStderr: "stderr"}[m.screen])
	case screenCall:
		title = strong.Render(cell(m.call.tool, min(ansi.StringWidth(m.call.tool), m.width/2), false)) + "  " + quiet.Render("call")
	default:
	}
	ready, flapping, idle, all := 0, 0, 0, len(m.data.status.Servers)
	for i := range m.data.status.Servers {
		switch s := &m.data.status.Servers[i]; {
		case m.flapping(s):
			flapping++
		case s.State == supervisor.StateReady:
			ready++
		case isIdle(s.State):
			idle++
		}
	}
	style := good
	if ready+idle < all {
		style = warning
	}
	count := fmt.Sprintf("%d of %d ready", ready, all)
	if idle > 0 {
		count += fmt.Sprintf(", %d at rest", idle)
	}
	if flapping > 0 {
		count += fmt.Sprintf(", %d flapping", flapping)
	}
	right := quiet.Render(place) + style.Render(count)
	return ends(title, right, m.width)
}

// ends puts two texts at the ends of a line. The left one is cut if they do not fit.
func ends(left, right string, width int) string {
	room := width - ansi.StringWidth(right) - 2
	left = ansi.Truncate(left, max(room, 0), "…")
	return left + strings.Repeat(" ", max(width-ansi.StringWidth(left)-ansi.StringWidth(right), 0)) + right
}

// footer has a question, the filter, what was done, or the keys.
func (m *model) footer() string {
	switch {
	case len(m.confirm) > 0:
		return m.question()
	case m.filtering:
		return m.filter.View()
	case m.screen == screenCall && m.call.confirm:
		return warning.Render("call it? its server does not say that it only reads  ") + keys("y", "call", "any other key", "back")
	case m.screen == screenCall && m.call.cancel != nil:
		return keys("esc", "cancel the call")
	case m.screen == screenCall:
		return keys(m.call.formPairs()...)
	case m.flash != "":
		return busy.Render(cell(m.flash, m.width, false))
	case m.screen == screenHelp:
		return keys("esc", "back", "q", "quit")
	case m.screen == screenServers && m.filter.Value() != "":
		return m.fitKeys("esc", "clear filter "+m.filter.Value(), "↵", "details", "r", "restart", "l", "stderr", "t", "tools", "e", "events")
	case m.screen == screenServers:
		return m.fitKeys("↵", "details", "r", "restart", "l", "stderr", "t", "tools", "/", "filter", "e", "events", "c", "calls", "a", "attention", "h", "hosts", "n", "nodes", "s", "sort", "x", "stop", "u", "start", "R", "restart all")
	case m.screen == screenEvents:
		return m.eventKeys()
	case m.screen == screenCalls:
		return m.fitKeys("↑↓", "select", "↵", "about it", "esc", "back", "e", "events", "c", "calls", "a", "attention", "h", "hosts", "n", "nodes")
	case m.screen.aboutAll():
		return m.fitKeys("↑↓", "scroll", "esc", "back", "e", "events", "c", "calls", "a", "attention", "h", "hosts", "n", "nodes")
	}
	if m.screen == screenTools {
		return m.fitKeys("↑↓", "select", "↵", "call", "esc", "back", "r", "restart", "l", "stderr", "e", "events")
	}
	return m.fitKeys("↑↓", "scroll", "esc", "back", "r", "restart", "l", "stderr", "t", "tools", "e", "events", "x", "stop", "u", "start")
}

func (m *model) eventKeys() string {
	single, back := "one by one", "back"
	if m.single {
		single = "together"
	}
	if m.group > 0 || m.filter.Value() != "" {
		back = "show all"
	}
	pairs := []string{"↑↓", "select", "↵", "about it", "f", "kind", "/", "filter", "o", single, "esc", back, "c", "calls", "a", "attention", "h", "hosts", "n", "nodes"}
	if m.eventsOf != "" {
		pairs = slices.Insert(pairs, 4, "e", "all servers")
	}
	return m.fitKeys(pairs...)
}

// question says what a restart or a stop of the servers in confirm costs.
func (m *model) question() string {
	verb := "restart"
	if m.stops {
		verb = "stop"
	}
	answers := keys("y", verb, "any other key", "cancel")
	question := fmt.Sprintf("restart all %d servers? calls in flight fail  ", len(m.confirm))
	if len(m.confirm) == 1 {
		after := "? no call is in flight  "
		if n := m.inFlight(m.confirm[0]); n > 0 {
			after = fmt.Sprintf("? %s in flight fail  ", display.Count(n, "call"))
			if n == 1 {
				after = "? 1 call in flight fails  "
			}
		}
		question = verb + " "
		question += cell(m.confirm[0], min(ansi.StringWidth(m.confirm[0]), max(m.width-ansi.StringWidth(question+after+answers), 8)), false) + after
	}
	return warning.Render(question) + answers
}

// inFlight counts the calls that a restart or a stop of a server would end.
func (m *model) inFlight(server string) (n int) {
	for _, c := range m.data.calls.InFlight {
		if c.Server == server {
			n++
		}
	}
	return n
}

// fitKeys renders the pairs that fit, the first ones first, and the two that always do. Where
// some do not fit it says that there are more: the help has all.
func (m *model) fitKeys(pairs ...string) string {
	if i := slices.Index(pairs, "nodes"); i > 0 && !m.data.nodes.Fleet {
		pairs = slices.Delete(pairs, i-1, i+1)
	}
	always := []string{"?", "help", "q", "quit"}
	for ; len(pairs) > 0; pairs = pairs[:len(pairs)-2] {
		if text := keys(append(slices.Clone(pairs), always...)...); ansi.StringWidth(text) <= m.width {
			return text
		}
		always[1] = "more keys"
	}
	return keys(always...)
}

// keys renders pairs of a key and what it does.
func keys(pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		parts = append(parts, strong.Render(pairs[i])+" "+quiet.Render(pairs[i+1]))
	}
	return strings.Join(parts, quiet.Render("  "))
}

func heading(text string) string { return quiet.Render(text) }

// The colours are those of the terminal's own palette, so that they fit its background.
// What they say is also said in words: NO_COLOR loses nothing.
var (
	plain   = lipgloss.NewStyle()
	strong  = lipgloss.NewStyle().Bold(true)
	quiet   = lipgloss.NewStyle().Faint(true)
	good    = lipgloss.NewStyle().Foreground(lipgloss.Green)
	busy    = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	warning = lipgloss.NewStyle().Foreground(lipgloss.Yellow).Bold(true)
	failure = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
)

var styleOfColor = map[table.Color]lipgloss.Style{table.Plain: plain, table.Quiet: quiet, table.Good: good, table.Busy: busy, table.Warning: warning, table.Failure: failure}

func styleOf(s supervisor.State) lipgloss.Style {
	if s == supervisor.StateStopped {
		return strong
	}
	return styleOfColor[facts.StateColor(s)]
}

func severityStyle(s api.Severity) (style lipgloss.Style, symbol string) {
	symbol = "·"
	switch s {
	case api.SeverityError:
		symbol = "✗"
	case api.SeverityWarning:
		symbol = "!"
	default:
	}
	return styleOfColor[facts.ColorOf(s)], symbol
}

// cell returns a text of exactly width columns, cut or padded; right aligns it to the right.
// Text of servers cannot change the terminal.
func cell(text string, width int, right bool) string {
	return fit(display.Line(text), width, right)
}

// fit is cell for a text that was made of cells.
func fit(text string, width int, right bool) string {
	text = ansi.Truncate(text, max(width, 0), "…")
	pad := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
	if right {
		return pad + text
	}
	return text + pad
}

// wrapBeside breaks a text into lines beside a head of indent columns.
func wrapBeside(head, text string, width, indent int) []string {
	lines := wrap(text, width, indent)
	lines[0] = head + lines[0]
	return lines
}

// wrap breaks a text into lines of at most width columns. All but the first begin with
// indent columns.
func wrap(text string, width, indent int) []string {
	lines := strings.Split(ansi.Wrap(display.Line(text), max(width-indent, 10), " "), "\n")
	for i := 1; i < len(lines); i++ {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines
}

// glyph is a symbol of one column that shows a state in tables.
func glyph(s supervisor.State) string {
	switch s {
	case supervisor.StateReady:
		return "●"
	case supervisor.StateConnecting, supervisor.StateDiscovering:
		return "◐"
	case supervisor.StateClosing, supervisor.StateStopping:
		return "◌"
	case supervisor.StateBackoff:
		return "↻"
	case supervisor.StateParked:
		return "◷"
	case supervisor.StateUnauthorized:
		return "◇"
	case supervisor.StateEvicted:
		return "✗"
	case supervisor.StateWaiting:
		return "◔"
	case supervisor.StateAsleep, supervisor.StateResting:
		return "◦"
	case supervisor.StateStopped:
		return "■"
	default:
	}
	return "○"
}

// isIdle reports whether a server does not run and needs no attention: nothing wants it, or an operator has stopped it.
func isIdle(s supervisor.State) bool {
	return s == supervisor.StateAsleep || s == supervisor.StateResting || s == supervisor.StateStopped
}

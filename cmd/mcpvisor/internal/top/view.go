package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcpvisor/mcpvisor/supervisor"
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
	if m.screen == screenServers {
		content = m.serverLines()
	} else {
		content = m.lines()
		last := max(len(content)-m.room(), 0)
		first := min(m.top, last)
		if m.screen == screenStderr && m.follow {
			first = last
		}
		content = content[first:]
	}
	content = content[:min(len(content), m.room())]
	lines := append([]string{m.titleLine(), ""}, content...)
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

// titleLine says what is shown, and how many servers are ready.
func (m *model) titleLine() string {
	title := strong.Render("mcpvisor") + "  " + quiet.Render(m.opts.Text(m.opts.Title))
	if m.screen != screenServers && m.screen != screenHelp {
		title = strong.Render(cell(m.selected, min(ansi.StringWidth(m.selected), m.width/2), false)) + "  " + quiet.Render([]string{"", "details", "tools", "stderr", ""}[m.screen])
	}
	ready, all := 0, len(m.data.status.Servers)
	for i := range m.data.status.Servers {
		if m.data.status.Servers[i].State == supervisor.StateReady {
			ready++
		}
	}
	style := good
	if ready < all {
		style = warning
	}
	right := style.Render(fmt.Sprintf("%d of %d ready", ready, all))
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
	case m.confirm:
		return warning.Render(fmt.Sprintf("restart all %d servers? calls in flight fail  ", len(m.data.status.Names))) + keys("y", "restart", "any other key", "cancel")
	case m.filtering:
		return m.filter.View()
	case m.flash != "":
		return busy.Render(cell(m.flash, m.width, false))
	case m.screen == screenHelp:
		return keys("esc", "back", "q", "quit")
	case m.screen == screenServers:
		text := keys("↵", "details", "l", "stderr", "t", "tools", "r", "restart", "R", "restart all", "/", "filter", "?", "help", "q", "quit")
		if m.filter.Value() != "" {
			text = keys("esc", "clear filter "+m.filter.Value()) + "  " + text
		}
		return text
	}
	return keys("↑↓", "scroll", "↵", "details", "l", "stderr", "t", "tools", "r", "restart", "esc", "back", "?", "help", "q", "quit")
}

// keys renders pairs of a key and what it does.
func keys(pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		parts = append(parts, strong.Render(pairs[i])+" "+quiet.Render(pairs[i+1]))
	}
	return strings.Join(parts, quiet.Render("  "))
}

// heading renders the title of a part of a screen.
func heading(text string) string { return quiet.Render(text) }

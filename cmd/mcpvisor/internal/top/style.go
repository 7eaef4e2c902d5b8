package top

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

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

// styleOf returns the style of a state: trouble is loud, the rest is calm.
func styleOf(s supervisor.State) lipgloss.Style {
	switch s {
	case supervisor.StateReady:
		return good
	case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateClosing:
		return busy
	case supervisor.StateBackoff, supervisor.StateParked:
		return warning
	case supervisor.StateEvicted, supervisor.StateUnauthorized:
		return failure
	default:
	}
	return quiet
}

// severityStyle returns the style and the symbol of a severity.
func severityStyle(s api.Severity) (style lipgloss.Style, symbol string) {
	switch s {
	case api.SeverityError:
		return failure, "✗"
	case api.SeverityWarning:
		return warning, "!"
	default:
	}
	return plain, "·"
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
	default:
	}
	return "○"
}

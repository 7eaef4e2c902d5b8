package top

import (
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// keptEvents is how many events the view keeps.
const keptEvents = 500

// eventMsg is something that has happened. known: the status that was read first has it.
type eventMsg struct {
	event api.Event
	known bool
}

// note keeps an event for its screen.
func (m *model) note(e api.Event) {
	m.events = append(m.events, e)
	if len(m.events) > keptEvents {
		m.events = slices.Delete(m.events, 0, len(m.events)-keptEvents)
	}
}

// clock is a time of day, after the day if that is not today.
func (m *model) clock(at time.Time) string {
	now := m.opts.Now()
	at = at.In(now.Location())
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format("Jan _2 " + time.TimeOnly)
}

// eventLines list what has happened, the last first.
func (m *model) eventLines() (lines []string) {
	for _, e := range slices.Backward(m.events) {
		style := plain
		switch e.Severity {
		case mcpvisor.SeverityError:
			style = failure
		case mcpvisor.SeverityWarning:
			style = warning
		default:
		}
		row := m.clock(e.Time) + "  " + display.Line(m.opts.Text(e.Text))
		for _, line := range wrap(row, m.width, 10) {
			lines = append(lines, style.Render(line))
		}
	}
	if len(lines) == 0 {
		return []string{quiet.Render("nothing has happened yet")}
	}
	return lines
}

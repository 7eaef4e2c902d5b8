package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// keptEvents is how many single events the view keeps, and keptSummaries how many summaries.
const (
	keptEvents    = 500
	keptSummaries = 2000
)

// groups are what the key f goes through on the screen of events. The first has all.
var groups = []struct {
	group api.EventGroup
	name  string
}{{"", "all"}, {api.GroupConfiguration, "configuration"}, {api.GroupLists, "lists"}, {api.GroupGivenUp, "out of service"},
	{api.GroupEnds, "ends and starts"}, {api.GroupTasks, "tasks"}}

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

// summaries are what has happened in short, in the order of the last events.
type summaries struct {
	seq     uint64 // of the last event that is in them
	all     []api.EventSummary
	dropped uint64
	started time.Time
}

// take takes those that have changed.
func (s *summaries) take(changed *api.EventSummaries) {
	if changed.Instance == "" { // they were not read
		return
	}
	s.seq, s.dropped, s.started = changed.Seq, changed.Dropped, changed.Started
	renewed := map[uint64]bool{}
	for i := range changed.Summaries {
		renewed[changed.Summaries[i].Seq] = true
	}
	s.all = slices.DeleteFunc(s.all, func(one api.EventSummary) bool { return renewed[one.Seq] })
	s.all = append(s.all, changed.Summaries...)
	slices.SortFunc(s.all, func(a, b api.EventSummary) int { return cmp.Compare(a.Last.Seq, b.Last.Seq) })
	if more := len(s.all) - keptSummaries; more > 0 {
		s.all = slices.Delete(s.all, 0, more)
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

// shows reports whether the screen of events shows what is about a server.
func (m *model) shows(group api.EventGroup, server, text string) bool {
	wanted := strings.ToLower(strings.TrimSpace(m.filter.Value()))
	return (m.group == 0 || group == groups[m.group].group) && strings.Contains(strings.ToLower(server+" "+text), wanted)
}

// eventLines list what has happened, the last first: similar events of one server together, or
// each event by itself.
func (m *model) eventLines() (lines []string) {
	add := func(at time.Time, severity mcpvisor.Severity, text string) {
		for _, line := range wrap(m.clock(at)+"  "+display.Line(m.opts.Text(text)), m.width, 10) {
			lines = append(lines, eventStyle(severity).Render(line))
		}
	}
	if m.single {
		for _, e := range slices.Backward(m.events) {
			if m.shows(e.Group, e.Server, e.Text) {
				add(e.Time, e.Severity, e.Text)
			}
		}
	} else {
		for _, s := range slices.Backward(m.summaries.all) {
			if m.shows(s.Last.Group, s.Last.Server, s.Text) {
				add(s.Last.Time, s.Last.Severity, s.Text+m.summaryTimes(&s))
			}
		}
	}
	switch {
	case len(lines) > 0:
	case m.group > 0 || m.filter.Value() != "":
		return []string{quiet.Render("nothing that fits")}
	default:
		return []string{quiet.Render("nothing has happened yet")}
	}
	if m.summaries.dropped > 0 && !m.single {
		lines = append(lines, quiet.Render("and "+display.Count(m.summaries.dropped, "older one")+" since "+m.clock(m.summaries.started)))
	} else if !m.single && !m.summaries.started.IsZero() {
		lines = append(lines, quiet.Render(m.clock(m.summaries.started)+"  began to watch"))
	}
	return lines
}

// summaryTimes says when the first event of a summary happened, and when the server was ready
// again.
func (m *model) summaryTimes(s *api.EventSummary) (text string) {
	if s.Count > 1 {
		text = "; since " + m.clock(s.Began)
	}
	switch {
	case s.Ready == nil:
	case s.Last.Group == api.GroupConfiguration:
		text += "; ready " + m.clock(*s.Ready)
	default:
		text += "; ready again " + m.clock(*s.Ready)
	}
	return text
}

func eventStyle(s mcpvisor.Severity) lipgloss.Style {
	switch s {
	case mcpvisor.SeverityError:
		return failure
	case mcpvisor.SeverityWarning:
		return warning
	default:
	}
	return plain
}

// pressInEvents handles the keys that only the screen of events has.
func (m *model) pressInEvents(name string) (handled bool) {
	switch name {
	case "f":
		m.group = (m.group + 1) % len(groups)
	case "enter":
		m.single = !m.single
	case "esc":
		if m.filter.Value() == "" && m.group == 0 {
			return false
		}
		m.filter.Reset()
		m.group = 0
	default:
		return false
	}
	m.top = 0
	return true
}

// eventsTitle says which events are shown.
func (m *model) eventsTitle() string {
	text := "the last first"
	if m.single {
		text = "one by one, " + text
	}
	if m.group > 0 {
		text = groups[m.group].name + ", " + text
	}
	if wanted := m.filter.Value(); wanted != "" {
		text = "with \"" + wanted + "\", " + text
	}
	return text
}

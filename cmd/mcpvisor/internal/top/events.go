package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
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
	return (m.group == 0 || group == groups[m.group].group) && (m.eventsOf == "" || server == m.eventsOf) && strings.Contains(strings.ToLower(server+" "+text), wanted)
}

// eventEntries are what has happened, the last first: similar events of one server together, or
// each event by itself.
func (m *model) eventEntries() (all []entry) {
	add := func(key string, e *api.Event, text string, about func() []fact) {
		lines := wrap(m.clock(e.Time)+"  "+display.Line(text), m.width-2, 10)
		all = append(all, entry{key: key, lines: lines, style: eventStyle(e.Severity), title: e.Server, about: about})
	}
	if m.single {
		for _, e := range slices.Backward(m.events) {
			if text := m.inWords(e.Text, &e); m.shows(e.Group, e.Server, text) {
				add(fmt.Sprintf("event %d", e.Seq), &e, text, func() []fact { return m.eventFacts(&e) })
			}
		}
	} else {
		for _, s := range slices.Backward(m.summaries.all) {
			if text := m.inWords(s.Text, &s.Last); m.shows(s.Last.Group, s.Last.Server, text) {
				add(fmt.Sprintf("summary %d", s.Seq), &s.Last, text+m.summaryTimes(&s), func() []fact { return m.summaryFacts(&s) })
			}
		}
	}
	note := func(text string) { all = append(all, entry{lines: []string{quiet.Render(text)}}) }
	switch {
	case len(all) > 0:
	case m.group > 0 || m.filter.Value() != "" || m.eventsOf != "":
		note("nothing that fits")
		return all
	default:
		note("nothing has happened yet")
		return all
	}
	if m.summaries.dropped > 0 && !m.single {
		note("  and " + display.Count(m.summaries.dropped, "older one") + " since " + m.clock(m.summaries.started))
	} else if !m.single && !m.summaries.started.IsZero() {
		note("  " + m.clock(m.summaries.started) + "  began to watch")
	}
	return all
}

// inWords is the text of an event, with what a state means.
func (m *model) inWords(text string, e *api.Event) string {
	switch {
	case e.Kind == mcpvisor.EventEvicted:
		return strings.Replace(text, e.Server+" evicted", e.Server+" evicted, given up", 1)
	case e.Kind == mcpvisor.EventParked && e.RetryAt != nil:
		return strings.Replace(text, fmt.Sprintf("parked, next try in %v", e.Delay), "parked, waits until "+m.clock(*e.RetryAt), 1)
	}
	return text
}

// summaryFacts are what is known of a summary. Its last event is shown as it was, if it is kept.
func (m *model) summaryFacts(s *api.EventSummary) []fact {
	last := s.Last
	if i := slices.IndexFunc(m.events, func(e api.Event) bool { return e.Seq == last.Seq && e.Server == last.Server }); i >= 0 && m.events[i].Cause != nil {
		last.Cause = m.events[i].Cause
	}
	facts := m.eventFacts(&last)
	if s.Count > 1 {
		facts = slices.Insert(facts, 2, fact{"times", plain, fmt.Sprintf("%d, since %s; below is the last one", s.Count, m.clock(s.Began))})
	}
	if s.Ready != nil {
		facts = slices.Insert(facts, 2, fact{"ready", good, m.clock(*s.Ready)})
	}
	return facts
}

// eventFacts are what is known of an event: what has changed by name, and what the process wrote
// to stderr before it ended, whether its server is still registered or not.
func (m *model) eventFacts(e *api.Event) []fact {
	text := m.inWords(e.Text, e)
	if e.Cause != nil { // its stderr stands below
		text, _, _ = strings.Cut(text, "; stderr: ")
	}
	facts := []fact{{"server", strong, e.Server}, {"time", plain, m.clock(e.Time)}, {"event", eventStyle(e.Severity), text}}
	if e.Epoch > 0 {
		process := fmt.Sprintf("start %d", e.Epoch)
		if e.PID > 0 {
			process += fmt.Sprintf(", pid %d", e.PID)
		}
		facts = append(facts, fact{"process", plain, process})
	}
	if !e.Change.IsZero() {
		facts = append(facts, changeFacts(e.Change)...)
	}
	if e.FailedCalls > 0 {
		facts = append(facts, fact{"calls", warning, display.Count(e.FailedCalls, "call") + " in flight failed"})
	}
	if e.Cause == nil {
		return facts
	}
	facts = append(facts, fact{"cause", failure, e.Cause.Error()})
	if len(e.Cause.Stderr) == 0 {
		return append(facts, fact{"stderr", quiet, "nothing is kept"})
	}
	for i, line := range e.Cause.Stderr {
		label := ""
		if i == 0 {
			label = "stderr"
		}
		facts = append(facts, fact{label, plain, line})
	}
	return facts
}

// changeFacts name what a server lists otherwise than before.
func changeFacts(c *mcpvisor.Change) (facts []fact) {
	label := "changes"
	for _, list := range []struct {
		noun string
		d    mcpvisor.Delta
	}{{"", c.Tools}, {"resources ", c.Resources}, {"templates ", c.Templates}, {"prompts ", c.Prompts}} {
		for _, kind := range []struct {
			verb  string
			names []string
			more  int
		}{{"added ", list.d.Added, list.d.AddedMore}, {"removed ", list.d.Removed, list.d.RemovedMore}, {"changed ", list.d.Changed, list.d.ChangedMore}} {
			if len(kind.names) == 0 {
				continue
			}
			text := kind.verb + list.noun + strings.Join(kind.names, ", ")
			if kind.more > 0 {
				text += fmt.Sprintf(", and %d more", kind.more)
			}
			facts, label = append(facts, fact{label, plain, text}), ""
		}
	}
	if c.Instructions {
		facts = append(facts, fact{label, plain, "changed its instructions"})
	}
	return facts
}

func (m *model) showEvents() tea.Cmd {
	m.eventsOf = ""
	if m.screen != screenServers && !m.screen.aboutAll() {
		m.eventsOf, m.eventsFrom = m.selected, m.screen
	}
	delete(m.picks, screenEvents)
	return m.show(screenEvents)
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

func eventStyle(s mcpvisor.Severity) lipgloss.Style { return styleOfColor[facts.ColorOf(s)] }

// pressInEvents handles the keys that only the screen of events has.
func (m *model) pressInEvents(name string) (handled bool) {
	switch name {
	case "f":
		m.group = (m.group + 1) % len(groups)
	case "o":
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
	delete(m.picks, screenEvents)
	m.top = 0
	return true
}

// eventsTitle says which events are shown.
func (m *model) eventsTitle() string {
	text := "the last first"
	if m.single {
		text = "one by one, " + text
	}
	if m.eventsOf != "" {
		text = "of " + m.eventsOf + ", " + text
	}
	if m.group > 0 {
		text = groups[m.group].name + ", " + text
	}
	if wanted := m.filter.Value(); wanted != "" {
		text = "with \"" + wanted + "\", " + text
	}
	return text
}

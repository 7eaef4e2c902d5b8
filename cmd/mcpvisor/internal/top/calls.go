package top

import (
	"cmp"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// callEntries are calls of all servers: in flight, without an end, of unknown outcome, and ended,
// the last first.
func (m *model) callEntries() (all []entry) {
	section := func(title string, part []entry) {
		if len(part) == 0 {
			return
		}
		if len(all) > 0 {
			all = append(all, entry{lines: []string{""}})
		}
		all = append(append(all, entry{lines: []string{heading(title)}}), part...)
	}
	flight := m.flightEntries("")
	section(flightTitle(len(flight)), flight)
	section(m.unfinishedTitle(len(m.data.calls.Unfinished)+m.data.calls.MoreUnfinished), m.unfinishedEntries(""))
	if more := m.data.calls.MoreUnfinished; more > 0 {
		all = append(all, entry{lines: []string{quiet.Render(fmt.Sprintf("  and %d more; mcpvisor tasks lists all", more))}})
	}
	section(fmt.Sprintf("  UNKNOWN OUTCOME  %s that may have been executed, the last end first", display.Count(len(m.data.calls.Unknown), "call")), m.endedEntries(m.data.calls.Unknown))
	others := slices.DeleteFunc(slices.Clone(m.data.calls.Recent), func(c monitor.CallRecord) bool { return c.Outcome == mcpvisor.OutcomeUnknown })
	section("  ENDED  the last end first", m.endedEntries(others))
	if len(all) == 0 {
		return []entry{{lines: []string{quiet.Render("no call was made yet")}}}
	}
	return all
}

// endedEntries are calls that have ended, the last first: each with the time of its end, and how
// long it took.
func (m *model) endedEntries(calls []monitor.CallRecord) (all []entry) {
	for i := len(calls) - 1; i >= 0; i-- {
		c, same := calls[i], 1
		for ; c.Outcome == mcpvisor.OutcomeUnknown && i > 0 && alike(&c, &calls[i-1]); i-- {
			same++
		}
		text, style := outcomeOf(&c)
		if c.Client != "" {
			text += ", for " + display.Line(c.Client)
		}
		if same > 1 {
			text += fmt.Sprintf(", %d times in a row", same)
		}
		name := targetOf(c.Server, c.Target, c.Method)
		row := fmt.Sprintf("%s  %s  %s  %s", m.clock(c.Began.Add(c.Took)), cell(latency(c.Took), 7, true), name, text)
		all = append(all, entry{key: fmt.Sprintf("ended %d", c.Seq), lines: []string{fit(row, m.width-2, false)}, style: style, title: name,
			about: func() []fact { return m.endedFacts(&c, same) }})
	}
	return all
}

func targetOf(server, target, method string) string {
	return display.Line(server + "/" + cmp.Or(target, method))
}

func (m *model) endedFacts(c *monitor.CallRecord, same int) []fact {
	text, style := outcomeSentence(c)
	facts := []fact{
		{"call", strong, targetOf(c.Server, c.Target, c.Method)},
		{"method", plain, c.Method},
		{"outcome", style, text},
		{"error", style, string(c.Kind)},
		{"why", style, c.Error},
		{"began", plain, m.clock(c.Began)},
		{"ended", plain, m.clock(c.Began.Add(c.Took)) + ", after " + plaintext.Took(c.Took)},
		{"client", plain, cmp.Or(c.Client, "none is named: the host itself made it, or for a client that gave no name")},
	}
	if same > 1 {
		facts = append(facts, fact{"alike", plain, fmt.Sprintf("%d times in a row; this is the last one", same)})
	}
	if c.Epoch > 0 {
		facts = append(facts, fact{"process", plain, fmt.Sprintf("start %d of the server", c.Epoch)})
	}
	if c.ResultBytes > 0 {
		facts = append(facts, fact{"result", plain, display.Count(c.ResultBytes, "byte") + "; the result itself is not kept"})
	}
	facts = append(facts, notKept)
	return slices.DeleteFunc(facts, func(f fact) bool { return f.text == "" })
}

// notKept says that a record of a call has no arguments.
var notKept = fact{"arguments", quiet, "not kept"}

// outcomeSentence says how a call has ended, and what that means for another attempt.
func outcomeSentence(c *monitor.CallRecord) (text string, style lipgloss.Style) {
	_, style = outcomeOf(c)
	switch {
	case c.Kind == "" && c.ToolError:
		return "the tool ran, and its result reports an error; the call itself did not fail", style
	case c.Kind == "":
		return "ok: the server answered with a result", good
	case c.Outcome == mcpvisor.OutcomeUnknown:
		return "the call failed, and the server may have executed it: look for its effect before you repeat it", style
	case c.Outcome == mcpvisor.OutcomeNotSent:
		return "the call failed before anything was sent: nothing was executed", style
	}
	return "the call failed: the server answered with an error", style
}

// alike reports whether two calls of the same target have failed in the same way.
func alike(a, b *monitor.CallRecord) bool {
	return a.Server == b.Server && a.Target == b.Target && a.Method == b.Method && a.Kind == b.Kind && a.Client == b.Client && a.Outcome == b.Outcome
}

// outcomeOf says how a call has ended.
func outcomeOf(c *monitor.CallRecord) (text string, style lipgloss.Style) {
	text, color := facts.Outcome(c)
	return text, styleOfColor[color]
}

// allAttentionLines are all entries of what needs attention, each with what to do.
func (m *model) allAttentionLines() (lines []string) {
	for i, a := range m.data.status.Attention {
		if i > 0 {
			lines = append(lines, "")
		}
		style, symbol := severityStyle(a.Severity)
		text := symbol + " " + a.Server + " " + a.Text
		if a.Since != nil {
			text += ", " + sinceText(a.Kind, m.opts.Now().Sub(*a.Since))
		}
		for _, line := range wrap(text, m.width, 2) {
			lines = append(lines, style.Render(line))
		}
		for _, more := range append(slices.Clone(a.More), a.Servers...) {
			lines = append(lines, below(more, m.width)...)
		}
		if a.Action != "" {
			lines = append(lines, below(a.Action, m.width)...)
		}
	}
	if len(lines) == 0 {
		return []string{quiet.Render("nothing")}
	}
	return lines
}

// below renders a text whose lines all begin with two columns.
func below(text string, width int) []string {
	return wrapBeside("  ", text, width, 2)
}

// entry is a row of a list in which the user selects, such as a call. A row without a key is a
// heading or a gap: it is shown as it is, and cannot be selected.
type entry struct {
	key   string   // the same while the list is read again
	lines []string // without the columns of the mark
	style lipgloss.Style
	title string
	about func() []fact // what ↵ shows of it
}

// fact is one line of what is known of an entry: a label, and a text.
type fact struct {
	label string
	style lipgloss.Style
	text  string
}

// pick is which entry of a list is selected.
type pick struct {
	key string // empty until the user selects: then it is the first
	at  int    // where it stood, for the time after it is gone
}

func (s screen) lists() bool { return s == screenCalls || s == screenEvents }

func (m *model) entries(list screen) []entry {
	if list == screenEvents {
		return m.eventEntries()
	}
	return m.callEntries()
}

// picked returns the index of the selected entry; -1 if none can be selected.
func (m *model) picked(list screen, all []entry) int {
	p := m.picks[list]
	selectable := func(e entry) bool { return e.key != "" }
	if p.key == "" {
		return slices.IndexFunc(all, selectable)
	}
	if i := slices.IndexFunc(all, func(e entry) bool { return e.key == p.key }); i >= 0 {
		return i
	}
	at := min(p.at, len(all))
	if i := slices.IndexFunc(all[at:], selectable); i >= 0 {
		return at + i
	}
	for at--; at >= 0 && !selectable(all[at]); at-- {
	}
	return at
}

// entryLines are the lines of a list, with a mark at the selected entry.
func (m *model) entryLines(list screen) (lines []string) {
	all := m.entries(list)
	at := m.picked(list, all)
	for i := range all {
		e := &all[i]
		for j, line := range e.lines {
			switch {
			case e.key == "":
			case i == at && j == 0:
				line = strong.Render("▸ ") + e.style.Render(line)
			default:
				line = "  " + e.style.Render(line)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// pickEntry selects the entry that is n further.
func (m *model) pickEntry(n int) {
	all := m.entries(m.screen)
	at := m.picked(m.screen, all)
	if at < 0 {
		return
	}
	step := 1
	if n < 0 {
		step = -1
	}
	for i := at + step; n != 0 && i >= 0 && i < len(all); i += step {
		if all[i].key != "" {
			at = i
			n -= step
		}
	}
	m.picks[m.screen] = pick{all[at].key, at}
	m.revealEntry()
}

// revealEntry keeps the selected entry in view, and what stands above the first one.
func (m *model) revealEntry() {
	all := m.entries(m.screen)
	at := m.picked(m.screen, all)
	if at < 0 || m.picks[m.screen].key == "" {
		return
	}
	first, headings := 0, true
	for i := range all[:at] {
		first += len(all[i].lines)
		headings = headings && all[i].key == ""
	}
	m.top = min(max(m.top, first+len(all[at].lines)-m.room()), first)
	if headings {
		m.top = 0
	}
}

func (m *model) openEntry() tea.Cmd {
	all := m.entries(m.screen)
	at := m.picked(m.screen, all)
	if at < 0 {
		return nil
	}
	m.picks[m.screen] = pick{all[at].key, at}
	m.opened, m.openedIn = all[at], m.screen
	return m.show(screenEntry)
}

// openedLines are what is known of the entry that was opened. What has left its list is shown as
// it was.
func (m *model) openedLines() (lines []string) {
	e := m.opened
	all := m.entries(m.openedIn)
	if i := slices.IndexFunc(all, func(one entry) bool { return one.key == e.key }); i >= 0 {
		e = all[i]
	}
	for _, f := range e.about() {
		lines = append(lines, m.factLines(f)...)
	}
	return lines
}

// factLines are the text of a fact behind its label.
func (m *model) factLines(f fact) []string {
	lines := wrap(f.text, m.width, labelWidth)
	for i, line := range lines {
		lines[i] = f.style.Render(line)
	}
	lines[0] = quiet.Render(cell(f.label, labelWidth, false)) + lines[0]
	return lines
}

package top

import (
	"slices"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

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

// lists reports whether a screen is a list of entries.
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
		for i, line := range wrap(f.text, m.width, labelWidth) {
			if i == 0 {
				line = quiet.Render(cell(f.label, labelWidth, false)) + f.style.Render(line)
			} else {
				line = f.style.Render(line)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

package top

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// press handles a key. A question and the filter get it first.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	m.flash = ""
	switch {
	case len(m.confirm) > 0:
		names, stops := m.confirm, m.stops
		m.confirm, m.stops = nil, false
		switch {
		case name != "y":
			return nil
		case stops:
			return m.operate("stopped", func(s Source, ctx context.Context, name string) error { return s.StopServer(ctx, name, false) }, names...)
		}
		return m.operate("restarting", restart, names...)
	case m.filtering:
		return m.pressInFilter(key)
	case m.screen == screenCall:
		return m.pressInForm(key)
	}
	switch name {
	case "q":
		return tea.Quit
	case "?":
		if m.screen != screenHelp {
			return m.show(screenHelp)
		}
		return m.show(m.back)
	case "r", "x", "u":
		switch {
		case m.screen.aboutAll() || m.selected == "":
		case name == "u":
			return m.operate("starting", Source.StartServer, m.selected)
		case name == "r" && m.inFlight(m.selected) == 0:
			return m.operate("restarting", restart, m.selected)
		default:
			m.confirm, m.stops = []string{m.selected}, name == "x"
		}
		return nil
	case "R":
		m.confirm = m.data.status.Names
	case "l":
		return m.show(screenStderr)
	case "t":
		return m.show(screenTools)
	case "e":
		return m.showEvents()
	case "a":
		return m.show(screenAttention)
	case "h":
		return m.show(screenClients)
	case "n":
		if m.data.nodes.Fleet {
			return m.show(screenNodes)
		}
	case "c":
		return m.show(screenCalls)
	}
	switch {
	case m.screen == screenServers:
		return m.pressInServers(name)
	case m.screen == screenEvents && name == "/":
		m.filtering = true
		return m.filter.Focus()
	case m.screen == screenEvents && m.pressInEvents(name):
		return nil
	}
	return m.pressInLines(name)
}

// restart has the form of the other operations, which are methods of a Source.
func restart(s Source, ctx context.Context, name string) error { //nolint:revive // so ctx is second
	return s.Restart(ctx, name, false)
}

func (m *model) pressInFilter(key tea.KeyPressMsg) (cmd tea.Cmd) {
	switch key.String() {
	case "enter":
		m.filtering = false
		m.filter.Blur()
	case "esc":
		m.filtering = false
		m.filter.Blur()
		m.filter.Reset()
	default:
		m.filter, cmd = m.filter.Update(key)
	}
	m.keepSelection()
	return cmd
}

// paste types a text into what is edited. Elsewhere text is nothing: it is no key.
func (m *model) paste(text tea.PasteMsg) (cmd tea.Cmd) {
	switch {
	case len(m.confirm) > 0:
	case m.filtering:
		m.filter, cmd = m.filter.Update(text)
		m.keepSelection()
	case m.screen == screenCall:
		m.call.problem = ""
		if c := m.call; c.cancel == nil && !c.confirm && len(c.values) > 0 {
			c.input, cmd = c.input.Update(text)
			c.values[c.at] = c.input.Value()
		}
	}
	return cmd
}

// steps is how far a key moves a selection or the window, on pages of that many lines.
func steps(name string, page int) (n int, moves bool) {
	const all = 1 << 20 // more than any list has
	n, moves = map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "space": page,
		"home": -all, "g": -all, "end": all, "G": all}[name]
	return n, moves
}

func (m *model) pressInServers(name string) tea.Cmd {
	if n, moves := steps(name, 10); moves {
		return m.move(n)
	}
	switch name {
	case "enter", "right":
		return m.show(screenDetails)
	case "s":
		m.order = (m.order + 1) % len(orders)
	case "/":
		m.filtering = true
		return m.filter.Focus()
	case "esc":
		m.filter.Reset()
		m.keepSelection()
	}
	return nil
}

func (m *model) pressInLines(name string) tea.Cmd {
	if n, moves := steps(name, max(m.room()-1, 1)); moves {
		switch {
		case m.screen == screenTools:
			m.selectTool(n)
		case m.screen.lists():
			m.pickEntry(n)
		default:
			m.scroll(n)
		}
		return nil
	}
	switch name {
	case "esc", "left", "backspace":
		if m.screen == screenHelp {
			return m.show(m.back)
		}
		switch {
		case m.screen == screenEntry:
			return m.show(m.openedIn)
		case m.screen == screenEvents && m.eventsOf != "":
			return m.show(m.eventsFrom)
		}
		return m.show(screenServers)
	case "enter":
		switch m.screen {
		case screenCalls, screenEvents:
			return m.openEntry()
		case screenEntry:
			return m.show(m.openedIn)
		case screenTools:
			return m.openForm()
		case screenStderr:
			return m.show(screenDetails)
		default:
		}
	}
	return nil
}

// scroll moves the window by n lines. At the end of stderr the window follows new lines.
func (m *model) scroll(n int) {
	last := max(len(m.lines())-m.room(), 0)
	if m.screen == screenStderr && m.follow {
		m.top = last
	}
	m.top = min(max(m.top+n, 0), last)
	m.follow = m.top == last
}

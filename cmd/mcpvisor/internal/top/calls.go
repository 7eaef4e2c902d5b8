package top

import (
	"fmt"
	"math"
	"slices"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// allCallLines are calls of all servers: in flight, without an end, of unknown outcome, and ended,
// the last first.
func (m *model) allCallLines() (lines []string) {
	section := func(part []string) {
		if len(part) > 0 && len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, part...)
	}
	section(m.inFlightLines("", math.MaxInt))
	section(m.unfinishedLines("", math.MaxInt))
	section(m.endedLines(fmt.Sprintf("  UNKNOWN OUTCOME  %s that may have been executed, the last end first", display.Count(len(m.data.calls.Unknown), "call")), m.data.calls.Unknown))
	others := slices.DeleteFunc(slices.Clone(m.data.calls.Recent), func(c mcpvisor.CallRecord) bool { return c.Outcome == mcpvisor.OutcomeUnknown })
	section(m.endedLines("  ENDED  the last end first", others))
	if len(lines) == 0 {
		return []string{quiet.Render("no call was made yet")}
	}
	return lines
}

// endedLines list calls that have ended, the last first: each with the time of its end, and how
// long it took.
func (m *model) endedLines(title string, calls []mcpvisor.CallRecord) (lines []string) {
	if len(calls) == 0 {
		return nil
	}
	lines = append(lines, heading(title))
	for i := len(calls) - 1; i >= 0; i-- {
		c, same := calls[i], 1
		for ; c.Outcome == mcpvisor.OutcomeUnknown && i > 0 && alike(&c, &calls[i-1]); i-- {
			same++
		}
		target := c.Target
		if target == "" {
			target = c.Method
		}
		text, style := outcomeOf(&c)
		if c.Client != "" {
			text += ", for " + display.Line(c.Client)
		}
		if same > 1 {
			text += fmt.Sprintf(", %d times in a row", same)
		}
		row := fmt.Sprintf("  %s  %s  %s  %s", m.clock(c.Began.Add(c.Took)), cell(latency(c.Took), 7, true), display.Line(c.Server+"/"+target), text)
		lines = append(lines, style.Render(fit(row, m.width, false)))
	}
	return lines
}

// alike reports whether two calls of the same target have failed in the same way.
func alike(a, b *mcpvisor.CallRecord) bool {
	return a.Server == b.Server && a.Target == b.Target && a.Method == b.Method && a.Kind == b.Kind && a.Client == b.Client && a.Outcome == b.Outcome
}

// outcomeOf says how a call has ended.
func outcomeOf(c *mcpvisor.CallRecord) (text string, style lipgloss.Style) {
	switch {
	case c.Kind == "" && c.ToolError:
		return "the tool reports an error", warning
	case c.Kind == "":
		return "ok", quiet
	case c.Outcome == mcpvisor.OutcomeUnknown:
		return string(c.Kind) + ", may have been executed", failure
	case c.Outcome == mcpvisor.OutcomeNotSent:
		return string(c.Kind) + ", not sent", warning
	}
	return string(c.Kind) + ", answered", warning
}

// allAttentionLines are all entries of what needs attention, each with what to do.
func (m *model) allAttentionLines() (lines []string) {
	for i, a := range m.data.status.Attention {
		if i > 0 {
			lines = append(lines, "")
		}
		style, symbol := severityStyle(a.Severity)
		text := symbol + " " + a.Server + " " + m.opts.Text(a.Text)
		if a.Since != nil {
			text += ", " + sinceText(a.Kind, m.opts.Now().Sub(*a.Since))
		}
		for _, line := range wrap(text, m.width, 2) {
			lines = append(lines, style.Render(line))
		}
		for _, more := range append(slices.Clone(a.More), a.Servers...) {
			lines = append(lines, below(m.opts.Text(more), m.width)...)
		}
		if a.Action != "" {
			lines = append(lines, below(m.opts.Text(a.Action), m.width)...)
		}
	}
	if len(lines) == 0 {
		return []string{quiet.Render("nothing")}
	}
	return lines
}

// below renders a text whose lines all begin with two columns.
func below(text string, width int) []string {
	lines := wrap(text, width, 2)
	lines[0] = "  " + lines[0]
	return lines
}

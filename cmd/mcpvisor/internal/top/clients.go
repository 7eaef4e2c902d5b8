package top

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// clientLines list the clients of the gateway, what they may call, and how their requests ended.
func (m *model) clientLines() (lines []string) {
	c := &m.data.clients
	if c.Instance == "" {
		return []string{quiet.Render("reading …")}
	}
	if c.Total > 0 {
		lines = append(lines, heading(m.clientRow("CLIENT", quiet, "STATE", "CALLS", "FAILED", "LAST", "FROM")))
	}
	for i := range c.Sessions {
		lines = append(lines, m.clientLine(&c.Sessions[i]))
		lines = append(lines, m.taskLines(&c.Sessions[i])...)
	}
	if more := c.Total - len(c.Sessions); more > 0 {
		lines = append(lines, quiet.Render(fmt.Sprintf("  and %d more", more)))
	}
	if len(lines) == 0 {
		for _, line := range below("no client within 15 minutes; hosts come with mcpvisor stdio, or with run --mcp ADDR", m.width) {
			lines = append(lines, quiet.Render(line))
		}
	}
	if len(c.Offers) > 0 {
		lines = append(lines, "", heading("  MAY CALL  by profile"))
	}
	for _, o := range c.Offers {
		profile := o.Profile
		if profile == "" {
			profile = "everything"
		}
		text := fmt.Sprintf("%s, %s, %s of %s", display.Count(o.Tools, "tool"), display.Count(o.Prompts, "prompt"), display.Count(o.Resources+o.Templates, "resource"), strings.Join(o.Servers, ", "))
		if o.Withheld > 0 {
			text += fmt.Sprintf("; %d withheld", o.Withheld)
		}
		for i, line := range wrap(text, m.width, 20) {
			if i == 0 {
				line = "  " + cell(profile, 16, false) + "  " + line
			}
			lines = append(lines, line)
		}
	}
	return append(lines, outcomeLines(c.Status)...)
}

// clientLine is one client.
func (m *model) clientLine(s *clients.SessionStatus) string {
	name := s.Label()
	if name == "" {
		name = "not named yet"
	}
	state, style := "idle", quiet
	switch {
	case s.Ended != nil:
		state = "ended"
	case s.InFlight > 0:
		state, style = fmt.Sprintf("%d in flight", s.InFlight), busy
	case s.Streams > 0:
		state, style = display.Count(s.Streams, "stream"), good
	}
	last := ""
	if s.Number > 0 {
		last = plaintext.Duration(m.opts.Now().Sub(s.Last))
	}
	from := strings.Join(slices.DeleteFunc([]string{s.Principal, s.Transport, s.Protocol, s.Profile}, func(text string) bool { return text == "" }), ", ")
	if len(s.Copies) > 0 {
		from += ", own " + strings.Join(s.Copies, " ")
	}
	return m.clientRow(name, style, state, number(s.Calls), number(s.Failed), last, from)
}

const maxTaskLines = 3

// taskLines are the newest open tasks of a client.
func (m *model) taskLines(s *clients.SessionStatus) (lines []string) {
	for _, t := range s.OpenTasks[:min(len(s.OpenTasks), maxTaskLines)] {
		name := t.Server
		if t.Tool != "" {
			name += "/" + t.Tool
		}
		lines = append(lines, fit("    task of "+display.Line(name)+": "+display.Line(t.State)+", for "+plaintext.Duration(m.opts.Now().Sub(t.Since)), m.width, false))
	}
	if more := s.Tasks - len(lines); more > 0 {
		lines = append(lines, quiet.Render(fmt.Sprintf("    and %s more", display.Count(more, "task"))))
	}
	return lines
}

func (m *model) clientRow(name string, style lipgloss.Style, state, calls, failed, last, from string) string {
	gap, width := " ", 20
	if m.width >= 100 {
		gap, width = "  ", 32
	}
	return fit("  "+strings.Join([]string{cell(name, width, false), style.Render(cell(state, 11, false)), cell(calls, 5, true), cell(failed, 6, true), cell(last, 6, true), display.Line(from)}, gap), m.width, false)
}

// outcomeLines say how the requests of all clients have ended, and why others were refused.
func outcomeLines(c clients.Status) []string {
	var ended, refused []string
	for _, o := range clients.Outcomes() {
		if n := c.Requests[o]; n > 0 {
			ended = append(ended, fmt.Sprintf("%d %s", n, o))
		}
	}
	for _, why := range clients.Refusals() {
		if n := c.Refused[why]; n > 0 {
			refused = append(refused, fmt.Sprintf("%d %s", n, why))
		}
	}
	lines := []string{""}
	if len(ended) > 0 {
		lines = append(lines, "  requests that ended: "+strings.Join(ended, ", "))
	}
	if len(refused) > 0 {
		lines = append(lines, warning.Render("  HTTP requests refused: "+strings.Join(refused, ", ")))
	}
	return lines
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// subjectOf collects what is known about the server of an entry. c is nil for a copy.
func (inv *invocation) subjectOf(e *statusEntry, c *servers.Set) (subject *facts.Subject, err error) {
	subject = &facts.Subject{Server: api.Server{Status: e.ServerStatus}, Now: time.Now(), Starter: "mcpvisor start " + e.Name,
		Clock: func(at time.Time) string { return at.Local().Format(time.DateTime) }}
	if c == nil || e.State == stateNotConfigured {
		return subject, nil
	}
	server, err := c.Described(inv.Context, e.Name)
	if err != nil {
		return nil, err
	}
	status, err := c.Status(inv.Context)
	if err != nil {
		return nil, err
	}
	server.Status = e.ServerStatus
	subject.Server, subject.Attention, subject.Groups = server, status.Attention, status.Groups
	happened, err := c.Summaries(inv.Context, 0, e.Name)
	if err != nil {
		return nil, err
	}
	for _, s := range happened.Summaries {
		if s.Last.Gen < e.Gen || s.Replaces {
			subject.Earlier = append(subject.Earlier, s)
		}
	}
	subject.Earlier = subject.Earlier[max(len(subject.Earlier)-maxEarlier, 0):]
	if nodes, err := c.Nodes(inv.Context); err == nil {
		if i := slices.IndexFunc(nodes.Placements, func(p api.Placement) bool { return p.Server == e.Name }); i >= 0 {
			subject.Placement = nodes.Placements[i]
		}
	}
	return subject, nil
}

// maxEarlier is how much of what happened to earlier registrations the page of a server has.
const maxEarlier = 20

// maxPageStderr is how many lines of stderr the page of a server has.
const maxPageStderr = 10

// printPage prints all that is known about one server.
func (inv *invocation) printPage(e *statusEntry, subject *facts.Subject) error {
	var b strings.Builder
	colored := table.Colored(inv.Out)
	add := func(label, text string, color table.Color) {
		if text = display.Line(text); colored {
			text = table.Paint(text, color)
		}
		fmt.Fprintf(&b, "%-11s%s\n", label, text)
	}
	if e.State == stateNotConfigured || e.State == stateNotStarted {
		fmt.Fprintf(&b, "%s  %s\n", e.Name, e.State)
		add("cause", e.Reason, table.Failure)
		_, err := fmt.Fprint(inv.Out, b.String())
		return err
	}
	state := subject.State()
	if colored {
		state = table.Paint(state, stateCell(e.State).Color)
	}
	fmt.Fprintf(&b, "%s  %s\n", e.Name, state)
	if e.LastCause == nil && e.Reason != "" {
		add("reason", e.Reason, table.Warning)
	}
	for _, f := range subject.List(!servers.IsHealthy(e.State) && e.State != supervisor.StateWaiting) {
		add(f.Label, f.Text, f.Color)
	}
	if e.MemoryBytes != nil {
		add("memory", plaintext.Memory(*e.MemoryBytes), table.Plain)
	}
	for _, w := range e.Catalog.Warnings {
		add("warning", w.String(), table.Warning)
	}
	if lines, of := stderrOf(&subject.Server, subject.Now); len(lines) > 0 {
		fmt.Fprintf(&b, "\nSTDERR  the last lines%s\n", of)
		for _, line := range lines[max(len(lines)-maxPageStderr, 0):] {
			fmt.Fprintln(&b, " ", display.Line(line))
		}
	}
	if len(e.History) > 0 {
		fmt.Fprintln(&b, "\nENDS  the last one first")
	}
	for _, h := range slices.Backward(e.History) {
		fmt.Fprintf(&b, "  %7s ago  %-9s  ran %7s  %s\n", plaintext.Duration(subject.Now.Sub(h.Ended)), fmt.Sprintf("start %d", h.Epoch), plaintext.Duration(h.Ended.Sub(h.Started)),
			display.Line(facts.EndText(&h)))
	}
	if len(subject.Earlier) > 0 {
		fmt.Fprintln(&b, "\nEARLIER  before its entry was changed, the last first")
	}
	for _, s := range slices.Backward(subject.Earlier) {
		fmt.Fprintf(&b, "  %7s ago  %s\n", plaintext.Duration(subject.Now.Sub(s.Last.Time)), display.Line(s.Text))
	}
	_, err := fmt.Fprint(inv.Out, b.String())
	return err
}

// stderrOf returns the lines that a server has written to stderr: those of its latest process, or, if that has written
// none, those that an earlier one left. of says which that is; empty for the latest.
func stderrOf(server *api.Server, now time.Time) (lines []string, of string) {
	if lines = slices.Concat(server.Stderr.First, server.Stderr.Lines); len(lines) > 0 {
		return lines, ""
	}
	ends := slices.Clone(server.Status.History)
	if c := server.Status.LastCause; c != nil && len(ends) == 0 {
		ends = []mcpvisor.Incarnation{{Cause: c, Ended: server.Status.Since}}
	}
	for _, h := range slices.Backward(ends) {
		if h.Cause != nil && len(h.Cause.Stderr) > 0 {
			return h.Cause.Stderr, fmt.Sprintf(" of process %d, which ended %s ago", h.PID, plaintext.Duration(now.Sub(h.Ended)))
		}
	}
	return nil, ""
}

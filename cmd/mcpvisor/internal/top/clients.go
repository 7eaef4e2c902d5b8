package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// clientLines list the clients of the gateway, and what they may call.
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
		profile := cmp.Or(o.Profile, "everything")
		text := fmt.Sprintf("%s, %s, %s of %s", display.Count(o.Tools, "tool"), display.Count(o.Prompts, "prompt"), display.Count(o.Resources+o.Templates, "resource"), strings.Join(o.Servers, ", "))
		if o.Withheld > 0 {
			text += fmt.Sprintf("; %d withheld", o.Withheld)
		}
		lines = append(lines, wrapBeside("  "+cell(profile, 16, false)+"  ", text, m.width, 20)...)
	}
	return lines
}

func (m *model) clientLine(s *clients.SessionStatus) string {
	style := quiet
	switch {
	case s.Ended != nil:
	case s.InFlight > 0:
		style = busy
	case s.Streams > 0:
		style = good
	}
	last := ""
	if s.Number > 0 {
		last = plaintext.Duration(m.opts.Now().Sub(s.Last))
	}
	return m.clientRow(facts.ClientName(s), style, facts.ClientState(s), number(s.Calls), number(s.Failed), last, facts.ClientOrigin(s))
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

// placement says which node runs a server; it has no name without a fleet.
func (m *model) placement(server string) api.Placement {
	all := m.data.nodes.Placements
	i, found := slices.BinarySearchFunc(all, server, func(p api.Placement, name string) int { return strings.Compare(p.Server, name) })
	if !found {
		return api.Placement{}
	}
	return all[i]
}

func (m *model) nodesTitle() string {
	return fmt.Sprintf("of the fleet, as %s sees it, generation %d", m.data.nodes.Node, m.data.nodes.Generation)
}

func (m *model) nodeLines() (lines []string) {
	f := &m.data.nodes
	lines = append(lines, heading(m.nodeRow("NODE", quiet, "STATE", "SERVERS", "WEIGHT", "LABELS AND ADDRESS")))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		state, style := m.nodeState(n)
		count := number(int64(n.Servers))
		if n.Capacity > 0 {
			count += "/" + number(int64(n.Capacity))
		}
		lines = append(lines, m.nodeRow(n.ID, style, state, count, strconv.FormatFloat(n.Weight, 'g', 4, 64), strings.TrimSpace(plaintext.Labels(n.Labels)+" "+n.Address)))
	}
	title := true
	for i := range f.Placements {
		p := &f.Placements[i]
		if p.Node != "" {
			continue
		}
		if title {
			lines, title = append(lines, "", heading("  ON NO NODE")), false
		}
		lines = append(lines, wrapBeside("  "+warning.Render(cell(p.Server, 20, false))+"  ", p.Reason, m.width, 24)...)
	}
	return lines
}

// nodeState says how a node is, as the node that answers sees it.
func (m *model) nodeState(n *api.Node) (string, lipgloss.Style) {
	now := m.opts.Now()
	switch f := &m.data.nodes; {
	case n.ID == f.Node && f.CutOffSince != nil:
		return "cut off for " + plaintext.Duration(now.Sub(*f.CutOffSince)), failure
	case n.UnreachableSince != nil:
		return "not reached for " + plaintext.Duration(now.Sub(*n.UnreachableSince)), warning
	case n.Draining:
		return "draining", busy
	case n.ID == f.Node:
		return "in the fleet, here", good
	}
	return "in the fleet", good
}

func (m *model) nodeRow(id string, style lipgloss.Style, state, servers, weight, about string) string {
	return fit("  "+strings.Join([]string{cell(id, 16, false), style.Render(cell(state, 21, false)), cell(servers, 7, true), cell(weight, 6, true), display.Line(about)}, "  "), m.width, false)
}

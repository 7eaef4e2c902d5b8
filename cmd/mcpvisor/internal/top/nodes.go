package top

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

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
		about := labels(n.Labels)
		if n.Address != "" {
			about = append(about, n.Address)
		}
		lines = append(lines, m.nodeRow(n.ID, style, state, count, strconv.FormatFloat(n.Weight, 'g', 4, 64), strings.Join(about, " ")))
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
		for i, line := range wrap(m.opts.Text(p.Reason), m.width, 24) {
			if i == 0 {
				line = "  " + warning.Render(cell(p.Server, 20, false)) + "  " + line
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func labels(all map[string]string) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, name+"="+all[name])
	}
	return texts
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

package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// branch is a line of the table: a server, or a group above its members.
type branch struct {
	depth  int
	server *mcpvisor.ServerStatus // nil: a group
	group  mcpvisor.GroupStatus
}

func (b *branch) name() string {
	if b.server != nil {
		return b.server.Name
	}
	return b.group.Name
}

// width is how many columns the name needs at its depth.
func (b *branch) width() int { return 2*b.depth + ansi.StringWidth(display.Line(b.name())) }

// cell returns the name in width columns, indented by its depth as far as there is room.
func (b *branch) cell(width int) string {
	indent := min(2*b.depth, max(width-(b.width()-2*b.depth), 0))
	return strings.Repeat(" ", indent) + cell(b.name(), width-indent, false)
}

// tree returns the lines of the table for the servers that are shown. In the order of names these are the groups in
// their order, each with its members, and then the servers of no group; in other orders servers alone. With a filter, a group
// is shown if a server of it is.
func (m *model) tree() (lines []branch) {
	shown, groups := m.matching(), m.data.status.Groups
	if orders[m.order].compare != nil {
		groups = nil
	}
	placed := map[string]bool{}
	var add func(name string, depth int)
	add = func(name string, depth int) {
		if i := slices.IndexFunc(groups, func(g mcpvisor.GroupStatus) bool { return g.Name == name }); i >= 0 && !placed[name] {
			placed[name] = true
			lines = append(lines, branch{depth: depth, group: groups[i]})
			before := len(lines)
			for _, member := range groups[i].Members {
				add(member, depth+1)
			}
			if len(lines) == before && m.filter.Value() != "" {
				lines = lines[:before-1]
			}
		}
		if i := slices.IndexFunc(shown, func(s *mcpvisor.ServerStatus) bool { return s.Name == name }); i >= 0 && !placed[name] {
			placed[name] = true
			lines = append(lines, branch{depth: depth, server: shown[i]})
		}
	}
	for _, g := range groups {
		if g.Parent == "" {
			add(g.Name, 0)
		}
	}
	for _, s := range shown {
		add(s.Name, 0)
	}
	return lines
}

// serversOf returns the servers of lines of the table.
func serversOf(lines []branch) (all []*mcpvisor.ServerStatus) {
	for _, b := range lines {
		if b.server != nil {
			all = append(all, b.server)
		}
	}
	return all
}

// groupRow is the line of a group: its name, its state, and what is restarted when a member fails.
func (m *model) groupRow(b *branch, columns []column, gap string) string {
	state := facts.GroupState(b.group.State)
	row := "  " + b.cell(columns[0].width) + gap + styleOf(state).Render(cell(glyph(state)+" "+b.group.State, columns[1].width, false))
	if room := m.width - 2 - columns[0].width - columns[1].width - 2*len(gap); room > 0 {
		row += gap + quiet.Render(fit(string(b.group.Strategy), room, false))
	}
	return row
}

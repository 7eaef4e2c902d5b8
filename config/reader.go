package config

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// reader is a file being read.
type reader struct {
	file      *File
	data      []byte // without byte order mark
	lookup    func(string) (string, bool)
	input     func(Input) (string, error)
	workspace string            // absolute
	inputs    map[string]Input  // the declared ones, by id
	answers   map[string]answer // by the id of the input
	secrets   []string          // answers that the entry being read must hide
	names     map[string]string // the server's name, by that of its entry
	approvals map[string]bool   // the keys about approval that were said to have no effect
}

// list is one list of servers in the file.
type list struct {
	key    string // as a person would point at it: "mcp.servers"
	format Format
	member *hujson.ObjectMember
}

// read finds the servers in the top-level object.
func (r *reader) read(root *hujson.Value, top *hujson.Object) error {
	lists := r.findLists(top)
	if len(lists) == 0 {
		return r.noLists(root, top)
	}
	r.file.Format = lists[0].format
	r.names = serverNames(entryNames(lists))
	seen := map[string]int{}
	for i, l := range lists {
		servers, ok := l.member.Value.Value.(*hujson.Object)
		if !ok {
			return fmt.Errorf("%s: %q is not an object; write {\"name\": {\"command\": …}}", r.at(l.member.Value.StartOffset), l.key)
		}
		if i > 0 {
			r.problem(&l.member.Name, "", SeverityWarning, "servers are listed a second time, below %q, after %q in line %d; keep one list",
				l.key, lists[0].key, r.line(&lists[0].member.Name))
		}
		for j := range servers.Members {
			m := &servers.Members[j]
			server := name(m)
			if line, twice := seen[server]; twice {
				r.problem(&m.Name, server, SeverityError, "the name is taken by the entry in line %d; rename one of them", line)
				continue
			}
			seen[server] = r.line(&m.Name)
			r.entry(server, m)
		}
	}
	slices.SortStableFunc(r.file.Problems, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return nil
}

// findLists returns all lists, one that stands twice included: to a decoder the
// last one would win, and nobody would know.
func (r *reader) findLists(top *hujson.Object) (lists []list) {
	look := func(object *hujson.Object, prefix string) {
		for i := range object.Members {
			m := &object.Members[i]
			if key := name(m); key == string(FormatMCPServers) || key == string(FormatServers) {
				lists = append(lists, list{prefix + key, Format(key), m})
			}
		}
	}
	look(top, "")
	for i := range top.Members { // VS Code's settings
		if inner, ok := top.Members[i].Value.Value.(*hujson.Object); ok && name(&top.Members[i]) == "mcp" {
			look(inner, "mcp.")
			r.readInputs(inner)
		}
	}
	r.readInputs(top)
	return lists
}

// entryNames are the names of all entries, in their order.
func entryNames(lists []list) (names []string) {
	for _, l := range lists {
		if servers, ok := l.member.Value.Value.(*hujson.Object); ok {
			for i := range servers.Members {
				names = append(names, name(&servers.Members[i]))
			}
		}
	}
	return names
}

func (r *reader) noLists(root *hujson.Value, top *hujson.Object) error {
	at, hint := root.StartOffset, "put the servers below one of them"
	for i := range top.Members {
		m := &top.Members[i]
		if near := nearest.Names(name(m), []string{string(FormatMCPServers), string(FormatServers)}); len(near) > 0 {
			at, hint = m.Name.StartOffset, fmt.Sprintf("rename %q to %q", name(m), near[0])
			break
		}
	}
	return fmt.Errorf("%s: there is neither \"mcpServers\" nor \"servers\" in the file; %s", r.at(at), hint)
}

// name is the name of a member.
func name(m *hujson.ObjectMember) string {
	if lit, ok := m.Name.Value.(hujson.Literal); ok {
		return lit.String()
	}
	return ""
}

// position turns an offset into line and column, both from 1.
func (r *reader) position(offset int) (line, column int) {
	before := r.data[:min(max(offset, 0), len(r.data))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

func (r *reader) line(v *hujson.Value) int {
	line, _ := r.position(v.StartOffset)
	return line
}

func (r *reader) at(offset int) string {
	line, column := r.position(offset)
	return fmt.Sprintf("%s:%d:%d", r.file.Path, line, column)
}

package config

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// parser holds the state of one call of [Parse]. It belongs to the caller's
// goroutine.
type parser struct {
	file *File
	data []byte // without byte order mark

	// Set by options.
	lookup    func(string) (string, bool)
	ask       func(Input) (string, error) // nil if the user cannot be asked
	workspace string                      // absolute

	inputs  map[string]Input  // the declared inputs, by id
	answers map[string]answer // by the id of the input
	names   map[string]string // the names of servers, by those of their entries
	// approvals are the keys about approval that a warning has named.
	approvals map[string]bool
	// secrets are the answers that the server of the current entry must not show.
	secrets []string
}

// serverList is one list of servers in the file.
type serverList struct {
	path   string // of the key, as in "mcp.servers"
	format Format
	member *hujson.ObjectMember
}

// readFile reads the servers of the top-level object.
func (p *parser) readFile(root *hujson.Value, top *hujson.Object) error {
	lists := p.findLists(top)
	if len(lists) == 0 {
		return p.noListsError(root, top)
	}
	p.file.Format = lists[0].format
	p.names = serverNames(entryNames(lists))
	lines := map[string]int{} // of the entries so far
	for i, l := range lists {
		servers, ok := l.member.Value.Value.(*hujson.Object)
		if !ok {
			return p.errorAt(l.member.Value.StartOffset, "%q is not an object; write {\"name\": {\"command\": …}}", l.path)
		}
		if i > 0 {
			p.addProblem(&l.member.Name, "", SeverityWarning, "servers are listed twice, below %q here and below %q in line %d; keep one list",
				l.path, lists[0].path, p.line(&lists[0].member.Name))
		}
		for j := range servers.Members {
			m := &servers.Members[j]
			name := memberName(m)
			if line, twice := lines[name]; twice {
				p.addProblem(&m.Name, name, SeverityError, subjectServer+"is defined twice (first on line %d); rename or remove one", name, line)
				continue
			}
			lines[name] = p.line(&m.Name)
			p.readEntry(name, m)
		}
	}
	slices.SortStableFunc(p.file.Problems, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return nil
}

// findLists returns every list of servers, also where a key is there twice: a
// JSON decoder would take the last one, silently.
func (p *parser) findLists(top *hujson.Object) (lists []serverList) {
	find := func(object *hujson.Object, prefix string) {
		for i := range object.Members {
			m := &object.Members[i]
			if key := memberName(m); key == string(FormatMCPServers) || key == string(FormatServers) {
				lists = append(lists, serverList{prefix + key, Format(key), m})
			}
		}
	}
	find(top, "")
	for i := range top.Members { // VS Code's settings
		if inner, ok := top.Members[i].Value.Value.(*hujson.Object); ok && memberName(&top.Members[i]) == "mcp" {
			find(inner, "mcp.")
			p.readInputs(inner)
		}
	}
	p.readInputs(top)
	return lists
}

// entryNames returns the names of all entries, in the order of the file.
func entryNames(lists []serverList) (names []string) {
	for _, l := range lists {
		if servers, ok := l.member.Value.Value.(*hujson.Object); ok {
			for i := range servers.Members {
				names = append(names, memberName(&servers.Members[i]))
			}
		}
	}
	return names
}

func (p *parser) noListsError(root *hujson.Value, top *hujson.Object) error {
	at, hint := root.StartOffset, "put the servers below one of them"
	for i := range top.Members {
		m := &top.Members[i]
		if near := nearest.Names(memberName(m), []string{string(FormatMCPServers), string(FormatServers)}); len(near) > 0 {
			at, hint = m.Name.StartOffset, fmt.Sprintf("rename %q to %q", memberName(m), near[0])
			break
		}
	}
	return p.errorAt(at, "the file has neither \"mcpServers\" nor \"servers\"; %s", hint)
}

// memberName returns the name of a member of an object.
func memberName(m *hujson.ObjectMember) string {
	if lit, ok := m.Name.Value.(hujson.Literal); ok {
		return lit.String()
	}
	return ""
}

// position turns an offset into line and column, both from 1.
func (p *parser) position(offset int) (line, column int) {
	before := p.data[:min(max(offset, 0), len(p.data))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

func (p *parser) line(v *hujson.Value) int {
	line, _ := p.position(v.StartOffset)
	return line
}

// errorAt is an error about the whole file that an offset is the place of.
func (p *parser) errorAt(offset int, format string, args ...any) error {
	line, column := p.position(offset)
	return fmt.Errorf("config %s:%d:%d: %s", p.file.Path, line, column, fmt.Sprintf(format, args...))
}

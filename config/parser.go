package config

import (
	"iter"
	"os"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
)

// parser holds the state of one call of [LoadFiles] or [Parse]. It belongs to the
// caller's goroutine.
type parser struct {
	file *File
	text *text // the file that is being read

	// Set by options.
	lookup    func(string) (string, bool)
	ask       func(Input) (string, error)                        // nil if the user cannot be asked
	keyring   func(service, account string) (string, error)      // nil without a keyring
	commands  func(command []string, dir string) (string, error) // nil: none is run
	printed   map[string]answer                                  // by folder and command
	files     func(path string) (string, error)                  // nil: they are read
	webSocket func(WebSocket) *mcpvisor.Transport                // nil if WebSockets are not reached
	workspace string                                             // empty for the directory of each file
	only      []string                                           // the servers or entries to read, if limited
	limited   bool
	others    bool // "after" may name servers that the files do not have

	inputs  map[string]Input  // the declared inputs, by id
	answers map[string]answer // by the id of the input
	names   map[string]string // the names of servers, by those of their entries
	// replaced are the entries of the present text that a later one replaces.
	replaced map[string]bool
	// origins are where entries were replaced, by name.
	origins map[string][]string
	// approvals are the keys about approval that a warning has named.
	approvals map[string]bool
	gateway   *entry // that has read "gateway"; nil without it
	// groupNames are the names of all groups.
	groupNames []string
	rulesAt    []place // of the rules of file
	places     groupPlaces
	// secrets are the texts that the server of the current entry must not show.
	secrets []string
}

func newParser() *parser {
	return &parser{file: &File{}, lookup: os.LookupEnv, inputs: map[string]Input{}, answers: map[string]answer{}, printed: map[string]answer{},
		origins: map[string][]string{}, approvals: map[string]bool{},
		places: groupPlaces{groups: map[string]place{}, members: map[string]place{}, after: map[string]place{}}}
}

// The keys below which a file lists its servers.
const (
	// keyMCPServers is what Claude Desktop, Claude Code, Cursor and Gemini CLI write.
	keyMCPServers = "mcpServers"
	// keyServers is what VS Code writes, in mcp.json or below "mcp" in its settings.
	keyServers = "servers"
)

// serverList is one list of servers in the file.
type serverList struct {
	path   string // of the key, as in "mcp.servers"
	member *hujson.ObjectMember
}

// readEntries reads the entries of the present text that no later text replaces.
func (p *parser) readEntries() {
	t := p.text
	lines := map[string]int{} // of the entries so far
	for i, l := range t.lists {
		if i > 0 {
			p.addProblem(&l.member.Name, "", SeverityWarning, "servers are listed twice, below %q here and below %q in line %d; keep one list",
				l.path, t.lists[0].path, t.line(&t.lists[0].member.Name))
		}
		servers, _ := l.member.Value.Value.(*hujson.Object) // parse has checked it
		for name, m := range members(servers) {
			if p.replaced[name] {
				p.origins[name] = append(p.origins[name], p.origin(&m.Name))
				continue
			}
			if line, twice := lines[name]; twice {
				if p.skips(name) {
					continue
				}
				p.addProblem(&m.Name, name, SeverityError, subjectServer+"is defined twice (first on line %d); rename or remove one", name, line)
				continue
			}
			lines[name] = t.line(&m.Name)
			p.readEntry(name, m)
		}
	}
}

// skips reports whether nothing is read in an entry.
func (p *parser) skips(name string) bool {
	return p.limited && !slices.Contains(p.only, name) && !slices.Contains(p.only, p.names[name])
}

// findLists returns every list of servers, even where a key is there twice: a
// JSON decoder would take the last one, silently.
func (p *parser) findLists(top *hujson.Object) (lists []serverList) {
	find := func(object *hujson.Object, prefix string) {
		for key, m := range members(object) {
			if key == keyMCPServers || key == keyServers {
				lists = append(lists, serverList{prefix + key, m})
			}
		}
	}
	find(top, "")
	for m := range membersNamed(top, "mcp") { // VS Code's settings
		if inner, ok := m.Value.Value.(*hujson.Object); ok {
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
		servers, _ := l.member.Value.Value.(*hujson.Object)
		for name := range members(servers) {
			names = append(names, name)
		}
	}
	return names
}

// members yields the members of an object with their names; none of nil.
func members(object *hujson.Object) iter.Seq2[string, *hujson.ObjectMember] {
	return func(yield func(string, *hujson.ObjectMember) bool) {
		for i := 0; object != nil && i < len(object.Members); i++ {
			if m := &object.Members[i]; !yield(memberName(m), m) {
				return
			}
		}
	}
}

// membersNamed yields the members of an object that have a name, which may be several.
func membersNamed(object *hujson.Object, wanted string) iter.Seq[*hujson.ObjectMember] {
	return func(yield func(*hujson.ObjectMember) bool) {
		for name, m := range members(object) {
			if name == wanted && !yield(m) {
				return
			}
		}
	}
}

// plainJSON is a value without comments and spaces.
func plainJSON(v *hujson.Value) []byte {
	plain := v.Clone()
	plain.Standardize()
	plain.Minimize()
	return plain.Pack()
}

// memberName returns the name of a member of an object.
func memberName(m *hujson.ObjectMember) string {
	if lit, ok := m.Name.Value.(hujson.Literal); ok {
		return lit.String()
	}
	return ""
}

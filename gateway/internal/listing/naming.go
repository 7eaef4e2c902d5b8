package listing

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// Prefix says when the name of a tool or prompt begins with that of its server: gateway.Prefix.
type Prefix int

const (
	prefixAlways Prefix = iota
	prefixOnConflict
	prefixNever
)

// Naming says how tools and prompts are listed: gateway.Names.
type Naming struct {
	Prefix     Prefix
	HostPrefix string // the host puts it before each name
}

func (n *Naming) limit() int {
	return max(toolname.MaxAliasBytes-len(n.HostPrefix), toolname.MinBytes)
}

// Owner identifies an entry by its server and the server's own name or URI for it.
type Owner struct{ Server, Name string }

// Qualified returns the qualified name of the tool or prompt.
func (o Owner) Qualified() string { return mcpvisor.Qualify(o.Server, o.Name) }

// namer assigns the names of one kind of entries. Each listing has new ones.
type namer struct {
	names    *Naming         // nil: aliases
	shared   map[string]bool // short names that several servers have had; the Catalog keeps it
	conflict map[string][]Owner
	byName   map[string]Owner
}

// name returns the name under which an entry is listed.
func (n *namer) name(o Owner) string {
	switch {
	case n.names == nil:
		return mcpvisor.Alias(o.Server, o.Name)
	case n.names.Prefix == prefixAlways || n.names.Prefix == prefixOnConflict && n.shared[n.short(o)]:
		return toolname.Join("", o.Server, o.Name, o.Qualified(), n.names.limit())
	}
	return n.short(o)
}

// short returns the name without the server. Servers with the same tool have the same short name, even
// if it has to be changed to fit.
func (n *namer) short(o Owner) string { return toolname.Fit(o.Name, o.Name, n.names.limit()) }

// add assigns a name to each entry. Entries with the same name are in conflict, and get none.
func (n *namer) add(all []Owner) {
	if n.names != nil && n.names.Prefix == prefixOnConflict {
		first := map[string]Owner{}
		for _, o := range all {
			short := n.short(o)
			if other, again := first[short]; again && other != o {
				n.shared[short] = true
			}
			first[short] = o
		}
	}
	n.byName, n.conflict = make(map[string]Owner, len(all)), map[string][]Owner{}
	for _, o := range all {
		name := n.name(o)
		if other, again := n.byName[name]; again {
			if n.conflict[name] == nil {
				n.conflict[name] = []Owner{other}
			}
			n.conflict[name] = append(n.conflict[name], o)
			continue
		}
		n.byName[name] = o
	}
	for name := range n.conflict {
		delete(n.byName, name)
	}
}

// listed returns the name of a listed entry. It reports false for an entry in conflict.
func (n *namer) listed(o Owner) (name string, ok bool) {
	name = n.name(o)
	return name, n.byName[name] == o
}

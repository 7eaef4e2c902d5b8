package gateway

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// Prefix says when the name of a tool or prompt begins with that of its server.
type Prefix int

const (
	// PrefixAlways lists "server__tool". A name depends on nothing but its server and its tool.
	PrefixAlways Prefix = iota
	// PrefixOnConflict lists "tool", and "server__tool" if several servers have such a tool. A
	// name changes when a server comes that has the same, and stays so while the gateway runs.
	PrefixOnConflict
	// PrefixNever lists "tool". A tool that several servers have is withheld: rename one of them,
	// or hide it (mcpvisor.ServerSpec.Tools). [Status] has the conflicts.
	PrefixNever
)

// Names say how tools and prompts are listed.
type Names struct {
	// Prefix says whether a name begins with that of its server. Default: PrefixAlways.
	Prefix Prefix
	// HostPrefix is what the host puts before each name, as in "mcp__mcpvisor__". Names are
	// shortened by its length, so that prefix and name together fit the 64 characters that model
	// providers accept. At most 40 bytes count. Default: none.
	HostPrefix string
}

// WithNames sets how tools and prompts are listed. Default: for [Handler] the zero value of Names,
// for [Transport] the alias (mcpvisor.Alias), as in "mcp__server__tool".
func WithNames(n Names) Option { return func(o *options) { o.names = &n } }

// maxNameBytes is the longest name that model providers accept.
const maxNameBytes = toolname.MaxAliasBytes

func (n Names) limit() int { return max(maxNameBytes-len(n.HostPrefix), toolname.MinBytes) }

// owner is a tool or a prompt of a server, by the server's own name.
type owner struct{ server, name string }

func (o owner) qualified() string { return mcpvisor.Qualify(o.server, o.name) }

// namer gives out the names of one kind of entries. It is made anew for each listing.
type namer struct {
	names    *Names          // nil: aliases
	shared   map[string]bool // names without a server that several servers have; only grows
	conflict map[string][]owner
	byName   map[string]owner
}

// name returns the name of an entry as it is listed.
func (n *namer) name(o owner) string {
	switch {
	case n.names == nil:
		return mcpvisor.Alias(o.server, o.name)
	case n.names.Prefix == PrefixAlways || n.names.Prefix == PrefixOnConflict && n.shared[n.short(o)]:
		return toolname.Join("", o.server, o.name, o.qualified(), n.names.limit())
	}
	return n.short(o)
}

// short is the name without the server. Servers that have the same tool have the same short name,
// changed or not.
func (n *namer) short(o owner) string { return toolname.Fit(o.name, o.name, n.names.limit()) }

// add gives a name to each entry. Those that share one are in conflict, and have none.
func (n *namer) add(all []owner) {
	if n.names != nil && n.names.Prefix == PrefixOnConflict {
		first := map[string]owner{}
		for _, o := range all {
			short := n.short(o)
			if other, again := first[short]; again && other != o {
				n.shared[short] = true
			}
			first[short] = o
		}
	}
	n.byName, n.conflict = make(map[string]owner, len(all)), map[string][]owner{}
	for _, o := range all {
		name := n.name(o)
		if other, again := n.byName[name]; again {
			if n.conflict[name] == nil {
				n.conflict[name] = []owner{other}
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

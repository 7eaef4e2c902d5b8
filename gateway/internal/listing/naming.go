package listing

import (
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// limit is the length of a name that fits behind the prefix of the host.
func (n *namer) limit() int {
	return max(toolname.MaxAliasBytes-len(n.names.HostPrefix), toolname.MinBytes)
}

// Owner identifies an entry by its server and the server's own name or URI for it.
type Owner struct{ Server, Name string }

// Qualified returns the qualified name of the tool or prompt.
func (o Owner) Qualified() string { return mcpvisor.Qualify(o.Server, o.Name) }

// namer assigns the names of one kind of entries. Each listing has new ones.
type namer struct {
	names  *settings.Names   // nil: aliases
	shared map[string]bool   // short names that several servers have had; the Catalog keeps it
	first  map[string]string // the servers that have had short names first; the Catalog keeps it
	// bare reports whether an entry may have a short name: it has it already, or all servers have been ready.
	bare     func(o Owner, short string) bool // nil: each may
	conflict map[string][]Owner
	byName   map[string]Owner
}

// name returns the name under which an entry is listed. No server can choose the name that another one's entry
// has: a name with the separator gets the prefix of its server unless there are no prefixes, and one that
// looks like an alias becomes the entry's own alias.
func (n *namer) name(o Owner) string {
	if n.names == nil {
		return mcpvisor.Alias(o.Server, o.Name)
	}
	name := n.short(o)
	onConflict, bare := n.names.Prefix == settings.PrefixOnConflict, n.bare == nil || n.bare(o, name)
	if !onConflict && n.names.Prefix != settings.PrefixNever || onConflict && (!bare || n.shared[name] || n.first[name] != o.Server || strings.Contains(name, toolname.Separator)) {
		name = n.prefixed(o)
	}
	if strings.HasPrefix(name, toolname.AliasPrefix) || n.names.Prefix == settings.PrefixNever && !bare {
		return toolname.Join(toolname.AliasPrefix, o.Server, o.Name, o.Qualified(), n.limit())
	}
	return name
}

func (n *namer) prefixed(o Owner) string {
	return toolname.Join("", o.Server, o.Name, o.Qualified(), n.limit())
}

// maxHeld bounds the short names that are kept for the servers that have had them first, also after these have
// gone: a host may still call a name that it has read. Beyond that, entries with other names get the prefix.
const maxHeld = 100_000

// short returns the name without the server. Servers with the same tool have the same short name, even
// if it has to be changed to fit.
func (n *namer) short(o Owner) string { return toolname.Fit(o.Name, o.Name, n.limit()) }

// add assigns a name to each entry. Entries with the same name are in conflict, and get none.
func (n *namer) add(all []Owner) {
	onConflict := n.names != nil && n.names.Prefix == settings.PrefixOnConflict
	if onConflict {
		for _, o := range all {
			short := n.short(o)
			switch other, again := n.first[short]; {
			case again && other != o.Server:
				n.shared[strings.Clone(short)] = true
			case !again && len(n.first) < maxHeld:
				n.first[strings.Clone(short)] = o.Server // a shared text would keep the memory of its page
			}
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
	for i := 0; onConflict && i < len(all); i++ { // a host may have read its prefixed name before all servers had been ready
		if name := n.prefixed(all[i]); n.byName[n.name(all[i])] == all[i] && !strings.HasPrefix(name, toolname.AliasPrefix) {
			n.byName[name] = all[i]
		}
	}
}

// listed returns the name of a listed entry. It reports false for an entry in conflict.
func (n *namer) listed(o Owner) (name string, ok bool) {
	name = n.name(o)
	return name, n.byName[name] == o
}

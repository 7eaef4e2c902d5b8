package listing

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/hostschema"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
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

// Withheld is a tool or prompt that is not listed: gateway.Withheld.
type Withheld struct{ Server, Name, Kind, Reason string }

// schemaProblem returns why a host could reject a list that contains this tool; empty if no reason is
// known.
func schemaProblem(t *mcpvisor.Tool) string {
	for _, s := range []struct {
		what   string
		schema any
	}{{"inputSchema", t.Definition.InputSchema}, {"outputSchema", t.Definition.OutputSchema}} {
		raw, ok := s.schema.(json.RawMessage)
		if !ok || len(raw) == 0 {
			continue
		}
		if problem := hostschema.Problem(raw); problem != "" {
			return s.what + " " + problem
		}
	}
	return ""
}

// conflictReason returns the reason for withholding entries that would have the same name.
func conflictReason(name string, owners []Owner) string {
	qualified := make([]string, 0, len(owners))
	for _, o := range owners {
		qualified = append(qualified, message.Shorten(o.Qualified()))
	}
	slices.Sort(qualified)
	if len(qualified) > maxOwners {
		qualified = append(qualified[:maxOwners], "…")
	}
	return "the name " + message.Quote(name) + " would stand for " + strings.Join(qualified, " and ") + "; rename or hide all but one, or let names begin with their servers"
}

// maxOwners bounds the entries that a reason names.
const maxOwners = 8

// CacheScope is the cacheScope of all lists.
const CacheScope = "private"

// page returns the page of a list that follows cursor, and the cursor of the next page. A
// cursor names the last entry of its page, so that no entry is left out or listed twice
// because others came or went meanwhile.
func page[T any](list []T, keyOf func(*T) Owner, cursor string, size int) (part []T, next string, err error) {
	if cursor != "" {
		after, ok := decodeCursor(cursor)
		if !ok {
			return nil, "", message.InvalidParams("the cursor is not one of this session; list again without it")
		}
		at, found := slices.BinarySearchFunc(list, after, func(entry T, k Owner) int { return compareKeys(keyOf(&entry), k) })
		if found {
			at++
		}
		list = list[at:]
	}
	if len(list) <= size {
		return list, "", nil
	}
	return list[:size], encodeCursor(keyOf(&list[size-1])), nil
}

func encodeCursor(k Owner) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.Server + "/" + k.Name))
}

func decodeCursor(cursor string) (k Owner, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return Owner{}, false
	}
	k.Server, k.Name, ok = strings.Cut(string(text), "/")
	return k, ok
}

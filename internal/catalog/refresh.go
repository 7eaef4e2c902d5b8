package catalog

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// Refreshed returns c with some lists taken from fresh, and the difference to c. Both
// catalogs are unchanged. A warning of c is dropped if its list was read again: if it is
// one of lists, or if fresh warns about it because it could not be read. A warning about
// no list is always dropped. The warnings of fresh are added.
func (c *Catalog) Refreshed(fresh *Catalog, lists Lists) (*Catalog, mcpvisor.Change) {
	next := *c
	next.Version = versions.Add(1)
	read := lists
	for _, w := range fresh.Warnings {
		if about := listsOf(w.List); about != AllLists {
			read |= about
		}
	}
	next.Warnings = slices.DeleteFunc(slices.Clone(c.Warnings), func(w mcpvisor.Warning) bool { return listsOf(w.List)&read != 0 })
	next.Warnings = append(next.Warnings, fresh.Warnings...)
	next.TTL = maps.Clone(c.TTL)
	maps.DeleteFunc(next.TTL, func(list Lists, _ time.Duration) bool { return list&lists != 0 })
	for list, ttl := range fresh.TTL {
		if list&lists != 0 {
			if next.TTL == nil {
				next.TTL = map[Lists]time.Duration{}
			}
			next.TTL[list] = ttl
		}
	}
	var change mcpvisor.Change
	if lists&ListTools != 0 {
		next.Tools, next.Hidden, next.Tokens, next.byName, next.byAlias = fresh.Tools, fresh.Hidden, fresh.Tokens, fresh.byName, fresh.byAlias
		change.Tools = delta(c.Tools, fresh.Tools, func(t *mcpvisor.Tool) (string, any) { return t.Name, entry{t.Raw, t.Definition} })
	}
	if lists&ListResources != 0 {
		next.Resources, next.Templates = fresh.Resources, fresh.Templates
		change.Resources = delta(c.Resources, fresh.Resources, func(r *mcpvisor.Resource) (string, any) { return r.URI, entry{r.Raw, r.Definition} })
		change.Templates = delta(c.Templates, fresh.Templates, func(r *mcpvisor.ResourceTemplate) (string, any) { return r.URITemplate, entry{r.Raw, r.Definition} })
	}
	if lists&ListPrompts != 0 {
		next.Prompts = fresh.Prompts
		change.Prompts = delta(c.Prompts, fresh.Prompts, func(p *mcpvisor.Prompt) (string, any) { return p.Name, entry{p.Raw, p.Definition} })
	}
	return &next, change
}

// entry is what the comparison of an entry looks at.
type entry struct {
	raw        json.RawMessage // as the server sent it; nil unless that is kept
	definition any
}

// delta compares two sorted lists, side by side. of returns the name of an entry, and what is compared.
func delta[T any](old, fresh []T, of func(*T) (name string, definition any)) (d mcpvisor.Delta) {
	i, j := 0, 0
	var added, removed, changed int // bytes of the names so far
	for i < len(old) || j < len(fresh) {
		var before, now string
		var was, is any
		if i < len(old) {
			before, was = of(&old[i])
		}
		if j < len(fresh) {
			now, is = of(&fresh[j])
		}
		switch {
		case j == len(fresh), i < len(old) && before < now:
			note(&d.Removed, &removed, &d.RemovedMore, before)
			i++
		case i == len(old), before > now:
			note(&d.Added, &added, &d.AddedMore, now)
			j++
		default:
			if !reflect.DeepEqual(was, is) {
				note(&d.Changed, &changed, &d.ChangedMore, now)
			}
			i++
			j++
		}
	}
	return d
}

// deltaBytes bounds the names of one kind (added, removed, changed), in bytes.
const deltaBytes = 16 << 10

// note adds a name to those of one kind. Beyond the limits it only counts it.
func note(names *[]string, bytes, more *int, name string) {
	if *more > 0 || len(*names) >= retention.DeltaNames || *bytes+len(name) > deltaBytes {
		*more++
		return
	}
	*bytes += len(name)
	*names = append(*names, strings.Clone(name)) // a shared name would keep the memory of its page alive
}

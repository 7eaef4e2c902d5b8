package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// Refreshed returns c with some lists taken from fresh, and the difference to c. Both
// catalogs are unchanged. A list without a difference stays that of c, byte for byte: hosts pay for other
// bytes with their prompt caches. No list mixes entries of both, because few old entries could keep all
// old pages in memory. A warning of c is dropped if its list was read again: if it is
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
	d := differ{room: maxCompared}
	next.NoInstructions = fresh.NoInstructions
	if lists&ListTools != 0 {
		next.Hidden, next.WithheldTools = fresh.Hidden, fresh.WithheldTools
		change.Tools = delta(&d, c.Tools, fresh.Tools, func(t *mcpvisor.Tool) (string, json.RawMessage) { return t.Name, t.Raw })
		if !change.Tools.IsZero() {
			next.Tools, next.Tokens, next.byName, next.byAlias = fresh.Tools, fresh.Tokens, fresh.byName, fresh.byAlias
		}
	}
	if lists&ListResources != 0 {
		next.WithheldTemplates = fresh.WithheldTemplates
		change.Resources = delta(&d, c.Resources, fresh.Resources, func(r *mcpvisor.Resource) (string, json.RawMessage) { return r.URI, r.Raw })
		if !change.Resources.IsZero() {
			next.Resources = fresh.Resources
		}
		change.Templates = delta(&d, c.Templates, fresh.Templates, func(r *mcpvisor.ResourceTemplate) (string, json.RawMessage) { return r.URITemplate, r.Raw })
		if !change.Templates.IsZero() {
			next.Templates = fresh.Templates
		}
	}
	if lists&ListPrompts != 0 {
		next.WithheldPrompts = fresh.WithheldPrompts
		change.Prompts = delta(&d, c.Prompts, fresh.Prompts, func(p *mcpvisor.Prompt) (string, json.RawMessage) { return p.Name, p.Raw })
		if !change.Prompts.IsZero() {
			next.Prompts = fresh.Prompts
		}
	}
	return &next, change
}

// maxCompared bounds the entries that one refresh compares as JSON, in bytes. Further ones are equal only
// if their bytes are: an actor waits for the comparison.
const maxCompared = 16 << 20

// differ compares entries until it has no room left.
type differ struct{ room int }

func (d *differ) equal(was, is json.RawMessage) bool {
	if bytes.Equal(was, is) {
		return true
	}
	if len(was)+len(is) > d.room {
		return false
	}
	d.room -= len(was) + len(is)
	return canonical.Equal(was, is)
}

// delta compares two sorted lists, side by side. of returns the name of an entry, and what is compared: the
// entry as the server sent it.
func delta[T any](compare *differ, old, fresh []T, of func(*T) (name string, raw json.RawMessage)) (d mcpvisor.Delta) {
	i, j := 0, 0
	var added, removed, changed int // bytes of the names so far
	for i < len(old) || j < len(fresh) {
		var before, now string
		var was, is json.RawMessage
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
			if !compare.equal(was, is) {
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

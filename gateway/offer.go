// Package offer says which part of the servers a gateway offers to some of its clients.
package gateway

import (
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// rules is a profile as it is applied. nil offers everything.
type rules struct {
	servers, resources       mcpvisor.ToolFilter
	tools, prompts           filters
	annotations              Annotations
	limitsEntries, limitsURI bool
	nothing                  bool // of a profile that does not exist
}

// noRules are those of a profile that does not exist.
var noRules = &rules{nothing: true}

// filters is a Filter whose patterns may name the server.
type filters struct{ name, qualified mcpvisor.ToolFilter }

func newFilters(f Filter) (made filters) {
	split := func(patterns []string) (name, qualified []string) {
		for _, pattern := range patterns {
			if strings.Contains(pattern, "/") {
				qualified = append(qualified, pattern)
			} else {
				name = append(name, pattern)
			}
		}
		return name, qualified
	}
	made.name.Allow, made.qualified.Allow = split(f.Allow)
	made.name.Deny, made.qualified.Deny = split(f.Deny)
	return made
}

func (f *filters) allows(server, name string) bool {
	qualified := mcpvisor.Qualify(server, name)
	if denied := (mcpvisor.ToolFilter{Deny: f.name.Deny}); !denied.Allows(name) {
		return false
	}
	if denied := (mcpvisor.ToolFilter{Deny: f.qualified.Deny}); !denied.Allows(qualified) {
		return false
	}
	if len(f.name.Allow) == 0 && len(f.qualified.Allow) == 0 {
		return true
	}
	return len(f.name.Allow) > 0 && mcpvisor.ToolFilter{Allow: f.name.Allow}.Allows(name) ||
		len(f.qualified.Allow) > 0 && mcpvisor.ToolFilter{Allow: f.qualified.Allow}.Allows(qualified)
}

func newRules(p Profile) *rules {
	r := &rules{servers: mcpvisor.ToolFilter(p.Servers), resources: mcpvisor.ToolFilter(p.Resources),
		tools: newFilters(p.Tools), prompts: newFilters(p.Prompts), annotations: p.Annotations}
	r.limitsURI = !r.resources.IsZero()
	r.limitsEntries = r.limitsURI || len(p.Tools.Allow)+len(p.Tools.Deny)+len(p.Prompts.Allow)+len(p.Prompts.Deny) > 0 || p.Annotations != Annotations{}
	return r
}

func (r *rules) offersServer(server string) bool {
	return r == nil || !r.nothing && r.servers.Allows(server)
}

func (r *rules) offersTool(t *mcpvisor.Tool) bool {
	return r.tools.allows(t.Server, t.OriginalName) && r.annotations.hold(t.Definition)
}

// offersURI decides about a resource or a template of a server that is offered.
func (r *rules) offersURI(uri string) bool {
	return r == nil || !r.limitsURI || !climbs(uri) && r.resources.Allows(uri)
}

// maxEscapes is how often a URI may be escaped.
const maxEscapes = 4

// climbs reports whether a URI may stand for one outside of the part that it begins with.
func climbs(uri string) bool {
	for range maxEscapes {
		if slices.Contains(strings.FieldsFunc(uri, func(r rune) bool { return strings.ContainsRune("/\\?#", r) }), "..") {
			return true
		}
		plain, err := url.PathUnescape(uri)
		if err != nil || plain == uri {
			return err != nil
		}
		uri = plain
	}
	return true
}

func (a *Annotations) hold(t *mcp.Tool) bool {
	said := mcp.ToolAnnotations{}
	if t != nil && t.Annotations != nil {
		said = *t.Annotations
	}
	is := func(wanted *bool, value bool) bool { return wanted == nil || *wanted == value }
	destructive := !said.ReadOnlyHint && (said.DestructiveHint == nil || *said.DestructiveHint)
	return is(a.ReadOnly, said.ReadOnlyHint) && is(a.Destructive, destructive) && is(a.Idempotent, said.IdempotentHint) &&
		is(a.OpenWorld, said.OpenWorldHint == nil || *said.OpenWorldHint)
}

// view is what one gateway offers of the client: everything, or a profile.
type view struct {
	client   clientCatalogs
	settings *SettingsVar
	profile  string // empty: everything

	mu   sync.Mutex // guards the fields below
	by   *rules     // that chose of
	kept map[string]mcpvisor.Catalog
}

// clientCatalogs is what a view needs of the client.
type clientCatalogs interface {
	Catalogs() iter.Seq[mcpvisor.Catalog]
	Servers() []string
}

// rules returns what is offered at this moment; nil: everything.
func (v *view) rules() *rules {
	if v.profile == "" {
		return nil
	}
	return v.rulesOf(v.settings.load())
}

// rulesOf returns what some settings offer.
func (v *view) rulesOf(s *settings) *rules {
	if v.profile == "" {
		return nil
	}
	if r := s.rules[v.profile]; r != nil {
		return r
	}
	return noRules
}

// servers yields the catalogs of the servers that are offered, as a whole.
func (v *view) servers(r *rules) iter.Seq[mcpvisor.Catalog] {
	if r == nil {
		return v.client.Catalogs()
	}
	return func(yield func(mcpvisor.Catalog) bool) {
		for known := range v.client.Catalogs() {
			if r.offersServer(known.Server) && !yield(known) {
				return
			}
		}
	}
}

// catalogs yields what is offered.
func (v *view) catalogs(r *rules) iter.Seq[mcpvisor.Catalog] {
	if r == nil || !r.limitsEntries {
		return v.servers(r)
	}
	return func(yield func(mcpvisor.Catalog) bool) {
		for known := range v.servers(r) {
			if !yield(v.choose(r, known)) {
				return
			}
		}
	}
}

// choose returns the part of a catalog that is offered. It is made once for each version of the
// catalog.
func (v *view) choose(r *rules, known mcpvisor.Catalog) mcpvisor.Catalog {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by != r {
		v.by, v.kept = r, map[string]mcpvisor.Catalog{}
	}
	part, ok := v.kept[known.Server]
	if !ok || part.Version != known.Version {
		if !ok && len(v.kept) > len(v.client.Servers()) { // some are gone
			clear(v.kept)
		}
		part = known
		part.Tools = chosen(known.Tools, r.offersTool)
		part.Prompts = chosen(known.Prompts, func(p *mcpvisor.Prompt) bool { return r.prompts.allows(p.Server, p.OriginalName) })
		part.Resources = chosen(known.Resources, func(one *mcpvisor.Resource) bool { return r.offersURI(one.URI) })
		part.Templates = chosen(known.Templates, func(t *mcpvisor.ResourceTemplate) bool { return r.offersURI(t.URITemplate) })
		v.kept[known.Server] = part
	}
	part.Unavailable, part.State = known.Unavailable, known.State // they change without the version
	return part
}

func chosen[T any](all []T, offered func(*T) bool) (part []T) {
	for i := range all {
		if offered(&all[i]) {
			part = append(part, all[i])
		}
	}
	return part
}

// serverNames returns the registered servers that are offered.
func (v *view) serverNames() []string {
	r := v.rules()
	return slices.DeleteFunc(v.client.Servers(), func(server string) bool { return !r.offersServer(server) })
}

// offersUpdate reports whether a session may hear that a resource was updated.
func (v *view) offersUpdate(server, uri string) bool {
	r := v.rules()
	return r.offersServer(server) && r.offersURI(uri)
}

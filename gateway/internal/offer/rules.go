// Package offer says which part of the servers a gateway offers to some of its clients. Rules never
// change; a View keeps the chosen part of each server, one for each that is registered.
package offer

import (
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
)

// Rules are a profile that is ready to be applied. nil offers everything.
type Rules struct {
	servers, resources       mcpvisor.ToolFilter
	tools, prompts           filters
	annotations              settings.Annotations
	limitsEntries, limitsURI bool
	nothing                  bool // the profile does not exist
}

// Nothing are the rules of a profile that does not exist.
var Nothing = &Rules{nothing: true}

// filters are the patterns without a server, and those that begin with one.
type filters struct{ name, qualified mcpvisor.ToolFilter }

func newFilters(f mcpvisor.ToolFilter) (made filters) {
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

// New returns the rules of a profile.
func New(c settings.Profile) *Rules {
	r := &Rules{servers: c.Servers, resources: c.Resources, tools: newFilters(c.Tools), prompts: newFilters(c.Prompts), annotations: c.Annotations}
	for _, pattern := range c.Resources.Deny { // it is compared with what is unescaped, too
		if unescaped, err := url.PathUnescape(pattern); err == nil && unescaped != pattern {
			r.resources.Deny = append(slices.Clip(r.resources.Deny), unescaped)
		}
	}
	r.limitsURI = !r.resources.IsZero()
	r.limitsEntries = r.limitsURI || !c.Tools.IsZero() || !c.Prompts.IsZero() || c.Annotations != settings.Annotations{}
	return r
}

// OffersServer reports whether a server is offered.
func (r *Rules) OffersServer(server string) bool {
	return r == nil || !r.nothing && r.servers.Allows(server)
}

// OffersTool reports whether a tool is offered, provided that its server is.
func (r *Rules) OffersTool(t *mcpvisor.Tool) bool { return r == nil || r.offersTool(t) }

// OffersPrompt reports whether a prompt is offered.
func (r *Rules) OffersPrompt(server, name string) bool {
	return r.OffersServer(server) && (r == nil || r.prompts.allows(server, name))
}

func (r *Rules) offersTool(t *mcpvisor.Tool) bool {
	return r.tools.allows(t.Server, t.OriginalName) && hold(r.annotations, t.Definition)
}

// OffersName reports whether the name of a tool is offered, provided that its server is.
func (r *Rules) OffersName(server, name string) bool { return r == nil || r.tools.allows(server, name) }

// OffersURI reports whether a resource or template is offered, provided that its server is. A URI that two
// readers may read differently is not; see readings.
func (r *Rules) OffersURI(uri string) bool {
	if r == nil || !r.limitsURI {
		return true
	}
	all, plain := readings(uri)
	denied := mcpvisor.ToolFilter{Deny: r.resources.Deny}
	return plain && r.resources.Allows(uri) && !slices.ContainsFunc(all, func(reading string) bool { return !denied.Allows(reading) })
}

func hold(a settings.Annotations, t *mcp.Tool) bool {
	said := mcp.ToolAnnotations{}
	if t != nil && t.Annotations != nil {
		said = *t.Annotations
	}
	is := func(wanted *bool, value bool) bool { return wanted == nil || *wanted == value }
	destructive := !said.ReadOnlyHint && (said.DestructiveHint == nil || *said.DestructiveHint)
	return is(a.ReadOnly, said.ReadOnlyHint) && is(a.Destructive, destructive) && is(a.Idempotent, said.IdempotentHint) &&
		is(a.OpenWorld, said.OpenWorldHint == nil || *said.OpenWorldHint)
}

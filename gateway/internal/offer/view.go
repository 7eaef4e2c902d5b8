package offer

import (
	"iter"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// View is what one gateway offers of the client: everything, or a profile. Safe for concurrent use.
type View struct {
	client clientCatalogs
	Rules  func() *Rules // returns what is offered now; nil: everything

	mu   sync.Mutex                  // guards the fields below
	by   *Rules                      // kept was chosen by them
	kept map[string]mcpvisor.Catalog // by server
}

// clientCatalogs is what a view needs of the client.
type clientCatalogs interface {
	Catalogs() iter.Seq[mcpvisor.Catalog]
	Servers() []string
	ServerStatus(name string) (mcpvisor.ServerStatus, bool)
}

// NewView returns a view of a client. rules returns what is offered now; nil: everything.
func NewView(client clientCatalogs, rules func() *Rules) *View {
	return &View{client: client, Rules: rules}
}

// Servers yields the whole catalogs of the servers that are offered.
func (v *View) Servers(r *Rules) iter.Seq[mcpvisor.Catalog] {
	if r == nil {
		return v.client.Catalogs()
	}
	return func(yield func(mcpvisor.Catalog) bool) {
		for known := range v.client.Catalogs() {
			if r.OffersServer(known.Server) && !yield(known) {
				return
			}
		}
	}
}

// Catalogs yields the catalogs of the servers that are offered, with the offered entries only.
func (v *View) Catalogs(r *Rules) iter.Seq[mcpvisor.Catalog] {
	if r == nil || !r.limitsEntries {
		return v.Servers(r)
	}
	return func(yield func(mcpvisor.Catalog) bool) {
		for known := range v.Servers(r) {
			if !yield(v.choose(r, known)) {
				return
			}
		}
	}
}

// choose returns the offered part of a catalog. It makes the part once for each version of the catalog.
func (v *View) choose(r *Rules, known mcpvisor.Catalog) mcpvisor.Catalog {
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
		part.Resources = chosen(known.Resources, func(one *mcpvisor.Resource) bool { return r.OffersURI(one.URI) })
		part.Templates = chosen(known.Templates, func(t *mcpvisor.ResourceTemplate) bool { return r.OffersURI(t.URITemplate) })
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

// NeverReady returns the offered servers that have never been ready, so that their lists are not known: each name
// and URI may be theirs. Read it before the catalogs: a server that becomes ready in between is then in both.
func (v *View) NeverReady(r *Rules) []string {
	known := map[string]bool{}
	for catalog := range v.Servers(r) {
		known[catalog.Server] = true
	}
	return slices.DeleteFunc(v.client.Servers(), func(server string) bool {
		if known[server] || !r.OffersServer(server) {
			return true
		}
		status, ok := v.client.ServerStatus(server)
		return !ok || status.State == supervisor.StateStopping && status.Totals.Ready > 0 // it is being removed
	})
}

// ServerNames returns the registered servers that are offered.
func (v *View) ServerNames() []string {
	r := v.Rules()
	return slices.DeleteFunc(v.client.Servers(), func(server string) bool { return !r.OffersServer(server) })
}

// OffersUpdate reports whether a session may hear that a resource was updated.
func (v *View) OffersUpdate(server, uri string) bool {
	r := v.Rules()
	return r.OffersServer(server) && r.OffersURI(uri)
}

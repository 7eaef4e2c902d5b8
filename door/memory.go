package door

import (
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// memory is what each server offered when it was last ready, so that the name of a resource
// or a prompt leads to its server while that is down. The client remembers tools itself.
type memory struct {
	client *facade.Client

	mu      sync.Mutex
	servers map[string]offer
}

// offer is what one server offers, tools excepted.
type offer struct {
	resources []mcpvisor.Resource
	templates []mcpvisor.ResourceTemplate
	prompts   []mcpvisor.Prompt
}

// learn records the lists of a server, which have so many entries. If they have another
// number, the server has changed again, and another event follows.
func (m *memory) learn(server string, resources, templates, prompts int) {
	var now offer
	now.resources = ofServer(m.client.Resources(), func(r *mcpvisor.Resource) bool { return r.Server == server })
	now.templates = ofServer(m.client.ResourceTemplates(), func(t *mcpvisor.ResourceTemplate) bool { return t.Server == server })
	now.prompts = ofServer(m.client.Prompts(), func(p *mcpvisor.Prompt) bool { return p.Server == server })
	if len(now.resources) != resources || len(now.templates) != templates || len(now.prompts) != prompts {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers[server] = now
}

func ofServer[T any](all []T, of func(*T) bool) []T {
	return slices.DeleteFunc(all, func(entry T) bool { return !of(&entry) })
}

// forget drops a server that was unregistered.
func (m *memory) forget(server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.servers, server)
}

// resources returns what all servers offered, in the order of the client's lists.
func (m *memory) resources() (all []mcpvisor.Resource, templates []mcpvisor.ResourceTemplate) {
	m.eachServer(func(o offer) {
		all = append(all, o.resources...)
		templates = append(templates, o.templates...)
	})
	return all, templates
}

func (m *memory) prompts() (all []mcpvisor.Prompt) {
	m.eachServer(func(o offer) { all = append(all, o.prompts...) })
	return all
}

func (m *memory) eachServer(f func(offer)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.client.Servers() { // sorted, and registered still
		f(m.servers[name])
	}
}

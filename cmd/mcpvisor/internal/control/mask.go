package control

import (
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// Masks hide the secrets that servers were given: those of their specs, and secrets in their environment,
// arguments, headers and URLs. A server may repeat them in what it lists. The zero value hides none. Safe for
// concurrent use.
type Masks struct {
	byServer atomic.Pointer[map[string]*strings.Replacer] // replaced as a whole
}

// Text returns a text of a server without its secrets.
func (m *Masks) Text(server, text string) string {
	if all := m.byServer.Load(); all != nil && (*all)[server] != nil {
		return (*all)[server].Replace(text)
	}
	return text
}

// MasksOf hides the secrets of these specs.
func MasksOf(specs ...mcpvisor.ServerSpec) *Masks {
	m := new(Masks)
	m.Update(specs...)
	return m
}

// Update replaces the specs whose secrets are hidden.
func (m *Masks) Update(specs ...mcpvisor.ServerSpec) {
	lists := make(map[string]*secret.List, len(specs))
	for _, spec := range specs { // while a server is replaced, there are two of its name
		found := lists[spec.Name]
		if found == nil {
			found = new(secret.List)
			lists[spec.Name] = found
		}
		found.Add(spec.Secrets...)
		if spec.Stdio != nil {
			env := make([]string, 0, len(spec.Stdio.Env))
			for name, value := range spec.Stdio.Env {
				env = append(env, name+"="+value)
			}
			found.AddEnv(env)
			found.AddArgs(spec.Stdio.Args)
		}
		if spec.HTTP != nil {
			if u, err := url.Parse(spec.HTTP.URL); err == nil {
				found.AddEndpoint(u)
			}
			for name, value := range spec.HTTP.Headers {
				found.AddHeader(name, value)
			}
		}
	}
	masks := make(map[string]*strings.Replacer, len(lists))
	for name, found := range lists {
		if !found.Empty() {
			masks[name] = found.Replacer()
		}
	}
	m.byServer.Store(&masks)
}

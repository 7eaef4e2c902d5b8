package control

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// masksOf returns what hides the secrets that servers were given: those of their specs, and
// secrets in their environment, arguments, headers and URLs. A server may repeat them in what
// it lists.
func masksOf(specs []mcpvisor.ServerSpec) map[string]*strings.Replacer {
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
	return masks
}

// masked returns what a server lists, as JSON without its secrets. It is left out if that is
// no longer JSON.
func (h *Handler) masked(server string, definition any) any {
	h.mu.Lock()
	mask := h.masks[server]
	h.mu.Unlock()
	if mask == nil {
		return definition
	}
	data, err := json.Marshal(definition)
	if err != nil {
		return definition // the answer as a whole fails, too
	}
	if data = []byte(mask.Replace(string(data))); !json.Valid(data) {
		return struct{}{}
	}
	return json.RawMessage(data)
}

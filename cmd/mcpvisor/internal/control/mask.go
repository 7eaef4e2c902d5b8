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
	masks := make(map[string]*strings.Replacer, len(specs))
	for _, spec := range specs {
		var found secret.List
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
		if !found.Empty() {
			masks[spec.Name] = found.Replacer()
		}
	}
	return masks
}

// masked returns what a server lists, as JSON without its secrets. It is left out if that is
// not JSON any more.
func (h *Handler) masked(server string, definition any) any {
	mask := h.masks[server]
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

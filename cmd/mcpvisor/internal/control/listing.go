package control

import (
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// Every list is an object with the list in it, and every key is in camel case, as in MCP,
// because --json prints the answers as they are. Definitions are shown as the server sent
// them: the types below omit the fields that the types of the go-sdk add.

type toolEntry struct {
	mcpvisor.Tool
	Definition any `json:"definition"` // a toolDefinition, or that without secrets
}

type toolDefinition struct {
	*mcp.Tool
	Annotations *annotations `json:"annotations,omitempty"`
}

// annotations omit hints that are false, because a missing hint means false.
type annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  bool   `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
}

func (h *Handler) entryOf(t mcpvisor.Tool, asSent bool) toolEntry {
	d := toolDefinition{Tool: t.Definition}
	if a := t.Definition.Annotations; a != nil {
		d.Annotations = &annotations{a.Title, a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint}
	}
	if asSent {
		return toolEntry{t, d}
	}
	return toolEntry{t, h.masked(t.Server, d)}
}

// masked returns what a server lists, without its secrets.
func (h *Handler) masked(server string, definition any) any {
	return secret.MaskJSON(func(text string) string { return h.of.Masks.Text(server, text) }, definition)
}

// readResult is the result of resources/read. Servers before 2026-07-28 send no
// fields about caching.
type readResult struct {
	Meta       mcp.Meta                `json:"_meta,omitempty"`
	TTLMs      *int                    `json:"ttlMs,omitempty"`
	CacheScope string                  `json:"cacheScope,omitempty"`
	Contents   []*mcp.ResourceContents `json:"contents"`
}

func readJSON(r *mcp.ReadResourceResult) readResult {
	out := readResult{Meta: r.Meta, CacheScope: r.CacheScope, Contents: r.Contents}
	if r.CacheScope != "" || r.TTLMs != 0 {
		out.TTLMs = &r.TTLMs
	}
	return out
}

// addList adds what servers list without their secrets: each entry as the client has it.
func addList[T any](h *Handler, e *jsonanswer.Encoder, name string, list []T, serverOf func(T) string) {
	jsonanswer.List(e, name, slices.Values(list), func(one T) any { return h.masked(serverOf(one), one) })
}

// getTools answers with all tools, those of ?server=NAME, or the one that ?tool=NAME names.
// The list is empty if no tool has that name now. With ?sent=true, for the arguments of a call, secrets
// of servers are not hidden, and a server that is down has the tools that it had last.
func (h *Handler) getTools(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	sent, tools := query.Get("sent") == "true", h.tools(query.Get("server"), query.Get("tool"))
	if sent {
		tools = h.knownTool(query.Get("tool"))
	}
	h.write(w, r, func(e *jsonanswer.Encoder) {
		jsonanswer.List(e, "tools", tools, func(t mcpvisor.Tool) any { return h.entryOf(t, sent) })
	})
}

// knownTool yields the tool of a name that is listed, else the one that a server which is down had last.
func (h *Handler) knownTool(name string) iter.Seq[mcpvisor.Tool] {
	return func(yield func(mcpvisor.Tool) bool) {
		if tool, ok := h.client.Tool(name); ok {
			yield(tool)
			return
		}
		for c := range relay.Of(h.client).Catalogs() {
			for _, tool := range c.Tools {
				if tool.Name == name || tool.Alias == name {
					yield(tool)
					return
				}
			}
		}
	}
}

// tools yields the tool of a name, else the tools of a server, else all.
func (h *Handler) tools(server, name string) iter.Seq[mcpvisor.Tool] {
	return func(yield func(mcpvisor.Tool) bool) {
		if name != "" {
			if tool, ok := h.client.Tool(name); ok {
				yield(tool)
			}
			return
		}
		for tool := range h.client.AllTools() {
			if (server == "" || tool.Server == server) && !yield(tool) {
				return
			}
		}
	}
}

func (h *Handler) getResources(w http.ResponseWriter, r *http.Request) {
	h.write(w, r, func(e *jsonanswer.Encoder) {
		addList(h, e, "resources", h.client.Resources(), func(r mcpvisor.Resource) string { return r.Server })
		addList(h, e, "resourceTemplates", h.client.ResourceTemplates(), func(t mcpvisor.ResourceTemplate) string { return t.Server })
	})
}

func (h *Handler) getPrompts(w http.ResponseWriter, r *http.Request) {
	h.write(w, r, func(e *jsonanswer.Encoder) {
		addList(h, e, "prompts", h.client.Prompts(), func(p mcpvisor.Prompt) string { return p.Server })
	})
}

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

// Of returns a function that is Text of a server as it is now; nil if it has no secrets.
func (m *Masks) Of(server string) func(string) string {
	if all := m.byServer.Load(); all != nil && (*all)[server] != nil {
		return (*all)[server].Replace
	}
	return nil
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
			found.AddProcess(spec.Stdio.Env, spec.Stdio.Args)
		}
		if spec.HTTP != nil {
			found.AddRemote(spec.HTTP.URL, spec.HTTP.Headers)
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

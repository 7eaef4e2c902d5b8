package control

import (
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// Every list is an object with the list in it, and every key is in camel case, as in MCP,
// because --json prints the answers as they are. Definitions are shown as the server sent
// them: the types below omit the fields that the types of the go-sdk add.

type toolList struct {
	Tools []toolEntry `json:"tools"`
}

type toolEntry struct {
	mcpvisor.Tool
	Definition toolDefinition `json:"definition"`
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

func listTools(tools []mcpvisor.Tool) toolList {
	list := toolList{Tools: make([]toolEntry, 0, len(tools))}
	for _, t := range tools {
		e := toolEntry{t, toolDefinition{Tool: t.Definition}}
		if a := t.Definition.Annotations; a != nil {
			e.Definition.Annotations = &annotations{a.Title, a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint}
		}
		list.Tools = append(list.Tools, e)
	}
	return list
}

type resourceList struct {
	Resources []mcpvisor.Resource         `json:"resources"`
	Templates []mcpvisor.ResourceTemplate `json:"resourceTemplates"`
}

type promptList struct {
	Prompts []mcpvisor.Prompt `json:"prompts"`
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

// orEmpty returns a list that JSON shows as [] when it is empty.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// getTools answers with all tools, those of ?server=NAME, or the one that ?tool=NAME names.
// The list is empty if no tool has that name now.
func (h *Handler) getTools(w http.ResponseWriter, r *http.Request) {
	server, name := r.URL.Query().Get("server"), r.URL.Query().Get("tool")
	var tools []mcpvisor.Tool
	switch {
	case name != "":
		if tool, ok := h.client.Tool(name); ok {
			tools = append(tools, tool)
		}
	default:
		tools = slices.DeleteFunc(h.client.Tools(), func(t mcpvisor.Tool) bool { return server != "" && t.Server != server })
	}
	writeJSON(w, listTools(tools))
}

func (h *Handler) getResources(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, resourceList{orEmpty(h.client.Resources()), orEmpty(h.client.ResourceTemplates())})
}

func (h *Handler) getPrompts(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, promptList{orEmpty(h.client.Prompts())})
}

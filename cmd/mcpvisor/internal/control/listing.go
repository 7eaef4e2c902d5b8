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

func (h *Handler) listTools(tools []mcpvisor.Tool, asSent bool) toolList {
	list := toolList{Tools: make([]toolEntry, 0, len(tools))}
	for _, t := range tools {
		d := toolDefinition{Tool: t.Definition}
		if a := t.Definition.Annotations; a != nil {
			d.Annotations = &annotations{a.Title, a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint}
		}
		e := toolEntry{t, d}
		if !asSent {
			e.Definition = h.masked(t.Server, d)
		}
		list.Tools = append(list.Tools, e)
	}
	return list
}

type resourceList struct {
	Resources []any `json:"resources"`         // each a mcpvisor.Resource, or that without secrets
	Templates []any `json:"resourceTemplates"` // each a mcpvisor.ResourceTemplate, or that without secrets
}

type promptList struct {
	Prompts []any `json:"prompts"` // each a mcpvisor.Prompt, or that without secrets
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

// maskedList returns what servers list without their secrets. JSON shows an empty list as [].
func maskedList[T any](h *Handler, list []T, serverOf func(T) string) []any {
	all := make([]any, 0, len(list))
	for _, one := range list {
		all = append(all, h.masked(serverOf(one), one))
	}
	return all
}

// getTools answers with all tools, those of ?server=NAME, or the one that ?tool=NAME names.
// The list is empty if no tool has that name now. Secrets of servers are hidden, except with
// ?sent=true, because a call is compared with what the server has sent.
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
	writeJSON(w, h.listTools(tools, r.URL.Query().Get("sent") == "true"))
}

func (h *Handler) getResources(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, resourceList{
		maskedList(h, h.client.Resources(), func(r mcpvisor.Resource) string { return r.Server }),
		maskedList(h, h.client.ResourceTemplates(), func(t mcpvisor.ResourceTemplate) string { return t.Server }),
	})
}

func (h *Handler) getPrompts(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, promptList{maskedList(h, h.client.Prompts(), func(p mcpvisor.Prompt) string { return p.Server })})
}

package web

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/mcpvisor/mcpvisor"
)

// Tools is the answer of GET api/servers/{name}/tools. A server that is not ready lists no
// tools.
type Tools struct {
	Server string `json:"server"`
	// Tokens estimates how many tokens all tools cost a language model.
	Tokens int    `json:"tokens"`
	Tools  []Tool `json:"tools"`
}

// Tool is one tool with its definition, as the server sent it.
type Tool struct {
	mcpvisor.Tool
	// Tokens estimates how many tokens the tool costs a language model; see
	// [mcpvisor.Tool.TokenEstimate].
	Tokens int `json:"tokens"`
}

// ToolUse is the answer of GET api/tools: statistics of the tools of all servers, those
// that took the most time first; with ?limit=N the first N of them.
type ToolUse struct {
	Tools []ToolStats `json:"tools"`
	// Total counts the tools that were called.
	Total int `json:"total"`
}

func (h *Handler) getTools(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	status, found := h.client.ServerStatus(name)
	if !found {
		h.writeUnknownServer(w, name)
		return
	}
	answer := Tools{Server: name, Tools: make([]Tool, 0, status.Catalog.Tools)}
	for tool := range h.client.AllTools() {
		if tool.Server != name {
			continue
		}
		one := Tool{Tool: tool, Tokens: tool.TokenEstimate()}
		answer.Tokens += one.Tokens
		answer.Tools = append(answer.Tools, one)
	}
	writeJSON(w, http.StatusOK, answer)
}

func (h *Handler) getToolUse(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit")
	if !ok {
		return
	}
	var all []mcpvisor.ToolStats
	for _, name := range h.client.Servers() {
		for _, s := range h.client.ToolStats(name) {
			if s.Calls > 0 || s.Refused > 0 {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mcpvisor.ToolStats) int { return cmp.Compare(b.Duration.Sum, a.Duration.Sum) })
	answer := ToolUse{Total: len(all)}
	if limit > 0 && limit < uint64(len(all)) {
		all = all[:limit]
	}
	answer.Tools = statsOf(all)
	writeJSON(w, http.StatusOK, answer)
}

package web

import (
	"net/http"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Bounds of a search. The texts of tools are of servers, and there may be thousands.
const (
	maxSearchBytes = 200     // of the words; longer ones are an error
	maxFound       = 50      // tools that are listed; more are counted
	searchedBytes  = 1 << 10 // of a description, from its beginning
	shownBytes     = 200     // of a description that is listed
)

func (h *Handler) getSearch(w http.ResponseWriter, r *http.Request) {
	text := strings.Join(r.URL.Query()["q"], " ")
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || len(text) > maxSearchBytes {
		writeError(w, http.StatusBadRequest, api.ErrorDetail{Kind: mcpvisor.KindInvalid, Message: "q must have words to search for, of at most 200 bytes"})
		return
	}
	answerValue(h, w, r, func() api.Search {
		found := api.Search{Tools: []api.FoundTool{}}
		for tool := range h.client.AllTools() {
			if r.Context().Err() != nil {
				break
			}
			name, original, title, description := tool.Name, tool.OriginalName, tool.Definition.Title, tool.Definition.Description
			if h.opts.mask != nil {
				for _, text := range []*string{&name, &original, &title, &description} {
					*text = h.opts.mask(tool.Server, *text)
				}
			}
			description = description[:min(len(description), searchedBytes)]
			if !hasWords(words, name+" "+title+" "+description) {
				continue
			}
			if len(found.Tools) == maxFound {
				found.More++
				continue
			}
			found.Tools = append(found.Tools, api.FoundTool{Server: tool.Server, Name: name, OriginalName: original,
				Description: display.Shorten(display.Line(description), shownBytes)})
		}
		return found
	})
}

// hasWords reports whether a text has all words, which are in lower case.
func hasWords(words []string, text string) bool {
	text = strings.ToLower(text)
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

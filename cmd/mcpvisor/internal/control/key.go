package control

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
)

// Key is the answer of GET /run/key.
type Key struct {
	// Entry is what the journal knows of the key, without the result; nil: it does not know it.
	Entry *mcpvisor.JournalEntry `json:"entry,omitempty"`
}

// getKey answers with what the journal knows of ?key=KEY of &principal=NAME.
func (h *Handler) getKey(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	entry, known, err := h.client.JournalEntry(r.Context(), mcpvisor.JournalKey{Principal: query.Get("principal"), Key: query.Get("key")})
	if err != nil {
		writeError(w, err)
		return
	}
	var answer Key
	if entry.Result = nil; known {
		answer.Entry = &entry
	}
	h.write(w, r, func(e *jsonanswer.Encoder) { e.Value(answer) })
}

// ResolveRequest is the body of POST /run/resolve: a key, and the facade.KeyResolution of it.
type ResolveRequest struct {
	mcpvisor.JournalKey
	Seen   time.Time       `json:"seen"`
	By     string          `json:"by"`
	NotRun bool            `json:"notRun,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// postResolve states what became of the call of a key. Only commands can: clients of the gateway and the page
// have no such request.
func (h *Handler) postResolve(w http.ResponseWriter, r *http.Request) {
	request, ok := readBody[ResolveRequest](h, w, r)
	if !ok {
		return
	}
	err := h.client.ResolveKey(r.Context(), request.JournalKey, facade.KeyResolution{Seen: request.Seen, By: request.By, NotRun: request.NotRun, Result: request.Result})
	if err != nil {
		writeError(w, err)
		return
	}
	h.write(w, r, func(e *jsonanswer.Encoder) { e.Value(struct{}{}) })
}

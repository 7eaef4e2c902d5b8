package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// maxRecords is the most records of an answer, and someRecords how many it has if the request does not say.
const maxRecords, someRecords = 500, 100

// getRecords searches the records of the program.
func (h *Handler) getRecords(w http.ResponseWriter, r *http.Request) {
	invalid := func(status int, text string) {
		writeError(w, status, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: text})
	}
	values := r.URL.Query()
	q := api.RecordsQuery{Text: strings.TrimSpace(values.Get("q")), Server: values.Get("server"), Events: values.Get("kind") == "events", Unknown: values.Get("unknown") == "true"}
	last, ok := number(w, r, "limit")
	var err error
	if since := values.Get("since"); since != "" {
		q.Since, err = time.Parse(time.RFC3339, since)
	}
	switch {
	case !ok:
		return
	case h.opts.program.Records == nil:
		invalid(http.StatusNotFound, "this program keeps no records; mcpvisor run --records DIR does")
		return
	case err != nil:
		invalid(http.StatusBadRequest, "since is not a time; write it as in 2026-11-28T15:04:05Z")
		return
	case !q.Events && values.Get("kind") != "calls":
		invalid(http.StatusBadRequest, "kind is either calls or events")
		return
	case len(q.Text) > maxSearchBytes || len(q.Server) > maxSearchBytes:
		invalid(http.StatusBadRequest, "q and server have at most 200 bytes")
		return
	}
	q.Last = int(min(cmp.Or(last, someRecords), maxRecords))
	select {
	case h.searches <- struct{}{}:
		defer func() { <-h.searches }()
	case <-r.Context().Done():
		return
	}
	found, err := h.opts.program.Records(r.Context(), q)
	if err != nil {
		writeError(w, http.StatusInternalServerError, api.ErrorDetail{Message: "the records cannot be read: " + err.Error()})
		return
	}
	answerValue(h, w, r, func() api.Records { return api.Records{Records: orEmpty[json.RawMessage](found)} })
}

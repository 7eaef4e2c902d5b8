package web

import (
	"net/http"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// statsOf sums up what is known about the calls of tools.
func statsOf(all []mcpvisor.ToolStats) []api.ToolStats {
	out := make([]api.ToolStats, 0, len(all))
	for i := range all {
		s := &all[i]
		out = append(out, api.ToolStats{Server: s.Server, Name: s.Name, OriginalName: s.OriginalName, Calls: s.Calls,
			ToolErrors: s.ToolErrors, Failed: s.Failed, Unknown: s.Unknown, Refused: s.Refused, Mean: s.Duration.Mean(),
			P50: s.Duration.Quantile(0.5), P95: s.Duration.Quantile(0.95), P99: s.Duration.Quantile(0.99), Max: s.Duration.Max})
	}
	return out
}

func (h *Handler) getServer(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	status, found := h.client.ServerStatus(name)
	if !found {
		h.writeUnknownServer(w, name)
		return
	}
	answerValue(h, w, r, func() api.Server {
		h.statusInTerms(&status)
		stderr, _ := h.client.Stderr(name)
		return api.Server{Status: status, Stderr: stderr, Tools: statsOf(h.client.ToolStats(name))}
	})
}

// getStderr answers with the lines after ?after=N, for followers. A follower begins again
// with 0 when the epoch changes.
func (h *Handler) getStderr(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	stderr, found := h.client.Stderr(name)
	if !found {
		h.writeUnknownServer(w, name)
		return
	}
	follows := r.URL.Query().Has("after")
	answerValue(h, w, r, func() api.Stderr {
		answer := api.Stderr{ServerStderr: stderr}
		if follows {
			answer.First = nil
			answer.Lines, answer.Dropped = stderr.After(int64(min(after, uint64(stderr.Total))))
		}
		return answer
	})
}

func (h *Handler) writeUnknownServer(w http.ResponseWriter, name string) {
	similar := nearest.Names(name, h.client.Servers())
	message := "no server of that name is registered"
	if len(similar) > 0 {
		message += "; did you mean " + similar[0] + "?"
	}
	writeError(w, http.StatusNotFound, api.ErrorDetail{Kind: mcpvisor.KindUnknownServer, Server: name, Message: message, Similar: similar})
}

package web

import (
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// Server is the answer of GET api/servers/{name}.
type Server struct {
	Status mcpvisor.ServerStatus `json:"status"`
	// Stderr is what the latest incarnation wrote to stderr.
	Stderr mcpvisor.ServerStderr `json:"stderr"`
	// Tools are the statistics of its tools that were called.
	Tools []ToolStats `json:"tools"`
}

// Stderr is the answer of GET api/servers/{name}/stderr.
type Stderr struct {
	mcpvisor.ServerStderr
	// Dropped counts the lines between ?after=N and the first of Lines.
	Dropped int64 `json:"dropped,omitempty"`
}

// ToolStats are the statistics of one tool, as [mcpvisor.ToolStats], with the quantiles of
// its durations in place of the histogram. All durations are nanoseconds.
type ToolStats struct {
	Server       string                       `json:"server"`
	Name         string                       `json:"name"`
	OriginalName string                       `json:"originalName"`
	Calls        int64                        `json:"calls"`
	ToolErrors   int64                        `json:"toolErrors,omitempty"`
	Failed       map[mcpvisor.ErrorKind]int64 `json:"failed,omitempty"`
	Unknown      int64                        `json:"unknown,omitempty"`
	Refused      int64                        `json:"refused,omitempty"`
	Mean         time.Duration                `json:"meanNs"`
	P50          time.Duration                `json:"p50Ns"`
	P95          time.Duration                `json:"p95Ns"`
	P99          time.Duration                `json:"p99Ns"`
	Max          time.Duration                `json:"maxNs"`
}

// statsOf sums up what is known about the calls of tools.
func statsOf(all []mcpvisor.ToolStats) []ToolStats {
	out := make([]ToolStats, 0, len(all))
	for i := range all {
		s := &all[i]
		out = append(out, ToolStats{Server: s.Server, Name: s.Name, OriginalName: s.OriginalName, Calls: s.Calls,
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
	stderr, _ := h.client.Stderr(name)
	writeJSON(w, http.StatusOK, Server{Status: status, Stderr: stderr, Tools: statsOf(h.client.ToolStats(name))})
}

// getStderr answers with the lines after ?after=N, for followers. A follower begins again
// with 0 when the epoch changes.
func (h *Handler) getStderr(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	stderr, found := h.client.Stderr(name)
	if !found {
		h.writeUnknownServer(w, name)
		return
	}
	answer := Stderr{ServerStderr: stderr}
	if r.URL.Query().Has("after") {
		after, ok := number(w, r, "after")
		if !ok {
			return
		}
		answer.First = nil
		answer.Lines, answer.Dropped = stderr.After(int64(min(after, uint64(stderr.Total))))
	}
	writeJSON(w, http.StatusOK, answer)
}

func (h *Handler) writeUnknownServer(w http.ResponseWriter, name string) {
	similar := nearest.Names(name, h.client.Servers())
	message := "no server of that name is registered"
	if len(similar) > 0 {
		message += "; did you mean " + similar[0] + "?"
	}
	writeError(w, http.StatusNotFound, ErrorDetail{Kind: mcpvisor.KindUnknownServer, Server: name, Message: message, Similar: similar})
}

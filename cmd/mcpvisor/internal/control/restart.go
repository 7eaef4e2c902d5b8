package control

import (
	"net/http"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
)

// RestartRequest is the body of POST /run/restart: restart servers. With Drain, it waits until they have no calls in flight,
// for DrainTimeout at most.
type RestartRequest struct {
	Servers []string `json:"servers"`
	Drain   bool     `json:"drain,omitempty"`
}

// Restart is the answer of POST /run/restart: the restarts are under way, and have ended so many calls.
type Restart struct {
	CallsEnded int `json:"callsEnded"`
}

func (h *Handler) postRestart(w http.ResponseWriter, r *http.Request) {
	request, ok := readBody[RestartRequest](h, w, r)
	if !ok {
		return
	}
	var answer Restart
	for until := time.Now().Add(DrainTimeout); ; {
		answer.CallsEnded = CallsOf(h.client.CallsInFlight(), request.Servers)
		if !request.Drain || answer.CallsEnded == 0 || !time.Now().Before(until) {
			break
		}
		if backoff.Sleep(r.Context(), drainPoll) != nil { // the command was interrupted
			return
		}
	}
	for _, name := range request.Servers {
		if err := h.client.Restart(r.Context(), name); err != nil {
			writeError(w, err)
			return
		}
	}
	h.write(w, r, func(e *jsonanswer.Encoder) { e.Value(answer) })
}

// CallsOf counts the calls that were sent to some servers: their restart ends them.
func CallsOf(calls []mcpvisor.CallInFlight, names []string) (n int) {
	for _, c := range calls {
		if !c.Queued && slices.Contains(names, c.Server) {
			n++
		}
	}
	return n
}

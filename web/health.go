package web

import (
	"net/http"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func (h *Handler) getHealth(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func (h *Handler) getReadiness(w http.ResponseWriter, r *http.Request) {
	refused := h.refuseStranger(r)
	if refused != nil && !h.mayAsk(r) {
		refused.write(w)
		return
	}
	answer := api.Readiness{Closed: h.client.Closed() || h.opts.leaving(), NotReady: h.notReady(h.required(r))}
	answer.Ready = len(answer.NotReady) == 0 && !answer.Closed
	if refused != nil {
		answer = api.Readiness{Ready: answer.Ready}
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

// required returns the servers that a request for readyz is about.
func (h *Handler) required(r *http.Request) []string {
	if named := r.URL.Query()["server"]; named != nil {
		return named
	}
	if h.opts.requiredSet {
		return h.opts.required
	}
	return h.client.Servers()
}

// mayAsk reports whether a client that may not see the page gets an answer: it names no
// servers but those of WithRequired. So it cannot find out names and states.
func (h *Handler) mayAsk(r *http.Request) bool {
	for _, name := range r.URL.Query()["server"] {
		if !slices.Contains(h.opts.required, name) {
			return false
		}
	}
	return true
}

// notReady returns those of the named servers that are not ready.
func (h *Handler) notReady(names []string) (missing []api.NotReady) {
	all := h.client.Status()
	for _, name := range names {
		i := slices.IndexFunc(all, func(s mcpvisor.ServerStatus) bool { return s.Name == name })
		switch {
		case i < 0:
			missing = append(missing, api.NotReady{Server: name, Reason: "no server of that name is registered"})
		case all[i].State != supervisor.StateReady:
			h.statusInTerms(&all[i])
			missing = append(missing, api.NotReady{Server: name, State: all[i].State, Reason: reasonOf(&all[i]), RetryAt: all[i].RetryAt})
		}
	}
	return missing
}

// reasonOf says in one line why a server is not ready.
func reasonOf(s *mcpvisor.ServerStatus) string {
	if s.LastCause != nil {
		return s.LastCause.Describe()
	}
	return "the server is " + string(s.State)
}

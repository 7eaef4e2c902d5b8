package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Schema names the shape of the answers. Within one schema, fields are only added.
const Schema = "web/v1"

// Status is the answer of GET api/status: all servers at one moment.
type Status struct {
	// Schema is [Schema].
	Schema string `json:"schema"`
	// Instance differs between handlers: after a restart of the process, numbers of events
	// and calls begin again.
	Instance string `json:"instance"`
	// Title is the name of the page. Version is [facade.Version].
	Title   string `json:"title"`
	Version string `json:"version"`
	// Now is the time of the answer by the clock of the server.
	Now time.Time `json:"now"`
	// Controls is whether actions are allowed.
	Controls bool `json:"controls"`
	// Attention lists what an operator should look at, the most important entry first.
	Attention []Attention `json:"attention"`
	// Servers are all servers, sorted by name; with ?server=NAME, which may be repeated,
	// those only.
	Servers []mcpvisor.ServerStatus `json:"servers"`
	// Stats are the facts of the client as a whole; Stats.Events is the number of the last
	// event.
	Stats mcpvisor.ClientStats `json:"stats"`
	// Names are the names of all registered servers, sorted.
	Names []string `json:"names"`
}

func (h *Handler) getStatus(w http.ResponseWriter, r *http.Request) {
	at := now()
	all := h.client.Status()
	s := Status{Schema: Schema, Instance: h.instance, Title: h.opts.title, Version: facade.Version(), Now: at,
		Controls: h.opts.controls, Attention: h.attention(at, all), Servers: all, Stats: h.client.Stats(), Names: make([]string, 0, len(all))}
	for i := range all {
		s.Names = append(s.Names, all[i].Name)
	}
	if only := r.URL.Query()["server"]; only != nil {
		s.Servers = slices.DeleteFunc(all, func(one mcpvisor.ServerStatus) bool { return !slices.Contains(only, one.Name) })
	}
	writeJSON(w, http.StatusOK, s)
}

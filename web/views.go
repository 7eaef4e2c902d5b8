package web

import (
	"cmp"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func (h *Handler) getStatus(w http.ResponseWriter, r *http.Request) {
	only := r.URL.Query()["server"]
	answerValue(h, w, r, func() api.Status {
		at := now()
		all := h.client.Status()
		s := api.Status{Schema: api.Schema, Instance: h.instance, Title: h.opts.title, Version: facade.Version(), Now: at,
			Controls: h.opts.controls, Attention: h.attention(at, all), Servers: all, Stats: h.client.Stats(), Names: make([]string, 0, len(all))}
		for i := range all {
			s.Names = append(s.Names, all[i].Name)
			h.statusInTerms(&all[i])
		}
		if only != nil {
			s.Servers = slices.DeleteFunc(all, func(one mcpvisor.ServerStatus) bool { return !slices.Contains(only, one.Name) })
		}
		return s
	})
}

func (h *Handler) getCalls(w http.ResponseWriter, r *http.Request) {
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	unfinished := h.unfinished.read(r.Context(), h.client)
	answerValue(h, w, r, func() api.Calls {
		recent, missed := h.client.RecentCalls(after)
		calls := api.Calls{InFlight: orEmpty(h.client.CallsInFlight()), Tasks: h.client.Tasks(), Recent: orEmpty(recent), Unknown: orEmpty(h.client.UnknownCalls()), Missed: missed}
		calls.Unfinished = unfinished[:min(len(unfinished), maxUnfinished)]
		calls.MoreUnfinished = len(unfinished) - len(calls.Unfinished)
		return calls
	})
}

func (h *Handler) getClients(w http.ResponseWriter, r *http.Request) {
	answerValue(h, w, r, func() api.Clients {
		answer := api.Clients{Instance: h.instance, Status: clients.Status{Sessions: []clients.SessionStatus{}, Offers: []clients.Offer{}}}
		if h.opts.gateway != nil {
			answer.Gateway, answer.Status = true, h.opts.gateway()
		}
		return answer
	})
}

func (h *Handler) getNodes(w http.ResponseWriter, r *http.Request) {
	answerValue(h, w, r, func() api.Nodes {
		answer := api.Nodes{Instance: h.instance}
		if h.opts.fleet != nil {
			answer.Fleet, answer.FleetStatus = true, h.opts.fleet()
		}
		answer.Nodes, answer.Placements = orEmpty(answer.Nodes), orEmpty(answer.Placements)
		return answer
	})
}

// number returns a query parameter that is a number, 0 if it is not set. If it is not a
// number, the request is answered and ok is false.
func number(w http.ResponseWriter, r *http.Request, name string) (n uint64, ok bool) {
	text := strings.Join(r.URL.Query()[name], ",") // no number if it is given twice
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		writeError(w, http.StatusBadRequest, api.ErrorDetail{Kind: mcpvisor.KindInvalid, Message: fmt.Sprintf("%s=%q is not a number of 0 or more", name, text)})
		return 0, false
	}
	return n, true
}

// orEmpty returns a list that JSON shows as [] when it is empty.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (h *Handler) getTools(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if _, found := h.client.ServerStatus(name); !found {
		h.writeUnknownServer(w, name)
		return
	}
	h.answer(w, r, func(e *jsonanswer.Encoder) { // a Tools
		e.Field("server", name)
		tokens := 0
		jsonanswer.List(e, "tools", h.toolsOf(name), func(tool mcpvisor.Tool) any {
			one := api.Tool{Tool: tool, Tokens: tool.TokenEstimate()}
			tokens += one.Tokens
			if h.opts.mask == nil {
				return one
			}
			return secret.MaskJSON(func(text string) string { return h.opts.mask(name, text) }, one)
		})
		e.Field("tokens", tokens)
	})
}

func (h *Handler) toolsOf(server string) iter.Seq[mcpvisor.Tool] {
	return func(yield func(mcpvisor.Tool) bool) {
		for tool := range h.client.AllTools() {
			if tool.Server == server && !yield(tool) {
				return
			}
		}
	}
}

func (h *Handler) getToolUse(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit")
	if !ok {
		return
	}
	answerValue(h, w, r, func() api.ToolUse {
		var all []mcpvisor.ToolStats
		for _, name := range h.client.Servers() {
			for _, s := range h.client.ToolStats(name) {
				if s.Calls > 0 || s.Refused > 0 {
					all = append(all, s)
				}
			}
		}
		slices.SortStableFunc(all, func(a, b mcpvisor.ToolStats) int { return cmp.Compare(b.Duration.Sum, a.Duration.Sum) })
		total := len(all)
		if limit > 0 && limit < uint64(total) {
			all = all[:limit]
		}
		return api.ToolUse{Tools: statsOf(all), Total: total}
	})
}

func (h *Handler) getEvents(w http.ResponseWriter, r *http.Request) {
	after, ok := h.firstEvent(w, r)
	if !ok {
		return
	}
	kinds, servers := kindsOf(r), r.URL.Query()["server"]
	answerValue(h, w, r, func() api.Events {
		kept, missed := h.client.RecentEvents(after)
		answer := api.Events{Events: make([]api.Event, 0, len(kept)), Missed: missed}
		for i := range kept {
			if selects(kinds, kept[i].Kind) && selects(servers, kept[i].Server) {
				answer.Events = append(answer.Events, h.eventOf(&kept[i]))
			}
		}
		return answer
	})
}

// selects reports whether a selection has a value. An empty selection has all.
func selects[T comparable](selection []T, value T) bool {
	return len(selection) == 0 || slices.Contains(selection, value)
}

func (h *Handler) getSummaries(w http.ResponseWriter, r *http.Request) {
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	kinds, servers := kindsOf(r), r.URL.Query()["server"]
	answerValue(h, w, r, func() api.EventSummaries {
		stats := h.client.Stats() // before the summaries: nothing is left out by the next request
		all, dropped := h.client.EventSummaries(after)
		answer := api.EventSummaries{Instance: h.instance, Seq: stats.Events, Summaries: make([]api.EventSummary, 0, len(all)), Dropped: dropped, Started: stats.Started}
		for i := range all {
			if selects(kinds, all[i].Last.Kind) && selects(servers, all[i].Last.Server) {
				answer.Summaries = append(answer.Summaries, h.summaryOf(&all[i]))
			}
		}
		return answer
	})
}

// firstEvent returns the number of the event after which a request asks for events.
func (h *Handler) firstEvent(w http.ResponseWriter, r *http.Request) (after uint64, ok bool) {
	last, ok := number(w, r, "last")
	if !ok {
		return 0, false
	}
	if seen := h.client.Stats().Events; last > 0 && seen > last {
		return seen - last, true
	}
	return number(w, r, "after")
}

// kindsOf returns the kinds of events that a request selects; none means all.
func kindsOf(r *http.Request) (kinds []mcpvisor.EventKind) {
	for _, kind := range r.URL.Query()["kind"] {
		kinds = append(kinds, mcpvisor.EventKind(kind))
	}
	return kinds
}

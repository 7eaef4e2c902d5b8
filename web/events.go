package web

import (
	"net/http"
	"slices"

	"github.com/mcpvisor/mcpvisor"
)

// Event is an event with its description in one line.
type Event struct {
	mcpvisor.Event
	// Text is what [mcpvisor.Event.String] returns.
	Text string `json:"text"`
}

// Events is the answer of GET api/events: the kept events after ?after=SEQ, oldest first,
// or the last ?last=N of them. ?kind=KIND, which may be repeated, selects kinds.
type Events struct {
	Events []Event `json:"events"`
	// Missed counts events after SEQ that are not kept any more.
	Missed uint64 `json:"missed"`
}

// Hello is the data of the first event ("hello") of an event stream.
type Hello struct {
	Schema   string `json:"schema"`
	Instance string `json:"instance"` // as Status.Instance
}

// Missed is the data of an event "missed" of an event stream: that many events are lost to
// this reader, because they are too old or because it reads too slowly.
type Missed struct {
	Missed uint64 `json:"missed"`
}

func eventOf(e *mcpvisor.Event) Event { return Event{Event: *e, Text: e.String()} }

func (h *Handler) getEvents(w http.ResponseWriter, r *http.Request) {
	after, ok := h.firstEvent(w, r)
	if !ok {
		return
	}
	kept, missed := h.client.RecentEvents(after)
	kinds := kindsOf(r)
	answer := Events{Events: make([]Event, 0, len(kept)), Missed: missed}
	for i := range kept {
		if len(kinds) == 0 || slices.Contains(kinds, kept[i].Kind) {
			answer.Events = append(answer.Events, eventOf(&kept[i]))
		}
	}
	writeJSON(w, http.StatusOK, answer)
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

package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/mcpvisor/mcpvisor"
)

// Calls is the answer of GET api/calls.
type Calls struct {
	// InFlight are the requests that have not ended.
	InFlight []mcpvisor.CallInFlight `json:"inFlight"`
	// Recent are the calls that ended after ?after=SEQ, oldest first; without it all that
	// are kept, at most [mcpvisor.RecentCallsLimit].
	Recent []mcpvisor.CallRecord `json:"recent"`
	// Unknown are the last calls of unknown outcome, oldest first; see
	// facade.Client.UnknownCalls.
	Unknown []mcpvisor.CallRecord `json:"unknown"`
	// Missed counts calls after SEQ that are not kept any more.
	Missed uint64 `json:"missed,omitempty"`
}

func (h *Handler) getCalls(w http.ResponseWriter, r *http.Request) {
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	recent, missed := h.client.RecentCalls(after)
	writeJSON(w, http.StatusOK, Calls{InFlight: orEmpty(h.client.CallsInFlight()), Recent: orEmpty(recent), Unknown: orEmpty(h.client.UnknownCalls()), Missed: missed})
}

// number returns a query parameter that is a number, 0 if it is not set. If it is not a
// number, the request is answered and ok is false.
func number(w http.ResponseWriter, r *http.Request, name string) (n uint64, ok bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorDetail{Kind: mcpvisor.KindInvalid, Message: fmt.Sprintf("%s=%q is not a number of 0 or more", name, text)})
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

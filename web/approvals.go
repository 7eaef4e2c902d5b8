package web

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func (h *Handler) getApprovals(w http.ResponseWriter, r *http.Request) {
	answerValue(h, w, r, func() api.Approvals { return api.Approvals{Approvals: orEmpty(h.approvals())} })
}

// approvals returns the calls that wait for a decision, the oldest first, without secrets.
func (h *Handler) approvals() []api.Approval {
	if h.opts.program.Approvals == nil {
		return nil
	}
	all := h.opts.program.Approvals()
	for i := range all {
		a := &all[i]
		for _, text := range []*json.RawMessage{&a.Arguments, &a.InputResponses} {
			if *text != nil {
				*text, _ = json.Marshal(h.masked(a.Server, *text)) // it is JSON already
			}
		}
	}
	return all
}

// awaited says that calls wait for a decision.
func (h *Handler) awaited() (all []api.Attention) {
	if open := h.approvals(); len(open) > 0 {
		oldest := mcpvisor.Qualify(open[0].Server, open[0].Tool)
		text := "1 call of " + oldest + " must be approved or denied"
		if len(open) > 1 {
			text = display.Count(len(open), "call") + " must be approved or denied, the oldest of " + oldest
		}
		all = append(all, api.Attention{Kind: api.AttentionApproval, Severity: api.SeverityWarning, Since: &open[0].Asked, Text: text, Action: "approve or deny it: mcpvisor approvals shows the calls, and so does the page"})
	}
	return all
}

// errNoApprovals is the error of a decision where no rule asks.
var errNoApprovals = errors.New("no call waits for a decision")

// postApproval decides about a call.
func (h *Handler) postApproval(w http.ResponseWriter, r *http.Request) {
	body := h.bodies.NewBody(w, r, maxTaskBytes)
	defer body.Release()
	request, err := jsonanswer.Decode[api.DecisionRequest](body)
	if err != nil {
		refuseBody(w, err)
		return
	}
	err = errNoApprovals
	if h.opts.program.Decide != nil {
		err = h.opts.program.Decide(request.ID, request.Approve, request.Reason)
	}
	if err != nil {
		writeError(w, http.StatusNotFound, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, api.DecisionAnswer{ID: request.ID, Approved: request.Approve})
}

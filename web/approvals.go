package web

import (
	"errors"
	"net/http"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func (h *Handler) getApprovals(w http.ResponseWriter, r *http.Request) {
	answerValue(h, w, r, func() (a api.Approvals) {
		if h.opts.program.Approvals != nil {
			a.Approvals = h.opts.program.Approvals()
		}
		a.Approvals = orEmpty(a.Approvals)
		return a
	})
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
		writeError(w, http.StatusNotFound, api.ErrorDetail{Kind: mcpvisor.KindInvalid, Message: err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, api.DecisionAnswer{ID: request.ID, Approved: request.Approve})
}

package control

import (
	"errors"
	"net/http"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
)

// ReloadRequest is the body of POST /run/reload: read the configuration again.
type ReloadRequest struct {
	// DryRun asks what would change, and changes nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// Reload is the answer of POST /run/reload: what the configuration changes.
type Reload struct {
	DryRun bool `json:"dryRun,omitempty"`
	// Problem says why the files as a whole cannot be used. Then nothing changes.
	Problem string `json:"problem,omitempty"`
	// GatewayProblem says why "gateway" of the files cannot be used. What hosts are offered stays as
	// it was.
	GatewayProblem string `json:"gatewayProblem,omitempty"`
	// Changes are by server, in the order of their names.
	Changes []Change `json:"changes"`
	// Unchanged counts the servers that are left alone.
	Unchanged int `json:"unchanged"`
	// TookMs is how long the changes took, with the calls in flight of what ends, and starts beside a server
	// that is replaced. Other starts are not waited for.
	TookMs int64 `json:"tookMs"`
}

// Change is what becomes of one server.
type Change struct {
	Server string `json:"server"`
	Action Action `json:"action"`
	// Reason says why the entry is not usable.
	Reason string `json:"reason,omitempty"`
	// Error says why the change failed.
	Error string `json:"error,omitempty"`
}

// Action says what a reload does with a server.
type Action string

const (
	// ActionAdd starts a server.
	ActionAdd Action = "add"
	// ActionReplace ends a server and starts it by its new entry, or the other way round if both may run.
	ActionReplace Action = "replace"
	// ActionRemove ends a server.
	ActionRemove Action = "remove"
	// ActionKeep leaves a server as it is, because its entry is no longer usable.
	ActionKeep Action = "keep"
	// ActionUnusable shows an entry that is not usable as a server that was given up.
	ActionUnusable Action = "unusable"
)

func (h *Handler) postReload(w http.ResponseWriter, r *http.Request) {
	request, ok := readBody[ReloadRequest](h, w, r)
	if !ok {
		return
	}
	if h.of.Reload == nil {
		writeError(w, &mcpvisor.Error{Op: "reload", Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("these servers are copies, and no configuration is read again for them")})
		return
	}
	answer := h.of.Reload(request.DryRun)
	h.write(w, r, func(e *jsonanswer.Encoder) { e.Value(answer) })
}

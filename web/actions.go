package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// maxBodyBytes bounds the body of a request.
const maxBodyBytes = 8 << 20

// CallRequest is the body of POST api/call.
type CallRequest struct {
	// Tool is the qualified name or the alias of a tool.
	Tool string `json:"tool"`
	// Arguments is a JSON object; empty means {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// TimeoutMs bounds the time without progress, in milliseconds; 0 means the default of
	// the client and of the server, as for facade.WithTimeout.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// WaitReady waits until the server is ready, as facade.WithWaitReady does.
	WaitReady bool `json:"waitReady,omitempty"`
}

// CallAnswer is the answer to POST api/call when the server gave a result.
type CallAnswer struct {
	// Result is the result as the server sent it: the JSON of an mcp.CallToolResult. The
	// tool itself may have failed; then its isError is true.
	Result json.RawMessage `json:"result"`
	// Took is the duration of the call, in nanoseconds.
	Took time.Duration `json:"tookNs"`
}

// RestartAnswer is the answer to POST api/servers/{name}/restart: the restart is under way.
type RestartAnswer struct {
	Server string `json:"server"`
}

func (h *Handler) postRestart(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if err := h.client.Restart(r.Context(), name); err != nil {
		h.writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, RestartAnswer{Server: name})
}

// postCall calls a tool. The call ends with the request: a page that is closed cancels it.
func (h *Handler) postCall(w http.ResponseWriter, r *http.Request) {
	var call CallRequest
	body := http.MaxBytesReader(w, r.Body, maxBodyBytes)
	if err := json.NewDecoder(body).Decode(&call); err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		writeError(w, status, ErrorDetail{Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Message: "the body is not a call: " + err.Error()})
		return
	}
	options := []facade.CallOption{facade.WithTimeout(max(0, time.Duration(call.TimeoutMs)*time.Millisecond))}
	if call.WaitReady {
		options = append(options, facade.WithWaitReady())
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	began := time.Now()
	result, err := h.client.CallToolRaw(ctx, call.Tool, call.Arguments, options...)
	if err != nil {
		h.writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusOK, CallAnswer{Result: result, Took: time.Since(began)})
}

// writeFailure writes an error of the client.
func (h *Handler) writeFailure(w http.ResponseWriter, err error) {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		writeError(w, http.StatusInternalServerError, ErrorDetail{Message: err.Error()})
		return
	}
	writeError(w, statusOf(e.Kind), ErrorDetail{Kind: e.Kind, Outcome: e.Outcome, Server: e.Server,
		Message: e.Error(), RetryAfterMs: e.RetryAfter.Milliseconds()})
}

// statusOf returns the HTTP status of an error.
func statusOf(kind mcpvisor.ErrorKind) int {
	switch kind {
	case mcpvisor.KindUnknownServer, mcpvisor.KindUnknownTool:
		return http.StatusNotFound
	case mcpvisor.KindInvalid:
		return http.StatusBadRequest
	case mcpvisor.KindOverloaded:
		return http.StatusTooManyRequests
	case mcpvisor.KindTimeout:
		return http.StatusGatewayTimeout
	case mcpvisor.KindExists:
		return http.StatusConflict
	case mcpvisor.KindUnavailable, mcpvisor.KindEvicted, mcpvisor.KindStart, mcpvisor.KindAuthRequired, mcpvisor.KindClosed, mcpvisor.KindCanceled:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway // it was sent, and the server or the connection failed
}

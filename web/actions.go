package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/web/api"
)

const (
	// maxBodyBytes bounds the body of a request.
	maxBodyBytes = 8 << 20
	// maxToolBytes bounds the name of a tool that is called.
	maxToolBytes = 4 << 10
)

func (h *Handler) postRestart(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	var options []facade.EndOption
	if r.URL.Query().Get("drain") == "true" {
		options = append(options, facade.WithDrain())
	}
	if err := h.client.Restart(r.Context(), name, options...); err != nil {
		h.writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, api.RestartAnswer{Server: name})
}

// postCall calls a tool. The call ends with the request: a page that is closed cancels it.
func (h *Handler) postCall(w http.ResponseWriter, r *http.Request) {
	body := h.bodies.NewBody(w, r, maxBodyBytes)
	defer body.Release()
	call, err := jsonanswer.Decode[api.CallRequest](body)
	if err == nil {
		err = validateCall(&call)
	}
	if err != nil {
		refuseBody(w, err)
		return
	}
	options := []facade.CallOption{facade.WithTimeout(time.Duration(call.TimeoutMs) * time.Millisecond)}
	if call.Check == nil || *call.Check {
		options = append(options, facade.WithStrictValidation())
	}
	if call.WaitReady {
		options = append(options, facade.WithWaitReady())
	}
	if call.Key != "" {
		options = append(options, facade.WithKey(call.Key))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	began := time.Now()
	result, err := h.client.CallToolRaw(ctx, call.Tool, call.Arguments, options...)
	if err != nil {
		h.writeFailure(w, err)
		return
	}
	took := time.Since(began)
	body.Release()
	h.writeResult(w, call.Tool, result, took)
}

// validateCall checks what the type does not.
func validateCall(c *api.CallRequest) error {
	if len(c.Tool) > maxToolBytes { // the error about an unknown tool repeats it
		return fmt.Errorf("tool has %d bytes; a name has at most %d", len(c.Tool), maxToolBytes)
	}
	if most := int64(math.MaxInt64 / time.Millisecond); c.TimeoutMs < 0 || c.TimeoutMs > most {
		return fmt.Errorf("timeoutMs is %d; set 0 for the default, or at most %d", c.TimeoutMs, most)
	}
	return nil
}

// refuseBody answers a request whose body is not a call.
func refuseBody(w http.ResponseWriter, err error) {
	if errors.Is(err, jsonanswer.ErrNoRoom) {
		writeBusy(w, "the calls of other requests are in memory; try again later")
		return
	}
	status := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		status = http.StatusRequestTimeout
	}
	writeError(w, status, api.ErrorDetail{Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Message: "the body is not a call: " + display.Shorten(err.Error(), 1<<10)})
}

// writeResult writes a [api.CallAnswer]. The result is written as it came, without a copy. If too
// many are held for other readers, it is dropped, and the error says that the tool has run.
func (h *Handler) writeResult(w http.ResponseWriter, tool string, result json.RawMessage, took time.Duration) {
	if len(result) > jsonanswer.SmallBytes {
		if !h.answers.Take(len(result)) {
			writeError(w, http.StatusServiceUnavailable, api.ErrorDetail{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeAnswered,
				Message: fmt.Sprintf("%s has run, and its result of %d bytes was dropped, because large answers for other readers are in memory", tool, len(result))})
			return
		}
		defer h.answers.Return(len(result))
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	jsonanswer.SetDeadline(w, len(result))
	for _, part := range [][]byte{[]byte(`{"result":`), result, fmt.Appendf(nil, `,"tookNs":%d}`+"\n", took)} {
		if _, err := w.Write(part); err != nil { //nolint:gosec // it is JSON, as the header says
			return // a reader that has gone needs no answer
		}
	}
}

func (h *Handler) writeFailure(w http.ResponseWriter, err error) {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		writeError(w, http.StatusInternalServerError, api.ErrorDetail{Message: h.inTerms(err.Error())})
		return
	}
	writeError(w, statusOf(e.Kind), api.ErrorDetail{Kind: e.Kind, Outcome: e.Outcome, Retryable: e.Retryable(), Server: e.Server,
		Message: h.inTerms(e.Error()), RetryAfterMs: e.RetryAfter.Milliseconds()})
}

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
	case mcpvisor.KindUnavailable, mcpvisor.KindEvicted, mcpvisor.KindStart, mcpvisor.KindAuthRequired, mcpvisor.KindClosed, mcpvisor.KindCanceled, mcpvisor.KindJournal:
		return http.StatusServiceUnavailable
	default:
	}
	return http.StatusBadGateway // it was sent, and the server or the connection failed
}

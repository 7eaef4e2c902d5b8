package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// bodyTimeout bounds the time to read the body of a request.
const bodyTimeout = 30 * time.Second

// limitBody bounds the time to read a body. It also bounds how long the end of a body may be
// missing after a call: the server reads it before it answers.
func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not each writer has deadlines
	}
}

// answer writes an answer whose size others decide: servers, or how much has happened. What
// build does counts as encoding, so that one reader at a time has it done.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, build func(*jsonanswer.Encoder)) {
	switch answer, err := h.answers.Encode(r.Context(), build); {
	case err == nil:
		answer.Write(w, http.StatusOK)
	case errors.Is(err, jsonanswer.ErrNoRoom):
		writeBusy(w, err.Error())
	case r.Context().Err() != nil: // the reader has gone
	default: // only types of servers can fail: a definition with invalid raw JSON
		writeError(w, http.StatusInternalServerError, api.ErrorDetail{Message: "the answer cannot be written as JSON: " + err.Error()})
	}
}

// answerValue is answer for one value, which make makes.
func answerValue[T any](h *Handler, w http.ResponseWriter, r *http.Request, make func() T) {
	h.answer(w, r, func(e *jsonanswer.Encoder) { e.Value(make()) })
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	data, _ := json.Marshal(body) // small types have no raw JSON
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	jsonanswer.SetDeadline(w, len(data))
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a reader that has gone needs no answer
}

func writeError(w http.ResponseWriter, status int, detail api.ErrorDetail) {
	writeJSON(w, status, api.ErrorAnswer{Error: detail})
}

// writeBusy refuses a request that may be made again. Its connection is closed, so that
// readers that were refused hold none.
func writeBusy(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	w.Header().Set("Connection", "close")
	writeError(w, http.StatusServiceUnavailable, api.ErrorDetail{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeNotSent, Retryable: true,
		Message: message, RetryAfterMs: retryAfter.Milliseconds()})
}

// plainErrors turns the errors that http.ServeMux writes as text (404, 405) into JSON.
type plainErrors struct {
	http.ResponseWriter
	replaced bool // the body of the mux is dropped
}

// Unwrap lets http.ResponseController find the connection.
func (p *plainErrors) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *plainErrors) WriteHeader(status int) {
	text := strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain")
	if !text || status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.replaced = true
	message := "no such page"
	if status == http.StatusMethodNotAllowed {
		message = "the method is not allowed here; use " + p.Header().Get("Allow")
	}
	writeError(p.ResponseWriter, status, api.ErrorDetail{Message: message})
}

// Write implements http.ResponseWriter.
func (p *plainErrors) Write(b []byte) (int, error) {
	if p.replaced {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

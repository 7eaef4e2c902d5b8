package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
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
	writeError(w, http.StatusServiceUnavailable, api.ErrorDetail{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent, Retryable: true,
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

// inTerms returns a text in the words of the program ([api.Program].Terms).
func (h *Handler) inTerms(text string) string {
	if h.opts.program.Terms == nil || text == "" {
		return text
	}
	return h.opts.program.Terms(text)
}

func (h *Handler) causeInTerms(c *supervisor.Cause) *supervisor.Cause {
	if h.opts.program.Terms == nil || c == nil {
		return c
	}
	c = c.Clone()
	c.Message = h.opts.program.Terms(c.Error())
	return c
}

// statusInTerms changes a status, which is a copy.
func (h *Handler) statusInTerms(s *mcpvisor.ServerStatus) {
	if h.opts.program.Terms == nil {
		return
	}
	s.LastCause = h.causeInTerms(s.LastCause)
	s.History = slices.Clone(s.History)
	for i := range s.History {
		s.History[i].Cause = h.causeInTerms(s.History[i].Cause)
	}
	s.Catalog.Warnings = slices.Clone(s.Catalog.Warnings)
	for i := range s.Catalog.Warnings {
		s.Catalog.Warnings[i].Text = h.inTerms(s.Catalog.Warnings[i].Text)
	}
}

func (h *Handler) attentionInTerms(all []api.Attention) {
	for i := range all {
		a := &all[i]
		a.Text, a.Action = h.inTerms(a.Text), h.inTerms(a.Action)
		for j := range a.More {
			a.More[j] = h.inTerms(a.More[j])
		}
	}
}

// groupOf says what an event is about.
func groupOf(e *mcpvisor.Event) api.EventGroup {
	switch e.Kind {
	case mcpvisor.EventRegistered, mcpvisor.EventUnregistered:
		return api.GroupConfiguration
	case mcpvisor.EventChanged:
		return api.GroupLists
	case mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventAuthRequired, mcpvisor.EventGroupFailed:
		return api.GroupGivenUp
	case mcpvisor.EventTaskRecovered, mcpvisor.EventTaskLost:
		return api.GroupTasks
	case mcpvisor.EventResourceUpdated, mcpvisor.EventLog, mcpvisor.EventMissed:
		return api.GroupMessages
	case mcpvisor.EventReady:
		if !e.Change.IsZero() {
			return api.GroupLists
		}
	case mcpvisor.EventConnecting, mcpvisor.EventStable, mcpvisor.EventStandby, mcpvisor.EventStandbyLost, mcpvisor.EventDown, mcpvisor.EventStartFailed, mcpvisor.EventRetry,
		mcpvisor.EventWaiting, mcpvisor.EventAsleep, mcpvisor.EventStopped:
	}
	return api.GroupEnds
}

func (h *Handler) summaryOf(s *monitor.EventSummary) api.EventSummary {
	return api.EventSummary{EventSummary: *s, Last: h.eventOf(&s.Last), Text: h.inTerms(s.String()) + h.changeOf(&s.Last)}
}

// changeOf says how a server that was registered again differs from before, to be added to the text of the event.
func (h *Handler) changeOf(e *mcpvisor.Event) string {
	if e.Kind != mcpvisor.EventRegistered || h.opts.program.Change == nil {
		return ""
	}
	if text := h.opts.program.Change(e.Server, e.Gen); text != "" {
		return ": " + text
	}
	return ""
}

func (h *Handler) eventOf(e *mcpvisor.Event) api.Event {
	shown := api.Event{Event: *e, Text: h.inTerms(e.String()) + h.changeOf(e), Severity: e.Severity(), Group: groupOf(e), FromServer: e.Kind.FromServer()}
	shown.Cause = h.causeInTerms(e.Cause)
	return shown
}

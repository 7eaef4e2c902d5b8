package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// ErrorAnswer is the body of every answer that is not a success.
type ErrorAnswer struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail says what went wrong. Message is always set; the other fields are those of
// an [mcpvisor.Error], as far as there was one.
type ErrorDetail struct {
	// Kind classifies the error; empty if the request itself was wrong.
	Kind mcpvisor.ErrorKind `json:"kind,omitempty"`
	// Outcome says whether the request reached the server.
	Outcome mcpvisor.Outcome `json:"outcome,omitempty"`
	// Server is the name of the server that the error is about.
	Server string `json:"server,omitempty"`
	// Message is one line: what failed, why, and what to do.
	Message string `json:"message"`
	// Similar are names like the one that was not found, the most similar one first.
	Similar []string `json:"similar,omitempty"`
	// RetryAfterMs is how long to wait before another attempt, in milliseconds; 0 if that
	// is not known.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
}

const (
	// answerTimeout and slowestReader bound the time to write an answer: the first, and
	// the time that it takes at so many bytes per second. A reader that does not read
	// cannot hold an answer in memory.
	answerTimeout = 30 * time.Second
	slowestReader = 64 << 10
	// bodyTimeout bounds the time to read the body of a request.
	bodyTimeout = 30 * time.Second
)

// limitBody bounds the time to read a body. It also bounds how long the end of a body may be
// missing after a call: the server reads it before it answers.
func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not each writer has deadlines
	}
}

// writeJSON writes an answer of the API. The server ends the write deadline with the request.
func writeJSON(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil { // only types of servers can fail: a definition with invalid raw JSON
		status = http.StatusInternalServerError
		data, _ = json.Marshal(ErrorAnswer{ErrorDetail{Message: "the answer cannot be written as JSON: " + err.Error()}})
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	limit := answerTimeout + time.Duration(len(data)/slowestReader)*time.Second
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // not each writer has deadlines
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a client that has gone needs no answer
}

func writeError(w http.ResponseWriter, status int, detail ErrorDetail) {
	writeJSON(w, status, ErrorAnswer{detail})
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
	writeError(p.ResponseWriter, status, ErrorDetail{Message: message})
}

// Write implements http.ResponseWriter.
func (p *plainErrors) Write(b []byte) (int, error) {
	if p.replaced {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

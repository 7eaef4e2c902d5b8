package endpoint

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// HTTPError is what went wrong with one exchange over HTTP, before it is known
// whether it will be the error of a call or the cause of a failed start. It
// holds no secrets: neither the URL's query and user nor a header.
type HTTPError struct {
	// Message says what happened, hint what to do about it.
	Message string
	Hint    string
	// Kind and outcome are what it means for a call.
	Kind       mcpvisor.ErrorKind
	Outcome    mcpvisor.Outcome
	RetryAfter time.Duration
	// Cause and permanent are what it means for a start.
	Cause     supervisor.CauseKind
	Permanent bool
	// Err is the underlying error, if there is one.
	Err error
	// Remark is what the server sent meanwhile that may explain a timeout.
	Remark error

	// Status is the HTTP status; 0 if none came.
	Status int
	// Gone: nothing listens at the address any more.
	Gone bool
	// Lost: the server does not know our session.
	Lost bool
	// Broken: the connection ended between the request and its answer.
	Broken bool
}

// Error implements error.
func (f *HTTPError) Error() string { return f.Message }

// Problem says what happened, and what to do about it.
func (f *HTTPError) Problem() (what, hint string) { return f.Message, f.Hint }

// Unwrap returns the underlying error.
func (f *HTTPError) Unwrap() error { return f.Err }

// Outage reports whether the server, or something in front of it, failed: a 5xx status.
// Package discovery then takes the whole attempt for failed, not one list.
func (f *HTTPError) Outage() bool { return f.Status >= http.StatusInternalServerError }

// IsUnavailable reports whether nobody was there to be asked, or asked to come again.
func (f *HTTPError) IsUnavailable() bool {
	switch f.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return f.Kind == mcpvisor.KindUnavailable
}

// RejectsRequest reports whether the server has heard a request and will have nothing
// of it. A fault that does not decline says nothing about the protocol.
func (f *HTTPError) RejectsRequest() bool {
	return f.Kind == mcpvisor.KindProtocol && f.Outcome == mcpvisor.OutcomeAnswered &&
		(f.Status < http.StatusInternalServerError || f.Status == http.StatusNotImplemented)
}

// CallError is the fault as the error of a call.
func (f *HTTPError) CallError() *mcpvisor.Error {
	return &mcpvisor.Error{Kind: f.Kind, Outcome: f.Outcome, RetryAfter: f.RetryAfter, Hint: f.Hint, Cause: f}
}

// StartCause is the fault as the cause of a failed start.
func (f *HTTPError) StartCause() *supervisor.Cause {
	c := &supervisor.Cause{Kind: f.Cause, Permanent: f.Permanent, Message: f.Message, Err: f.Err, RetryAfter: f.RetryAfter}
	if f.Hint != "" {
		c.Message += "; " + f.Hint
	}
	return c
}

// EndCause is the cause of death of a session that this fault ends.
func (f *HTTPError) EndCause(target string) *supervisor.Cause {
	message := fmt.Sprintf("the server forgot the session (%s)", f.Message)
	if f.Gone {
		message = "the server is gone: " + f.Message
	}
	return &supervisor.Cause{Kind: supervisor.CauseClosed, Message: message + " at " + target, Err: f.Err, RetryAfter: f.RetryAfter}
}

// ConnectionLost: the request went out, and the connection ended before the
// answer was complete.
func ConnectionLost(problem string, err error) *HTTPError {
	return &HTTPError{Message: problem, Err: err, Broken: true,
		Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: supervisor.CauseClosed}
}

// InvalidReply: an answer came, and it is none.
func InvalidReply(outcome mcpvisor.Outcome, format string, args ...any) *HTTPError {
	return &HTTPError{Message: fmt.Sprintf(format, args...), Kind: mcpvisor.KindProtocol,
		Outcome: outcome, Cause: supervisor.CauseHandshake}
}

// OversizeReply: the answer is longer than Limits.Line.
func OversizeReply(limit int) *HTTPError {
	f := InvalidReply(mcpvisor.OutcomeAnswered, "the answer is longer than %d bytes", limit)
	f.Hint = "raise Limits.MaxMessageBytes if such answers are expected"
	return f
}

// ExplainsMore reports whether the fault of the event stream is a better reason than
// the status with which the POST was refused: 404 and 405 may mean no more than that
// the address takes no POST, as that of HTTP+SSE.
func (f *HTTPError) ExplainsMore(post int) bool {
	if post != http.StatusNotFound && post != http.StatusMethodNotAllowed {
		return false
	}
	return f.Kind == mcpvisor.KindAuthRequired || f.IsUnavailable()
}

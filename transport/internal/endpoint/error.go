package endpoint

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// HTTPError is what went wrong with one HTTP exchange, before it is known whether it
// becomes the error of a call or the cause of a failed start. It contains no
// secrets: neither user and query of a URL, nor header values.
type HTTPError struct {
	// Message says what happened, and Hint what to do about it.
	Message string
	Hint    string
	// Kind and Outcome apply if the error ends a call.
	Kind       mcpvisor.ErrorKind
	Outcome    mcpvisor.Outcome
	RetryAfter time.Duration
	// Cause and Permanent apply if the error ends a start.
	Cause     supervisor.CauseKind
	Permanent bool
	// Err is the underlying error, if there is one.
	Err error
	// Remark is what the server sent meanwhile, if that may explain a timeout.
	Remark error

	// Status is the HTTP status; 0 if no response came.
	Status int
	// Gone: nothing listens at the address any more.
	Gone bool
	// Lost: the server does not know the session any more.
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

// Outage reports whether the server, or a proxy in front of it, failed: a 5xx status.
// Package discovery then fails the whole reading, not one list.
func (f *HTTPError) Outage() bool { return f.Status >= http.StatusInternalServerError }

// IsUnavailable reports whether the server could not be reached, or asked to try
// again later.
func (f *HTTPError) IsUnavailable() bool {
	switch f.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return f.Kind == mcpvisor.KindUnavailable
}

// RejectsRequest reports whether the server received a request and refused it. Any
// other error says nothing about the protocol that the server speaks.
func (f *HTTPError) RejectsRequest() bool {
	return f.Kind == mcpvisor.KindProtocol && f.Outcome == mcpvisor.OutcomeAnswered &&
		(f.Status < http.StatusInternalServerError || f.Status == http.StatusNotImplemented)
}

// CallError is the error of a call that this error ends.
func (f *HTTPError) CallError() *mcpvisor.Error {
	return &mcpvisor.Error{Kind: f.Kind, Outcome: f.Outcome, RetryAfter: f.RetryAfter, Hint: f.Hint, Cause: f}
}

// StartCause is the cause of a start that fails with this error.
func (f *HTTPError) StartCause() *supervisor.Cause {
	c := &supervisor.Cause{Kind: f.Cause, Permanent: f.Permanent, Message: f.Message, Err: f.Err, RetryAfter: f.RetryAfter}
	if f.Hint != "" {
		c.Message += "; " + f.Hint
	}
	return c
}

// EndCause is the cause of the end of a session. Call it if the error is Lost or
// Gone.
func (f *HTTPError) EndCause(target string) *supervisor.Cause {
	message := fmt.Sprintf("the server forgot the session (%s)", f.Message)
	if f.Gone {
		message = "the server is gone: " + f.Message
	}
	return &supervisor.Cause{Kind: supervisor.CauseClosed, Message: message + " at " + target, Err: f.Err, RetryAfter: f.RetryAfter}
}

// ConnectionLost is the error of a request that was sent, and whose connection ended
// before the answer was complete.
func ConnectionLost(problem string, err error) *HTTPError {
	return &HTTPError{Message: problem, Err: err, Broken: true,
		Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: supervisor.CauseClosed}
}

// InvalidReply is the error of a request whose answer came and cannot be used.
func InvalidReply(outcome mcpvisor.Outcome, format string, args ...any) *HTTPError {
	return &HTTPError{Message: fmt.Sprintf(format, args...), Kind: mcpvisor.KindProtocol,
		Outcome: outcome, Cause: supervisor.CauseHandshake}
}

// OversizeReply is the error of a request whose answer is longer than
// Limits.MaxMessageBytes.
func OversizeReply(limit int) *HTTPError {
	f := InvalidReply(mcpvisor.OutcomeAnswered, "the answer is longer than %d bytes", limit)
	f.Hint = "raise Limits.MaxMessageBytes if such answers are expected"
	return f
}

// ExplainsMore reports whether this error of the event stream is a better explanation
// than the status with which the POST was refused. A 404 or 405 may only mean that the
// address takes no POST, as in HTTP+SSE.
func (f *HTTPError) ExplainsMore(post int) bool {
	if post != http.StatusNotFound && post != http.StatusMethodNotAllowed {
		return false
	}
	return f.Kind == mcpvisor.KindAuthRequired || f.IsUnavailable()
}

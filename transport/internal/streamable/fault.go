package streamable

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// httpError is what went wrong with one exchange over HTTP, before it is known
// whether it will be the error of a call or the cause of a failed start. It
// holds no secrets: neither the URL's query and user nor a header.
type httpError struct {
	// problem says what happened, hint what to do about it.
	problem string
	hint    string
	// kind and outcome are what it means for a call.
	kind       mcpvisor.ErrorKind
	outcome    mcpvisor.Outcome
	retryAfter time.Duration
	// cause and permanent are what it means for a start.
	cause     supervisor.CauseKind
	permanent bool
	// err is the underlying error, if there is one.
	err error
	// remark is what the server sent meanwhile that may explain a timeout.
	remark error

	// status is the HTTP status; 0 if none came.
	status int
	// gone: nothing listens at the address any more.
	gone bool
	// lost: the server does not know our session.
	lost bool
	// broken: the connection ended between the request and its answer.
	broken bool
}

// Error implements error.
func (f *httpError) Error() string { return f.problem }

// Problem says what happened, and what to do about it.
func (f *httpError) Problem() (what, hint string) { return f.problem, f.hint }

// Unwrap returns the underlying error.
func (f *httpError) Unwrap() error { return f.err }

// Outage reports whether the server, or something in front of it, failed: a 5xx status.
// Package discovery then takes the whole attempt for failed, not one list.
func (f *httpError) Outage() bool { return f.status >= http.StatusInternalServerError }

// isUnavailable reports whether nobody was there to be asked, or asked to come again.
func (f *httpError) isUnavailable() bool {
	switch f.status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return f.kind == mcpvisor.KindUnavailable
}

// rejectsRequest reports whether the server has heard a request and will have nothing
// of it. A fault that does not decline says nothing about the protocol.
func (f *httpError) rejectsRequest() bool {
	return f.kind == mcpvisor.KindProtocol && f.outcome == mcpvisor.OutcomeAnswered &&
		(f.status < http.StatusInternalServerError || f.status == http.StatusNotImplemented)
}

// callError is the fault as the error of a call.
func (f *httpError) callError() *mcpvisor.Error {
	return &mcpvisor.Error{Kind: f.kind, Outcome: f.outcome, RetryAfter: f.retryAfter, Hint: f.hint, Cause: f}
}

// startCause is the fault as the cause of a failed start.
func (f *httpError) startCause() *supervisor.Cause {
	c := &supervisor.Cause{Kind: f.cause, Permanent: f.permanent, Message: f.problem, Err: f.err, RetryAfter: f.retryAfter}
	if f.hint != "" {
		c.Message += "; " + f.hint
	}
	return c
}

// endCause is the cause of death of a session that this fault ends.
func (f *httpError) endCause(target string) *supervisor.Cause {
	message := fmt.Sprintf("the server forgot the session (%s)", f.problem)
	if f.gone {
		message = "the server is gone: " + f.problem
	}
	return &supervisor.Cause{Kind: supervisor.CauseClosed, Message: message + " at " + target, Err: f.err, RetryAfter: f.retryAfter}
}

// connectionLost: the request went out, and the connection ended before the
// answer was complete.
func connectionLost(problem string, err error) *httpError {
	return &httpError{problem: problem, err: err, broken: true,
		kind: mcpvisor.KindProtocol, outcome: mcpvisor.OutcomeUnknown, cause: supervisor.CauseClosed}
}

// invalidReply: an answer came, and it is none.
func invalidReply(outcome mcpvisor.Outcome, format string, args ...any) *httpError {
	return &httpError{problem: fmt.Sprintf(format, args...), kind: mcpvisor.KindProtocol,
		outcome: outcome, cause: supervisor.CauseHandshake}
}

// oversizeReply: the answer is longer than Limits.Line.
func oversizeReply(limit int) *httpError {
	f := invalidReply(mcpvisor.OutcomeAnswered, "the answer is longer than %d bytes", limit)
	f.hint = "raise Limits.MaxMessageBytes if such answers are expected"
	return f
}

// explainsMore reports whether the fault of the event stream is a better reason than
// the status with which the POST was refused: 404 and 405 may mean no more than that
// the address takes no POST, as that of HTTP+SSE.
func (f *httpError) explainsMore(post int) bool {
	if post != http.StatusNotFound && post != http.StatusMethodNotAllowed {
		return false
	}
	return f.kind == mcpvisor.KindAuthRequired || f.isUnavailable()
}

package endpoint

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/hostlimit"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// HTTPError describes the failure of one HTTP exchange. CallError makes the error of a
// call of it, StartCause the cause of a failed start, and EndCause the cause of the end of
// a session. It contains no secrets: neither user and query of a URL, nor header values.
type HTTPError struct {
	// Message says what happened, and Hint what to do about it.
	Message string
	Hint    string
	// Kind and Outcome are those of the call that fails with this error.
	Kind       mcpvisor.ErrorKind
	Outcome    mcpvisor.Outcome
	RetryAfter time.Duration
	// CauseKind and Permanent are those of the start that fails with this error.
	CauseKind supervisor.CauseKind
	Permanent bool
	// Err is the underlying error, if there is one.
	Err error
	// Remark is an error without an id that the server sent during the request, and that
	// may explain a timeout; nil if there was none.
	Remark error

	// Status is the HTTP status; 0 if no response came.
	Status int
	// ServerGone: the connection was refused, so nothing listens at the address.
	ServerGone bool
	// SessionLost: the server does not know the session, for example after a restart.
	SessionLost bool
	// ConnBroken: the connection ended after the request was sent and before the answer
	// was complete.
	ConnBroken bool
}

// Error implements error.
func (e *HTTPError) Error() string { return e.Message }

// Problem returns what happened, and what to do about it.
func (e *HTTPError) Problem() (what, hint string) { return e.Message, e.Hint }

// Unwrap returns the underlying error.
func (e *HTTPError) Unwrap() error { return e.Err }

// WithCause returns a copy of e with another underlying error; see transport.KeptError.
func (e *HTTPError) WithCause(err error) error {
	other := *e
	other.Err = err
	return &other
}

// Outage reports a 5xx status: the server, or a proxy in front of it, failed. Package
// discovery then fails the reading of all lists, and not only of one.
func (e *HTTPError) Outage() bool { return e.Status >= http.StatusInternalServerError }

// IsUnavailable reports whether the server could not be reached, or asked to try
// again later.
func (e *HTTPError) IsUnavailable() bool {
	return IsGatewayStatus(e.Status) || e.Kind == mcpvisor.ErrUnavailable
}

// IsGatewayStatus reports whether a proxy answers with this status if it cannot reach the server.
func IsGatewayStatus(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// RejectsRequest reports whether the server received the request and rejected it. Only
// such an error shows which protocol the server speaks.
func (e *HTTPError) RejectsRequest() bool {
	return e.Kind == mcpvisor.ErrProtocol && e.Outcome == mcpvisor.OutcomeAnswered &&
		(e.Status < http.StatusInternalServerError || e.Status == http.StatusNotImplemented)
}

// CallError returns the error of a call that fails with e.
func (e *HTTPError) CallError() *mcpvisor.Error {
	return &mcpvisor.Error{Kind: e.Kind, Outcome: e.Outcome, RetryAfter: e.RetryAfter, Hint: e.Hint, Cause: e}
}

// StartCause returns the cause of a start that fails with e.
func (e *HTTPError) StartCause() *supervisor.Cause {
	c := &supervisor.Cause{Kind: e.CauseKind, Permanent: e.Permanent, Host: hostlimit.Reached(e.Err), Message: e.Message, Err: e.Err, RetryAfter: e.RetryAfter}
	if e.Hint != "" {
		c.Message += "; " + e.Hint
	}
	return c
}

// EndCause returns the cause of the end of a session. Call it only if e is SessionLost or
// ServerGone. shownURL is the URL without its secrets.
func (e *HTTPError) EndCause(shownURL string) *supervisor.Cause {
	what := "the server forgot the session"
	if e.ServerGone {
		what = "the server is gone"
	}
	return &supervisor.Cause{Kind: supervisor.CauseClosed, Message: fmt.Sprintf("%s: %s (its URL is %s)", what, e.Message, shownURL),
		Err: e.Err, RetryAfter: e.RetryAfter}
}

// AnswerLost makes the error of a request that was sent, and whose connection ended
// before the answer was complete.
func AnswerLost(problem string, err error) *HTTPError {
	return &HTTPError{Message: problem, Err: err, ConnBroken: true,
		Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, CauseKind: supervisor.CauseClosed}
}

// InvalidReply makes the error of a request whose answer arrived and cannot be used.
func InvalidReply(outcome mcpvisor.Outcome, format string, args ...any) *HTTPError {
	return &HTTPError{Message: fmt.Sprintf(format, args...), Kind: mcpvisor.ErrProtocol,
		Outcome: outcome, CauseKind: supervisor.CauseHandshake}
}

// OversizeReply makes the error of a request whose answer is longer than
// Limits.MaxMessageBytes, which is limit.
func OversizeReply(limit int) *HTTPError {
	httpErr := InvalidReply(mcpvisor.OutcomeAnswered, "the answer is longer than %d bytes", limit)
	httpErr.Hint = "raise Limits.MaxMessageBytes if such answers are expected"
	return httpErr
}

// ExplainsMore reports whether e, the error of an event stream, explains a failed start
// better than the status with which the server rejected the POST before. A 404 or 405 may
// only mean that the address accepts no POST, as in HTTP+SSE.
func (e *HTTPError) ExplainsMore(post int) bool {
	if post != http.StatusNotFound && post != http.StatusMethodNotAllowed {
		return false
	}
	return e.Kind == mcpvisor.ErrAuthRequired || e.IsUnavailable()
}

// canceledError makes the error of a request whose context ended. err is the cause of
// that context. It may have nothing to do with this server, and is not interpreted.
func (e *Endpoint) canceledError(ctx context.Context, err error, sent bool) *HTTPError {
	switch {
	case sent:
		return AnswerLost("the request was canceled before "+e.HostPort+" answered", e.CleanError(err))
	case isDeadline(ctx):
		return e.notSentError(e.HostPort+" did not accept the connection in time", "check the network and the URL", err)
	}
	return e.notSentError("the request was canceled before there was a connection to "+e.HostPort, "", err)
}

// ConnectionLost makes the error of a request whose connection ended before the answer
// was complete. Its message is problem followed by the text of err. The connection of an
// answer that cannot be decoded is not lost.
func (e *Endpoint) ConnectionLost(problem string, err error) *HTTPError {
	if unread := encodingError(""); errors.As(err, &unread) {
		httpErr := InvalidReply(mcpvisor.OutcomeUnknown, "%v", unread)
		httpErr.Hint = "switch the compression off at the server, or at the proxy in front of it"
		return httpErr
	}
	return AnswerLost(display.Shorten(e.CleanText(problem+err.Error()), transport.MaxErrorText), e.CleanError(err))
}

// notSentError makes the error of a request that the server has certainly not seen.
func (e *Endpoint) notSentError(problem, hint string, err error) *HTTPError {
	if hostlimit.Reached(err) {
		hint = hostlimit.Hint
	}
	return &HTTPError{Message: display.Shorten(e.CleanText(problem), transport.MaxErrorText), Hint: hint, Err: e.CleanError(err),
		Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, CauseKind: supervisor.CauseSpawn}
}

// isDeadline reports whether a context ended because its time was up.
func isDeadline(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// CleanText makes a server's text safe to show: one line, without control characters and
// without the secrets of the endpoint. Servers often repeat the token that they reject.
func (e *Endpoint) CleanText(text string) string { return display.Line(e.Redact(text)) }

// Redact removes secrets from a text: those of the ServerSpec, those of the address for
// POSTs, and those of the authorizer.
func (e *Endpoint) Redact(text string) string {
	text = e.secrets.Replace(text)
	if p := e.postURL.Load(); p != nil {
		text = p.secrets.Replace(text)
	}
	if e.Auth != nil {
		text = e.Auth.Redact(text)
	}
	return text
}

// CleanError removes the secrets of the endpoint from the text of an error. An error
// whose text contains no secret is returned unchanged.
func (e *Endpoint) CleanError(err error) error { return redact.Redactor(e.Redact).Error(err) }

// CleanJSON removes the secrets of the endpoint from a JSON value.
func (e *Endpoint) CleanJSON(raw json.RawMessage) json.RawMessage {
	return redact.Redactor(e.Redact).JSON(raw)
}

// endpointSecrets makes a Replacer for what must not be shown: user, password and query
// of the URL, the tokens in its path, the values of the headers, and secrets.
func endpointSecrets(u *url.URL, headers map[string]string, secrets ...string) *strings.Replacer {
	var found secret.List
	found.Add(secrets...)
	found.AddEndpoint(u)
	for name, value := range headers {
		found.AddHeader(name, value)
	}
	return found.Replacer()
}

// basicToken returns the credential of the Basic scheme (RFC 7617).
func basicToken(name, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(name + ":" + password))
}

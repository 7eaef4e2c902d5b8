package mcpvisor

import (
	"fmt"
	"strings"
	"time"
)

// Error is the error type of the client's operations. Its text says what was
// attempted, what failed and why, whether the request was sent, and what to do:
//
//	call fs/list_directory: server crashed: server process ended with exit status 1; stderr: out of memory; outcome unknown
//
// It is one line. It contains the lines of Stderr, which are the server's own text;
// secrets of the specification in them are replaced by ***.
//
// errors.Is matches the sentinel of its Kind, errors.As finds what Cause wraps. An
// Error that was returned is never changed; several callers may share one.
type Error struct {
	// Server is the name of the server that the error is about; empty if it is about
	// none. If no tool of a requested name or alias is known, it is the text before the
	// "/", or the whole name if that has no "/".
	Server string
	// Gen numbers the registration and Epoch the incarnation that the error is about. Each
	// is 0 if the operation failed before it reached one, as with ErrUnknownServer.
	Gen   uint64
	Epoch uint64
	// Op is what was attempted, as in "call fs/list_directory" or "register fs".
	Op string
	// Kind classifies the error.
	Kind ErrorKind
	// Outcome says whether the request reached the server.
	Outcome Outcome
	// RetryAfter is how long to wait before another attempt is worthwhile. 0 means that
	// waiting does not help or that the time is not known; if Retryable is true, choose a
	// pause of your own then.
	RetryAfter time.Duration
	// Hint says what to do about it; may be empty.
	Hint string
	// Cause is the underlying error; may be nil.
	Cause error
	// Stderr holds the first and last lines that the server's process wrote to stderr
	// before it ended. Error includes them.
	Stderr []string
}

// Outcome says what is known about a request that ended in an error.
type Outcome string

const (
	// OutcomeNone: the operation is not a request to the server, such as Register, Restart,
	// Unregister and Authorize. Their errors may also have OutcomeNotSent.
	OutcomeNone Outcome = ""
	// OutcomeNotSent: the server has not seen the request. Repeating it is safe.
	OutcomeNotSent Outcome = "not_sent"
	// OutcomeUnknown: the request was sent, at least in part. Whether it had an effect
	// is not known. Repeat it only if executing it twice does no harm.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeAnswered: the server answered, and the error is its answer or about it.
	OutcomeAnswered Outcome = "answered"
)

// Error implements error. The text is one line: Op, the text of the kind's sentinel,
// Cause, Stderr, Outcome, RetryAfter and Hint, as far as they are set.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	what := string(e.Kind)
	if s := sentinels[e.Kind]; s != nil {
		what = s.Error()
	}
	b.WriteString(what)
	if e.Cause != nil {
		text := e.Cause.Error()
		if e.Kind == KindInvalid { // Validate joins several problems, one per line
			text = strings.ReplaceAll(text, "\n", "; ")
		}
		b.WriteString(": " + text)
	}
	if len(e.Stderr) > 0 {
		fmt.Fprintf(&b, "; stderr: %s", strings.Join(e.Stderr, " | "))
	}
	switch e.Outcome {
	case OutcomeUnknown:
		b.WriteString("; outcome unknown")
	case OutcomeNotSent:
		b.WriteString("; nothing was sent")
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; retry in %v", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Is reports whether target is the sentinel of the error's kind.
func (e *Error) Is(target error) bool { return target != nil && sentinels[e.Kind] == target }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Retryable reports whether the same request may succeed later and is safe to repeat:
// the cause may pass, and nothing was sent. Wait for RetryAfter first. It is false for
// KindCanceled, because a request repeated with the same context fails the same way.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case KindUnavailable, KindOverloaded, KindCrashed, KindTimeout, KindStart:
		return e.Outcome == OutcomeNotSent
	}
	return false
}

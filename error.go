package mcpvisor

import (
	"fmt"
	"strings"
	"time"
)

// Error is the error type of the client's operations. Its text says what was
// attempted, what failed and why, whether the request was sent, and what to do:
//
//	call fs/list_directory: server crashed: exit status 1; outcome unknown
//
// errors.Is matches the sentinel of its Kind, errors.As finds what Cause wraps. An
// Error that was returned is never changed; several callers may share one.
type Error struct {
	// Server, Gen and Epoch name the server, the registration and the incarnation that
	// the error is about; zero where there was none.
	Server string
	Gen    uint64
	Epoch  uint64
	// Op is what was attempted, as in "call fs/list_directory" or "register fs".
	Op string
	// Kind classifies the error.
	Kind ErrorKind
	// Outcome says whether the request reached the server.
	Outcome Outcome
	// RetryAfter is how long to wait before another attempt is worthwhile; 0 if waiting
	// does not help, or if that is not known.
	RetryAfter time.Duration
	// Hint says what to do about it; may be empty.
	Hint string
	// Cause is the underlying error; may be nil.
	Cause error
	// Stderr holds the first and last lines that the server's process wrote to stderr.
	Stderr []string
}

// Outcome says what is known about a request that ended in an error.
type Outcome string

const (
	// OutcomeNone: the error is not about a request.
	OutcomeNone Outcome = ""
	// OutcomeNotSent: the server has not seen the request. Repeating it is safe.
	OutcomeNotSent Outcome = "not_sent"
	// OutcomeUnknown: the request was sent, at least in part. Whether it had an effect
	// is not known. Repeat it only if executing it twice does no harm.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeAnswered: the server answered, and the error is its answer or about it.
	OutcomeAnswered Outcome = "answered"
)

// Error implements error.
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
// the cause may pass, and nothing was sent.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case KindUnavailable, KindOverloaded, KindCrashed, KindCanceled, KindTimeout, KindStart:
		return e.Outcome == OutcomeNotSent
	}
	return false
}

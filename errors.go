package mcpvisor

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrorKind classifies an [Error]. Each kind has a sentinel for errors.Is.
type ErrorKind string

const (
	// KindUnknownServer: no server of that name is registered. Hint may name near ones.
	KindUnknownServer ErrorKind = "unknown_server"
	// KindUnknownTool: the server is ready and has no such tool, or ServerSpec.Tools
	// hides it, as Cause says. Hint may name near ones.
	KindUnknownTool ErrorKind = "unknown_tool"
	// KindUnavailable: the server is not ready now but may be again; RetryAfter
	// says when it is worth asking.
	KindUnavailable ErrorKind = "unavailable"
	// KindCrashed: the session ended while the call was under way.
	KindCrashed ErrorKind = "crashed"
	// KindEvicted: the server was given up; Restart brings it back, and Register
	// replaces it.
	KindEvicted ErrorKind = "evicted"
	// KindTimeout: the call's own clock ran out. A deadline of the caller's
	// context shows as KindCanceled.
	KindTimeout ErrorKind = "timeout"
	// KindCanceled: the caller's context ended. Cause wraps the context's error.
	KindCanceled ErrorKind = "canceled"
	// KindOverloaded: too many calls are under way on this server.
	KindOverloaded ErrorKind = "overloaded"
	// KindClosed: the client is closed, or the server was unregistered meanwhile.
	KindClosed ErrorKind = "closed"
	// KindProtocol: the server's answer was no valid answer.
	KindProtocol ErrorKind = "protocol"
	// KindRPC: the server answered with a JSON-RPC error; errors.As finds the
	// *jsonrpc.Error with code and data.
	KindRPC ErrorKind = "rpc"
	// KindAuthRequired: the server wants credentials, or refused ours.
	KindAuthRequired ErrorKind = "auth_required"
	// KindInvalid: the arguments or the specification cannot work as given.
	KindInvalid ErrorKind = "invalid"
	// KindInputRequired: the server wanted input in the midst of a request, and
	// did not get it: nobody gives such input here, or whoever does has failed.
	KindInputRequired ErrorKind = "input_required"
	// KindExists: a server of that name is registered already, and not evicted.
	KindExists ErrorKind = "exists"
	// KindLeftBehind: the server was removed, and what it had started could not all be
	// ended: a process that may not be killed, or one that could not be looked for.
	// Cause names what is left.
	KindLeftBehind ErrorKind = "left_behind"
	// KindStart: the server could not be started, connected or initialized.
	KindStart ErrorKind = "start"
)

// Outcome says what is known about a request that ended in an error.
type Outcome string

const (
	// OutcomeNone: the error answers no request.
	OutcomeNone Outcome = ""
	// OutcomeNotSent: the server has not seen the request. Repeating it is safe.
	OutcomeNotSent Outcome = "not_sent"
	// OutcomeUnknown: the request, or part of it, left; whether it had an effect is not
	// known. Repeat it only if that does no harm.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeAnswered: the server answered, and the answer is the error.
	OutcomeAnswered Outcome = "answered"
)

// Sentinels for errors.Is, one for each [ErrorKind].
var (
	ErrUnknownServer = errors.New("unknown server")
	ErrUnknownTool   = errors.New("unknown tool")
	ErrUnavailable   = errors.New("server unavailable")
	ErrCrashed       = errors.New("server crashed")
	ErrEvicted       = errors.New("server evicted")
	ErrTimeout       = errors.New("timed out")
	ErrCanceled      = errors.New("canceled")
	ErrOverloaded    = errors.New("too many calls in flight")
	ErrClosed        = errors.New("closed")
	ErrProtocol      = errors.New("protocol error")
	ErrRPC           = errors.New("server answered with an error")
	ErrAuthRequired  = errors.New("authorization required")
	ErrInvalid       = errors.New("invalid")
	ErrInputRequired = errors.New("input required")
	ErrExists        = errors.New("already registered")
	ErrLeftBehind    = errors.New("something of the server is left behind")
	ErrStart         = errors.New("server did not start")
)

var sentinels = map[ErrorKind]error{
	KindUnknownServer: ErrUnknownServer,
	KindUnknownTool:   ErrUnknownTool,
	KindUnavailable:   ErrUnavailable,
	KindCrashed:       ErrCrashed,
	KindEvicted:       ErrEvicted,
	KindTimeout:       ErrTimeout,
	KindCanceled:      ErrCanceled,
	KindOverloaded:    ErrOverloaded,
	KindClosed:        ErrClosed,
	KindProtocol:      ErrProtocol,
	KindRPC:           ErrRPC,
	KindAuthRequired:  ErrAuthRequired,
	KindInvalid:       ErrInvalid,
	KindInputRequired: ErrInputRequired,
	KindExists:        ErrExists,
	KindLeftBehind:    ErrLeftBehind,
	KindStart:         ErrStart,
}

// ErrorKinds lists every kind.
func ErrorKinds() []ErrorKind {
	kinds := make([]ErrorKind, 0, len(sentinels))
	for k := range sentinels {
		kinds = append(kinds, k)
	}
	return kinds
}

// Error is the one error type of mcpvisor. Its message begins with what was
// attempted and ends with what can be done.
type Error struct {
	// Server, Gen and Epoch say which registration and incarnation the error
	// belongs to; zero where there was none.
	Server string
	Gen    uint64
	Epoch  uint64
	// Op is what was attempted: "call fs/list_directory", "register fs".
	Op string
	// Kind classifies the error; errors.Is matches its sentinel.
	Kind ErrorKind
	// Outcome says whether the request reached the server.
	Outcome Outcome
	// RetryAfter is how long to wait before it is worth trying again; 0 if
	// waiting does not help or nothing is known.
	RetryAfter time.Duration
	// Hint says what to do about it.
	Hint string
	// Cause is the underlying error, found by errors.Is and errors.As.
	Cause error
	// Stderr holds the last lines that the server's process wrote to stderr.
	Stderr []string
}

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
		if e.Kind == KindInvalid { // several faults of one value
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

// Retryable reports whether the same request may succeed later and is safe to
// repeat as it stands: it had no effect.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case KindUnavailable, KindOverloaded, KindCrashed, KindCanceled, KindTimeout, KindStart:
		return e.Outcome == OutcomeNotSent
	}
	return false
}

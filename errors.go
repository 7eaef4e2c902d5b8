package mcpvisor

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error is the error type of the client's operations. Its text says what was
// attempted, what failed and why, whether the request was sent, and what to do:
//
//	call fs/list_directory: server crashed: out of memory (exit status 1); outcome unknown
//
// It is one line. It includes the lines of Stderr, which are the server's own text; *** replaces
// the secrets of the specification in them.
//
// errors.Is matches the sentinel of its Kind, errors.As finds what Cause wraps. Do not change an
// Error: several callers may share one.
type Error struct {
	// Server is the name of the server that the error is about; empty if it is about none. For a
	// tool that is not known it is the part of the requested name before the "/", or the whole
	// name if it has no "/".
	Server string
	// Gen numbers the registration and Epoch the incarnation that the error is about. Each
	// is 0 if the operation failed before it reached one, as with ErrUnknownServer.
	Gen   uint64
	Epoch uint64
	// Op names the attempted operation, as in "call fs/list_directory" or "register fs".
	Op string
	// Kind classifies the error.
	Kind ErrorKind
	// Outcome says whether the request reached the server.
	Outcome Outcome
	// RetryAfter is how long to wait before another attempt is worthwhile. 0: waiting does not
	// help, or the time is not known. If Retryable is true, choose a pause of your own.
	RetryAfter time.Duration
	// Hint says what to do about it; may be empty.
	Hint string
	// Cause is the underlying error; may be nil.
	Cause error
	// Stderr holds the first and last lines that the server's process wrote to stderr
	// before it ended. Error includes them. If one says why it ended, Cause begins with it.
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
	// OutcomeUnknown: the server may have the request. All or a part of it was sent, perhaps only
	// as part of one write of several requests. Whether it had an effect is not known. Repeat it
	// only if executing it twice does no harm.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeAnswered: the server answered, and the error is its answer or about it.
	OutcomeAnswered Outcome = "answered"
)

// Error implements error. The text is one line: Op, the text of the kind's sentinel, Outcome,
// Cause, RetryAfter, Hint and Stderr, as far as they are set.
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
	switch e.Outcome {
	case OutcomeUnknown:
		b.WriteString("; outcome unknown")
	case OutcomeNotSent:
		b.WriteString("; nothing was sent")
	default:
	}
	if e.Cause != nil {
		text := e.Cause.Error()
		if e.Kind == ErrInvalid { // Validate joins several problems, one per line
			text = strings.ReplaceAll(text, "\n", "; ")
		}
		b.WriteString(": " + text)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; retry in %v", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	if len(e.Stderr) > 1 || len(e.Stderr) == 1 && !strings.Contains(b.String(), e.Stderr[0]) {
		fmt.Fprintf(&b, "; stderr: %s", strings.Join(e.Stderr, " | "))
	}
	return b.String()
}

// Is reports whether target is the sentinel of the error's kind.
func (e *Error) Is(target error) bool { return target != nil && sentinels[e.Kind] == target }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Retryable reports whether the same request may succeed later and is safe to repeat: nothing was
// sent, and the cause may be temporary. Wait for RetryAfter first. It is false for ErrCanceled,
// because the same context would fail the repeated request, too.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case ErrUnavailable, ErrOverloaded, ErrCrashed, ErrEnded, ErrTimeout, ErrStart:
		return e.Outcome == OutcomeNotSent
	default:
	}
	return false
}

// ErrorKind classifies an [Error]. Each kind has a sentinel for errors.Is, as
// [ErrCrashed] for ErrCrashed.
type ErrorKind string

const (
	// ErrUnknownServer: no server of that name is registered. Hint suggests similar
	// names.
	ErrUnknownServer ErrorKind = "unknown_server"
	// ErrUnknownTool: the server lists no such tool. Or the name has neither the form
	// "server/tool" nor that of a known alias. Or ServerSpec.Tools hides the tool; then Cause says
	// so. Hint suggests similar names. While a server is down its tools are not known, so a call of
	// any name fails with ErrUnavailable; only in the first moment after a crash its last list may
	// still be used.
	ErrUnknownTool ErrorKind = "unknown_tool"
	// ErrUnavailable: the server is not ready, or cannot be reached now, but may be later.
	// RetryAfter says when to try again; 0 if that is not known. Usually nothing was sent;
	// over HTTP the server may have the request, so look at Outcome.
	ErrUnavailable ErrorKind = "unavailable"
	// ErrCrashed: the session ended while the call was in flight. Cause is a
	// *supervisor.Cause. If nothing of the call was sent, the kind is ErrUnavailable.
	ErrCrashed ErrorKind = "crashed"
	// ErrEnded: as ErrCrashed, but nothing crashed: the server was restarted on request, moved to another
	// node of a fleet, or was fenced.
	ErrEnded ErrorKind = "ended"
	// ErrEvicted: the server was given up after its policy's last attempt, or for a
	// permanent cause; then Restart brings it back. Or it was fenced (facade.Client.Fence). Register
	// replaces it in either case.
	ErrEvicted ErrorKind = "evicted"
	// ErrTimeout: a timeout of the call ended it (facade.WithTimeout,
	// facade.WithDefaultCallTimeout, Timeouts.Call or Timeouts.CallTotal). A deadline of
	// the caller's context gives ErrCanceled.
	ErrTimeout ErrorKind = "timeout"
	// ErrCanceled: the caller's context ended, or an operator canceled the call. Cause wraps the context's error, and
	// context.Canceled for an operator.
	ErrCanceled ErrorKind = "canceled"
	// ErrOverloaded: Limits.MaxInFlight calls are in flight on this server and
	// Limits.MaxQueued are waiting; nothing was sent then. Or a large result found no room
	// in Limits.MaxBufferBytes; Outcome is OutcomeAnswered then, and the tool has run.
	ErrOverloaded ErrorKind = "overloaded"
	// ErrClosed: the client is closed, or the server was unregistered meanwhile.
	ErrClosed ErrorKind = "closed"
	// ErrProtocol: the server answered with something that is not a valid answer, or
	// exceeds a limit; or the connection to a server over HTTP broke before the answer
	// came, and the server still lives.
	ErrProtocol ErrorKind = "protocol"
	// ErrRPC: the server answered the request with a JSON-RPC error. errors.As finds the
	// *jsonrpc.Error of the go-sdk with its code and data. A server may send an error that names no
	// request. If only one request is in flight, that request fails with it, and Outcome is
	// OutcomeUnknown.
	ErrRPC ErrorKind = "rpc"
	// ErrAuthRequired: the server requires credentials, or rejected those that it got.
	// errors.As finds an [AuthRequired] if the user can authorize the client.
	ErrAuthRequired ErrorKind = "auth_required"
	// ErrInvalid: the arguments, options or specification cannot work as given.
	ErrInvalid ErrorKind = "invalid"
	// ErrInputRequired: the server asked for input in the course of a request
	// (elicitation, sampling, roots) and did not get it: the client has no handler for
	// it, or the handler failed.
	ErrInputRequired ErrorKind = "input_required"
	// ErrExists: a server of that name is registered and not evicted, or is still being
	// removed.
	ErrExists ErrorKind = "exists"
	// ErrLeftBehind: the server was removed, but processes that it started could not
	// be ended, or could not be searched for. Cause names them.
	ErrLeftBehind ErrorKind = "left_behind"
	// ErrStart: the server could not be started, connected or initialized, or did not
	// list what it offers in time. Cause is a *supervisor.Cause.
	ErrStart ErrorKind = "start"
	// ErrInterrupted: the call has a key, and was sent before the host ended. Its outcome is
	// unknown, and it is not sent again.
	ErrInterrupted ErrorKind = "interrupted"
	// ErrJournal: the journal of calls with a key could not be read or written. Nothing was sent.
	ErrJournal ErrorKind = "journal"
	// ErrDenied: a [CallGuard] did not permit the call, as package rules does by a rule or a person, or a
	// [CatalogGuard] withholds the prompt. Nothing was sent.
	ErrDenied ErrorKind = "denied"
)

// Sentinels for errors.Is, one for each [ErrorKind]. An [Error] matches that of its Kind.
var (
	// ErrUnknownServer: no server of that name is registered.
	ErrUnknownServer = errors.New("unknown server")
	// ErrUnknownTool: the server has no such tool, or hides it.
	ErrUnknownTool = errors.New("unknown tool")
	// ErrUnavailable: the server is not ready, or cannot be reached now, but may be later.
	ErrUnavailable = errors.New("server unavailable")
	// ErrCrashed: the session ended while the call was in flight.
	ErrCrashed = errors.New("server crashed")
	// ErrEnded: the session was ended on request while the call was in flight.
	ErrEnded = errors.New("server ended on request")
	// ErrEvicted: the server was given up, or fenced.
	ErrEvicted = errors.New("server evicted")
	// ErrTimeout: a timeout of the call ended it.
	ErrTimeout = errors.New("timed out")
	// ErrCanceled: the caller's context ended.
	ErrCanceled = errors.New("canceled")
	// ErrOverloaded: too many calls are in flight and waiting, or a large result found no
	// room in Limits.MaxBufferBytes.
	ErrOverloaded = errors.New("too many calls in flight")
	// ErrClosed: the client is closed, or the server was unregistered.
	ErrClosed = errors.New("closed")
	// ErrProtocol: the server's answer is not a valid answer, or exceeds a limit.
	ErrProtocol = errors.New("protocol error")
	// ErrRPC: the server answered with a JSON-RPC error.
	ErrRPC = errors.New("server answered with an error")
	// ErrAuthRequired: the server requires credentials, or rejected those that it got.
	ErrAuthRequired = errors.New("authorization required")
	// ErrInvalid: the arguments, options or specification cannot work as given.
	ErrInvalid = errors.New("invalid")
	// ErrInputRequired: the server asked for input in the course of a call and did not
	// get it.
	ErrInputRequired = errors.New("input required")
	// ErrExists: the name is taken.
	ErrExists = errors.New("already registered")
	// ErrLeftBehind: the server was removed, but processes of it may still run.
	ErrLeftBehind = errors.New("something of the server is left behind")
	// ErrStart: the server could not be started, connected or initialized.
	ErrStart = errors.New("server did not start")
	// ErrInterrupted: the host ended after it had sent the call, and before it had the answer.
	ErrInterrupted = errors.New("interrupted by the end of the host")
	// ErrJournal: the journal of calls with a key could not be read or written.
	ErrJournal = errors.New("the journal of calls failed")
	// ErrDenied: a guard did not permit the call.
	ErrDenied = errors.New("not permitted")
)

var sentinels = map[ErrorKind]error{
	ErrUnknownServer: ErrUnknownServer,
	ErrUnknownTool:   ErrUnknownTool,
	ErrUnavailable:   ErrUnavailable,
	ErrCrashed:       ErrCrashed,
	ErrEnded:         ErrEnded,
	ErrEvicted:       ErrEvicted,
	ErrTimeout:       ErrTimeout,
	ErrCanceled:      ErrCanceled,
	ErrOverloaded:    ErrOverloaded,
	ErrClosed:        ErrClosed,
	ErrProtocol:      ErrProtocol,
	ErrRPC:           ErrRPC,
	ErrAuthRequired:  ErrAuthRequired,
	ErrInvalid:       ErrInvalid,
	ErrInputRequired: ErrInputRequired,
	ErrExists:        ErrExists,
	ErrLeftBehind:    ErrLeftBehind,
	ErrStart:         ErrStart,
	ErrInterrupted:   ErrInterrupted,
	ErrJournal:       ErrJournal,
	ErrDenied:        ErrDenied,
}

// ErrorKinds lists every kind, in no particular order. The slice is the caller's.
func ErrorKinds() []ErrorKind {
	kinds := make([]ErrorKind, 0, len(sentinels))
	for k := range sentinels {
		kinds = append(kinds, k)
	}
	return kinds
}

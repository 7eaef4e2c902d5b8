package mcpvisor

import "errors"

// ErrorKind classifies an [Error]. Each kind has a sentinel for errors.Is, as
// [ErrCrashed] for KindCrashed.
type ErrorKind string

const (
	// KindUnknownServer: no server of that name is registered. Hint suggests similar
	// names.
	KindUnknownServer ErrorKind = "unknown_server"
	// KindUnknownTool: the server lists no such tool, or the name has neither the form
	// "server/tool" nor that of a known alias, or ServerSpec.Tools hides the tool, as
	// Cause then says. Hint suggests similar names. While a server is down its tools are
	// not known, and any name gives KindUnavailable; in the first moment after a crash its
	// last list may still count.
	KindUnknownTool ErrorKind = "unknown_tool"
	// KindUnavailable: the server is not ready, or cannot be reached now, but may be later.
	// RetryAfter says when to try again; 0 if that is not known. Usually nothing was sent;
	// over HTTP the server may have the request, so look at Outcome.
	KindUnavailable ErrorKind = "unavailable"
	// KindCrashed: the session ended while the call was in flight. Cause is a
	// *supervisor.Cause.
	KindCrashed ErrorKind = "crashed"
	// KindEvicted: the server was given up after its policy's last attempt, or for a
	// permanent cause. Restart brings it back, and Register replaces it.
	KindEvicted ErrorKind = "evicted"
	// KindTimeout: a timeout of the call ended it (facade.WithTimeout,
	// facade.WithDefaultCallTimeout, Timeouts.Call or Timeouts.CallTotal). A deadline of
	// the caller's context gives KindCanceled.
	KindTimeout ErrorKind = "timeout"
	// KindCanceled: the caller's context ended. Cause wraps the context's error.
	KindCanceled ErrorKind = "canceled"
	// KindOverloaded: Limits.MaxInFlight calls are in flight on this server and
	// Limits.MaxQueued are waiting; nothing was sent then. Or a large result found no room
	// in Limits.MaxBufferBytes; Outcome is OutcomeAnswered then, and the tool has run.
	KindOverloaded ErrorKind = "overloaded"
	// KindClosed: the client is closed, or the server was unregistered meanwhile.
	KindClosed ErrorKind = "closed"
	// KindProtocol: the server answered with something that is not a valid answer, or
	// exceeds a limit; or the connection to a server over HTTP broke before the answer
	// came, and the server still lives.
	KindProtocol ErrorKind = "protocol"
	// KindRPC: the server answered the request with a JSON-RPC error. errors.As finds the
	// *jsonrpc.Error of the go-sdk with its code and data.
	KindRPC ErrorKind = "rpc"
	// KindAuthRequired: the server requires credentials, or rejected those that it got.
	// errors.As finds an [AuthRequired] if the user can authorize the client.
	KindAuthRequired ErrorKind = "auth_required"
	// KindInvalid: the arguments, options or specification cannot work as given.
	KindInvalid ErrorKind = "invalid"
	// KindInputRequired: the server asked for input in the course of a request
	// (elicitation, sampling, roots) and did not get it: the client has no handler for
	// it, or the handler failed.
	KindInputRequired ErrorKind = "input_required"
	// KindExists: a server of that name is registered and not evicted, or is still being
	// removed.
	KindExists ErrorKind = "exists"
	// KindLeftBehind: the server was removed, but processes that it started could not
	// be ended, or could not be searched for. Cause names them.
	KindLeftBehind ErrorKind = "left_behind"
	// KindStart: the server could not be started, connected or initialized, or did not
	// list what it offers in time. Cause is a *supervisor.Cause.
	KindStart ErrorKind = "start"
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
	// ErrEvicted: the server was given up. Restart brings it back.
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

// ErrorKinds lists every kind, in no particular order. The slice is the caller's.
func ErrorKinds() []ErrorKind {
	kinds := make([]ErrorKind, 0, len(sentinels))
	for k := range sentinels {
		kinds = append(kinds, k)
	}
	return kinds
}

package mcpvisor

import "errors"

// ErrorKind classifies an [Error]. Each kind has a sentinel for errors.Is, as
// [ErrCrashed] for KindCrashed.
type ErrorKind string

const (
	// KindUnknownServer: no server of that name is registered. Hint suggests similar
	// names.
	KindUnknownServer ErrorKind = "unknown_server"
	// KindUnknownTool: the server is ready and has no such tool, or ServerSpec.Tools
	// hides it, as Cause then says. Hint suggests similar names.
	KindUnknownTool ErrorKind = "unknown_tool"
	// KindUnavailable: the server is not ready now, but may be later. RetryAfter says
	// when to try again.
	KindUnavailable ErrorKind = "unavailable"
	// KindCrashed: the session ended while the call was in flight. Cause is a
	// *supervisor.Cause.
	KindCrashed ErrorKind = "crashed"
	// KindEvicted: the server was given up after its policy's last attempt, or for a
	// permanent cause. Restart brings it back, and Register replaces it.
	KindEvicted ErrorKind = "evicted"
	// KindTimeout: a timeout of the call ended it (facade.WithTimeout, Timeouts.Call or
	// Timeouts.CallTotal). A deadline of the caller's context gives KindCanceled.
	KindTimeout ErrorKind = "timeout"
	// KindCanceled: the caller's context ended. Cause wraps the context's error.
	KindCanceled ErrorKind = "canceled"
	// KindOverloaded: Limits.MaxInFlight calls are in flight on this server and
	// Limits.MaxQueued are waiting, or a large result has found no room in memory.
	KindOverloaded ErrorKind = "overloaded"
	// KindClosed: the client is closed, or the server was unregistered meanwhile.
	KindClosed ErrorKind = "closed"
	// KindProtocol: the server answered with something that is not a valid answer, or
	// exceeds a limit.
	KindProtocol ErrorKind = "protocol"
	// KindRPC: the server answered with a JSON-RPC error. errors.As finds the
	// *jsonrpc.Error with its code and data.
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
	// KindExists: a server of that name is registered already, and not evicted.
	KindExists ErrorKind = "exists"
	// KindLeftBehind: the server was removed, but processes that it started could not
	// be ended or not be looked for. Cause names them.
	KindLeftBehind ErrorKind = "left_behind"
	// KindStart: the server could not be started, connected or initialized.
	KindStart ErrorKind = "start"
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

// ErrorKinds lists every kind, in no particular order. The slice is the caller's.
func ErrorKinds() []ErrorKind {
	kinds := make([]ErrorKind, 0, len(sentinels))
	for k := range sentinels {
		kinds = append(kinds, k)
	}
	return kinds
}

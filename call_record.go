package mcpvisor

import "time"

// CallRecord is a request of a caller that has ended: a tool call, a read of a resource,
// a prompt or a completion. A client keeps the last [RecentCallsLimit] of them.
type CallRecord struct {
	// Seq numbers the records of a client, from 1, in the order in which the calls ended.
	Seq uint64 `json:"seq"`
	// Server is the name of the server, Gen the registration and Epoch the incarnation.
	// Epoch is 0 if the call reached no incarnation.
	Server string `json:"server"`
	Gen    uint64 `json:"gen"`
	Epoch  uint64 `json:"epoch,omitempty"`
	// Method is the JSON-RPC method, as in "tools/call".
	Method string `json:"method"`
	// Target is the server's own name of the tool or prompt, or the URI of the resource;
	// empty for completions. It is one line, cut at [MaxTargetBytes], with *** for the user,
	// the values of the query and the fragment of a URI.
	Target string `json:"target,omitempty"`
	// Began is when the call was made. Took is how long it took until its answer was
	// received, its wait in the queue included; waiting with facade.WithWaitReady counts
	// in neither.
	Began time.Time     `json:"began"`
	Took  time.Duration `json:"tookNs"`
	// Kind is the kind of the error, and Outcome says whether the server has seen the
	// request. Both are empty if the call did not fail.
	Kind    ErrorKind `json:"kind,omitempty"`
	Outcome Outcome   `json:"outcome,omitempty"`
	// ToolError: the tool ran and failed by itself (a result with isError).
	ToolError bool `json:"toolError,omitempty"`
	// ResultBytes is the length of the result as the server sent it.
	ResultBytes int `json:"resultBytes,omitempty"`
}

const (
	// RecentCallsLimit is how many ended calls a client keeps.
	RecentCallsLimit = 500
	// UnknownCallsLimit is how many calls of unknown outcome a client keeps, beside those of
	// RecentCallsLimit.
	UnknownCallsLimit = 100
	// RecentEventsLimit is how many events about the life of servers a client keeps, and
	// how many that servers sent (EventLog, EventResourceUpdated).
	RecentEventsLimit = 1000
	// MaxTargetBytes is the longest Target of a CallRecord or a CallInFlight, in bytes.
	MaxTargetBytes = 256
	// MaxToolStats is how many tools of all servers of a client together have statistics
	// of their own. Further ones share one entry for each server, [OtherTools].
	MaxToolStats = 1000
)

// OtherTools is the Name and the OriginalName in the [ToolStats] of tools beyond
// [MaxToolStats].
const OtherTools = "_other"

// CallInFlight is a request that has not ended. Requests that the client makes by itself,
// such as tools/list and ping, are included.
type CallInFlight struct {
	// Server is the name of the server, Gen the registration and Epoch the incarnation.
	Server string `json:"server"`
	Gen    uint64 `json:"gen"`
	Epoch  uint64 `json:"epoch"`
	// Method is the JSON-RPC method, as in "tools/call".
	Method string `json:"method"`
	// Target is the name of the tool or prompt, or the URI of the resource; empty for
	// other methods. It is shown as in a [CallRecord].
	Target string `json:"target,omitempty"`
	// Began is when the request was made. Its age is time.Since(Began).
	Began time.Time `json:"began"`
	// Queued: it waits behind Limits.MaxInFlight, and nothing was sent.
	Queued bool `json:"queued,omitempty"`
}

// ToolStats counts the calls of one tool since its server was registered, over all its
// incarnations. Only tools that the server lists are counted by name.
type ToolStats struct {
	// Server is the name of the server.
	Server string `json:"server"`
	// Name is the qualified name, as in "fs/list_directory", OriginalName the server's
	// own. Both are [OtherTools] for tools beyond [MaxToolStats].
	Name         string `json:"name"`
	OriginalName string `json:"originalName"`
	// Calls counts the calls that were sent and have ended, whatever their outcome.
	Calls int64 `json:"calls"`
	// ToolErrors counts those of Calls whose result has isError: the tool failed by itself.
	ToolErrors int64 `json:"toolErrors,omitempty"`
	// Failed counts those of Calls that ended in an [Error], by its kind. It is nil if
	// none did.
	Failed map[ErrorKind]int64 `json:"failed,omitempty"`
	// Unknown counts those of Failed that the server may have executed (OutcomeUnknown).
	Unknown int64 `json:"unknown,omitempty"`
	// Refused counts calls that failed before anything was sent. Calls does not have them.
	Refused int64 `json:"refused,omitempty"`
	// Duration has the durations of Calls, as CallRecord.Took.
	Duration Histogram `json:"duration"`
}

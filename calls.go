package mcpvisor

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/latency"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// CallRecord is a request of a caller that has ended: a tool call, a read of a resource,
// a prompt or a completion. A client keeps the last 500 of them.
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
	// Target is the server's own name of the tool or prompt, or the URI of the resource; empty
	// for completions. It is one line of at most 256 bytes. In a URI, *** replaces the user, the
	// query values and the fragment.
	Target string `json:"target,omitempty"`
	// Client is the name of the client that the call was made for; relay.WithClientName sets it. It is one line of
	// at most 256 bytes, and was said by the client. Empty: for the host itself.
	Client string `json:"client,omitempty"`
	// Began is when the call was sent or queued, after any wait of facade.WithWaitReady. Took is
	// the time from Began until the answer was received, including the wait in the queue.
	Began time.Time     `json:"began"`
	Took  time.Duration `json:"tookNs"`
	// Kind is the kind of the error, and Outcome says whether the server has seen the
	// request. Both are empty if the call did not fail.
	Kind    ErrorKind `json:"kind,omitempty"`
	Outcome Outcome   `json:"outcome,omitempty"`
	// ToolError: the tool ran and failed by itself (a result with isError).
	ToolError bool `json:"toolError,omitempty"`
	// Error says why the call failed; with ToolError it is the first text of the result. It is one
	// line of at most 300 bytes, without the secrets of the specification. Arguments are not kept.
	Error string `json:"error,omitempty"`
	// ResultBytes is the length of the result as the server sent it.
	ResultBytes int `json:"resultBytes,omitempty"`
}

// OtherTools is the Name and the OriginalName in the [ToolStats] that count all tools beyond the
// first 1000 of a client together.
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

// OpenTask is a tool call that its server executes as a task (MCP, tasks) and that has not ended.
// It does not hold the id of the task, which is a secret.
type OpenTask struct {
	// Number numbers the tasks of a client, from 1, in the order in which it learned of them.
	Number uint64 `json:"number"`
	// Principal and Key are those of the call in the [Journal]; both are empty if it has no key.
	Principal string `json:"principal,omitempty"`
	Key       string `json:"key,omitempty"`
	// Server is the name of the server, and Tool the server's own name of the tool.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// State is the last one that the server reported: "working" or "input_required". Message is its text
	// for users; it may be empty.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Began is when the call was made, and Updated when State or Message changed last.
	Began   time.Time `json:"began"`
	Updated time.Time `json:"updated"`
	// Recovered counts the later incarnations of the server in which the task was found again.
	Recovered int `json:"recovered,omitempty"`
}

// JournalKey returns the key of the call; the zero JournalKey if it has none.
func (t *OpenTask) JournalKey() JournalKey { return JournalKey{t.Principal, t.Key} }

// ToolStats counts the calls of one tool since its server was registered, over all its
// incarnations. Only tools that the server lists are counted by name.
type ToolStats struct {
	// Server is the name of the server.
	Server string `json:"server"`
	// Name is the qualified name, as in "fs/list_directory", OriginalName the server's
	// own. Both are [OtherTools] for tools beyond the first 1000 of a
	// client.
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
	// Refused counts calls that failed before anything was sent. They are not included in Calls.
	Refused int64 `json:"refused,omitempty"`
	// Duration has the durations of Calls, as CallRecord.Took.
	Duration Histogram `json:"duration"`
}

// Observer sees each request of a client at its start and at its end, for traces and
// metrics. Set it with facade.WithObserver.
//
// These requests are observed: what callers ask for (tools/call, resources/read, prompts/get,
// completion/complete), one pair for each call of the Client, however many attempts, round trips
// and waits it takes; the pages of the lists that the client reads by itself (tools/list and
// others); and, with Incoming, what servers ask for (sampling/createMessage, elicitation/create,
// roots/list).
//
// The methods are called in the goroutine of the request, by many goroutines at a time,
// and delay it: they must not block. They may call the client, but must not wait for the request that
// they observe, as Refresh does in one of tools/list. A panic in them is logged and has no other effect.
type Observer interface {
	// RequestStarted is called before anything is sent, and before any wait. The context that it
	// returns replaces that of the request: RequestEnded gets it and, with Incoming, so does the
	// handler of the host. nil keeps the context.
	//
	// The bytes are a JSON object of members that travel in the _meta of the request, such
	// as {"traceparent":"00-…"} (SEP-414); nil for none. They are not sent with Incoming.
	// The members progressToken and io.modelcontextprotocol/… belong to the protocol. If
	// the bytes have one of these, or are no JSON object, they are not sent, and the log
	// says so once. They must not change before RequestEnded.
	RequestStarted(ctx context.Context, r RequestStart) (context.Context, []byte)
	// RequestEnded is called once for each RequestStarted, after the result was decoded.
	RequestEnded(ctx context.Context, r RequestEnd)
}

// RequestStart describes a request at its start.
type RequestStart struct {
	// Server is the name of the server, Gen the registration and Epoch the incarnation in
	// service. Epoch is 0 before the first one is ready.
	Server string
	Gen    uint64
	Epoch  uint64
	// Method is the JSON-RPC method, as in "tools/call".
	Method string
	// Target is the server's own name of the tool or prompt, or the URI of the resource;
	// empty for other methods. It comes from the caller, perhaps from a language model.
	Target string
	// Listed: the server lists a tool or prompt of the name Target. Only listed names are bounded
	// in number, so only they are fit for labels of metrics.
	Listed bool
	// Protocol is the negotiated version, as in "2025-11-25"; empty while the server has
	// no session.
	Protocol string
	// Transport is "stdio", "http" or "memory".
	Transport string
	// Incoming: the server made the request, and the client answers it.
	Incoming bool
	// Meta is the _meta object of an Incoming request as the server sent it; nil if it
	// sent none. It may hold a trace context.
	Meta json.RawMessage
}

// RequestEnd describes a request at its end. Its RequestStart is up to date: Epoch is the
// incarnation that got the request.
type RequestEnd struct {
	RequestStart
	// Began is when the request was sent or queued, and Took how long it took from then
	// until its answer was received. Waiting with facade.WithWaitReady counts in neither.
	// Both are zero if the request was refused before that.
	Began time.Time
	Took  time.Duration
	// Err is why the request failed; nil if it did not. For Incoming, the server may get
	// another error, without internals of the host.
	Err *Error
	// ToolError: the tool ran and failed by itself (a result with isError).
	ToolError bool
	// Outcome is that of Err; OutcomeAnswered if the request did not fail.
	Outcome Outcome
	// ResultBytes is the length of the result as it was sent.
	ResultBytes int
	// RequestID is the JSON-RPC id of the request, of its last round trip if there were
	// several; 0 if nothing was sent, and with Incoming.
	RequestID int64
}

// Totals counts what has happened to one registration, over all its incarnations, the
// live ones and standbys included. The numbers only grow.
type Totals struct {
	// Starts counts the incarnations that were started.
	Starts int64 `json:"starts"`
	// Ready counts how often the server became ready, takeovers by a standby included.
	Ready int64 `json:"ready"`
	// Uptime is how long the server was ready.
	Uptime time.Duration `json:"uptimeNs"`
	// Ends counts the incarnations that ended, by the kind of their cause. It is nil if
	// none has.
	Ends map[supervisor.CauseKind]int64 `json:"ends,omitempty"`
	// Discarded sums what the sessions received and could not use.
	Discarded Discarded `json:"discarded,omitzero"`
	// Refused counts calls that failed before anything was sent, by the kind of the error:
	// the server was down, the queue was full, the tool or the arguments were wrong. It is
	// nil if there were none.
	Refused map[ErrorKind]int64 `json:"refused,omitempty"`
	// Failed counts calls that failed after something was sent, by the kind of the error.
	// It is nil if there were none.
	Failed map[ErrorKind]int64 `json:"failed,omitempty"`
	// Unknown counts those of Failed that the server may have executed (OutcomeUnknown).
	Unknown int64 `json:"unknown,omitempty"`
	// ToolErrors counts calls of tools whose result has isError: the tool failed by itself. They
	// are not in Failed.
	ToolErrors int64 `json:"toolErrors,omitempty"`
	// TasksRecovered counts the tasks of calls that a later incarnation, or host, has found
	// again, and TasksLost those that did not survive.
	TasksRecovered int64 `json:"tasksRecovered,omitempty"`
	TasksLost      int64 `json:"tasksLost,omitempty"`
	// StaleMessages counts messages between the actors that came too late to count, such
	// as one about an earlier incarnation.
	StaleMessages uint64 `json:"staleMessages,omitempty"`
}

// ClientStats are the facts of a client as a whole. The numbers only grow.
type ClientStats struct {
	// Started is when the client was made.
	Started time.Time `json:"started"`
	// Events is the Seq of the last event; 0 if there was none.
	Events uint64 `json:"events"`
	// MissedEvents counts the events that slow watchers have lost, all together.
	MissedEvents uint64 `json:"missedEvents,omitempty"`
	// Calls is the Seq of the last [CallRecord]: how many calls have ended.
	Calls uint64 `json:"calls"`
	// UnknownServer counts calls that named no registered server.
	UnknownServer int64 `json:"unknownServer,omitempty"`
	// StaleMessages counts reports about registrations that had ended.
	StaleMessages uint64 `json:"staleMessages,omitempty"`
	// ManagerRestarts counts how often the manager, which owns the registries, was
	// replaced after a panic. It is 0 in a client without defects.
	ManagerRestarts uint64 `json:"managerRestarts,omitempty"`
}

// Histogram is a snapshot of a distribution of durations. Its buckets grow with the
// duration: each is at most 1/16 as wide as its own value, or 64 ns wide below 1 µs.
// The zero value is empty.
type Histogram struct {
	// Count is how many durations were recorded.
	Count int64 `json:"count"`
	// Sum is their sum, Max the longest one.
	Sum time.Duration `json:"sumNs"`
	Max time.Duration `json:"maxNs"`
	// Buckets are those that are not empty, the shortest durations first.
	Buckets []HistogramBucket `json:"buckets,omitempty"`
}

// HistogramBucket counts durations of about the same length.
type HistogramBucket struct {
	// UpTo is the longest duration of the bucket. The last bucket also counts everything longer,
	// from about an hour on.
	UpTo time.Duration `json:"upToNs"`
	// Count is how many durations the bucket has.
	Count int64 `json:"count"`
}

// Quantile estimates the duration that a share q of all durations does not exceed:
// Quantile(0.5) is the median, Quantile(0.95) the 95th percentile. The estimate differs
// from the exact value by at most 1/16 (6.3 %) of it, or by 64 ns if that is more. It is
// never longer than Max, which is Quantile(1). q is clamped to [0, 1]; an empty histogram returns 0.
func (h Histogram) Quantile(q float64) time.Duration {
	var total int64
	for _, b := range h.Buckets {
		total += b.Count
	}
	if total == 0 {
		return 0
	}
	if !(q < 1) { // NaN, too
		return h.Max
	}
	rank := max(int64(math.Ceil(max(q, 0)*float64(total))), 1)
	for _, b := range h.Buckets {
		if rank -= b.Count; rank <= 0 {
			low := latency.From(b.UpTo)
			return min(low+(b.UpTo-low)/2, h.Max)
		}
	}
	return h.Max
}

// Mean is the average duration; 0 for an empty histogram.
func (h Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

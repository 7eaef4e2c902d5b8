// Package monitor is not part of the stable API. It has what a client counts and remembers beside the status of its
// servers, for pages, terminals and metrics: ended calls and those in flight, statistics of tools, summaries of events,
// stderr. The methods of facade.Client that return these values are part of the stable API; the fields grow with what
// pages show.
package monitor

import (
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor"
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
	// the time from Began until the answer was received, including the wait in the queue. For a call
	// that was refused before, Began is when that was.
	Began time.Time     `json:"began"`
	Took  time.Duration `json:"tookNs"`
	// Kind is the kind of the error, and Outcome says whether the server has seen the
	// request. Both are empty if the call did not fail.
	Kind    mcpvisor.ErrorKind `json:"kind,omitempty"`
	Outcome mcpvisor.Outcome   `json:"outcome,omitempty"`
	// ToolError: the tool ran and failed by itself (a result with isError).
	ToolError bool `json:"toolError,omitempty"`
	// Error says why the call failed; with ToolError it is the first text of the result. It is one
	// line of at most 300 bytes, without the secrets of the specification. Arguments are not kept.
	Error string `json:"error,omitempty"`
	// ResultBytes is the length of the result as the server sent it.
	ResultBytes int `json:"resultBytes,omitempty"`
}

// EndedCall is a call that has just ended, as facade.WithEndedCalls reports it.
type EndedCall struct {
	CallRecord
	// Principal is that of relay.WithPrincipal, which the gateway sets, or of the key of the call; empty without either.
	Principal string
	// Arguments are those of a tool call, if they were asked for and are the JSON of an object. They are not masked, may be
	// shared, and must not be changed.
	Arguments json.RawMessage
	// Task names the task that the server works on, if the call has returned before its end. Each time that a caller learns
	// of this, the end is reported as a call of tasks/result with the same Task, which has Target and Began if the call had a key.
	Task string
}

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
	// ID names it among the requests of the incarnation that wait, or that do not; 0 if it cannot be canceled: its caller is
	// this client itself, or it was sent to a server on another node of a fleet.
	ID int64 `json:"id,omitempty"`
}

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
	ToolErrors int64 `json:"toolErrors"`
	// Failed counts those of Calls that ended in an [Error], by its kind. It is nil if
	// none did.
	Failed map[mcpvisor.ErrorKind]int64 `json:"failed,omitempty"`
	// Unknown counts those of Failed that the server may have executed (OutcomeUnknown).
	Unknown int64 `json:"unknown"`
	// Refused counts calls that failed before anything was sent. They are not included in Calls.
	Refused int64 `json:"refused"`
	// Duration has the durations of Calls, as CallRecord.Took.
	Duration Histogram `json:"duration"`
}

// OtherTools is the Name and the OriginalName in the [ToolStats] that count all tools beyond the
// first 1000 of a client together.
const OtherTools = "_other"

// ClientStats are the facts of a client as a whole. The numbers only grow.
type ClientStats struct {
	// Started is when the client was made.
	Started time.Time `json:"started"`
	// Events is the Seq of the last event; 0 if there was none.
	Events uint64 `json:"events"`
	// MissedEvents counts the events that slow watchers have lost, all together.
	MissedEvents uint64 `json:"missedEvents"`
	// Calls is the Seq of the last [CallRecord]: how many calls have ended.
	Calls uint64 `json:"calls"`
	// UnknownServer counts calls that named no registered server.
	UnknownServer int64 `json:"unknownServer"`
	// StaleMessages counts reports about registrations that had ended.
	StaleMessages uint64 `json:"staleMessages"`
	// ManagerRestarts counts how often the manager, which owns the registries, was
	// replaced after a panic. It is 0 in a client without defects.
	ManagerRestarts uint64 `json:"managerRestarts"`
}

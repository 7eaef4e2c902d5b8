package mcpvisor

import (
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

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
	Discarded Discarded `json:"discarded"`
	// Refused counts calls that failed before anything was sent, by the kind of the error:
	// the server was down, the queue was full, the tool or the arguments were wrong. It is
	// nil if there were none.
	Refused map[ErrorKind]int64 `json:"refused,omitempty"`
	// Failed counts calls that failed after something was sent, by the kind of the error.
	// It is nil if there were none.
	Failed map[ErrorKind]int64 `json:"failed,omitempty"`
	// Unknown counts those of Failed that the server may have executed (OutcomeUnknown).
	Unknown int64 `json:"unknown"`
	// ToolErrors counts calls of tools whose result has isError: the tool failed by itself. They
	// are not in Failed.
	ToolErrors int64 `json:"toolErrors"`
	// TasksRecovered counts the tasks of calls that a later incarnation, or host, has found
	// again, and TasksLost those that did not survive.
	TasksRecovered int64 `json:"tasksRecovered"`
	TasksLost      int64 `json:"tasksLost"`
	// StaleMessages counts messages between the actors that came too late to count, such
	// as one about an earlier incarnation.
	StaleMessages uint64 `json:"staleMessages"`
}

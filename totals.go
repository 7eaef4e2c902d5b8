package mcpvisor

import (
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

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

// Package retention says how much of the past a client keeps. The comments of the public types
// name these numbers.
package retention

const (
	// Incarnations is how many ended incarnations a mcpvisor.ServerStatus holds.
	Incarnations = 10
	// Steps is how many inputs of each lifecycle are kept.
	Steps = 64
	// StepBytes is the longest message of the cause of such an input, and as much of its stderr.
	StepBytes = 1024
	// Calls is how many ended calls a client keeps.
	Calls = 500
	// UnknownCalls is how many calls of unknown outcome a client keeps, beside those of Calls.
	UnknownCalls = 100
	// Events is how many events about the life of servers a client keeps, and as many that
	// servers cause.
	Events = 1000
	// Summaries is how many monitor.EventSummary a client keeps.
	Summaries = 2000
	// TargetBytes is the longest Target of a monitor.CallRecord or a monitor.CallInFlight.
	TargetBytes = 256
	// CallErrorBytes is the longest Error of a monitor.CallRecord.
	CallErrorBytes = 300
	// ToolStats is how many tools of all servers of a client together have statistics of their
	// own.
	ToolStats = 1000
	// DeltaNames is how many entries of each kind a mcpvisor.Delta names.
	DeltaNames = 50
	// ListsBytes is the most that is kept of what one lazy server offers.
	ListsBytes = 64 << 20
)

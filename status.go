package mcpvisor

import (
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// StatusSchema names the shape of [ServerStatus] in JSON. Within one schema, fields
// are only added.
const StatusSchema = "status/v3"

// ServerStatus is what is known about one registered server at one moment. A
// registration lasts from Register to Unregister; within it, an incarnation is one
// process or connection of the server. The status is a copy that the caller may keep, change and marshal, Session.Capabilities excepted. It
// holds no secrets. In JSON, durations are nanoseconds.
type ServerStatus struct {
	// Name is the server's name in its client.
	Name string `json:"name"`
	// State is the state of its lifecycle, Since when it was entered.
	State supervisor.State `json:"state"`
	Since time.Time        `json:"since"`
	// Gen numbers the registrations of a client. A name that is registered again gets
	// a new one.
	Gen uint64 `json:"gen"`
	// Epoch numbers the incarnations of this registration, from 1.
	Epoch uint64 `json:"epoch"`
	// Transport is "stdio", "http", "memory" or "custom".
	Transport string `json:"transport"`
	// Target is the command or the URL, without arguments and secrets.
	Target string `json:"target"`
	// Origin says where the server was configured, as in ".mcp.json:12"; may be empty. See
	// ServerSpec.Origin.
	Origin string `json:"origin,omitempty"`
	// Policy describes the retry policy, as in "retry 3×, 500ms doubling".
	Policy string `json:"policy"`
	// Attempt is how many attempts of the policy are spent; 0 again once a session has
	// been ready for StableAfter.
	Attempt int `json:"attempt"`
	// MaxAttempts is how many attempts the policy allows in a row: 0 none, -1 any
	// number.
	MaxAttempts int `json:"maxAttempts"`
	// Restarts counts the incarnations after the first.
	Restarts int `json:"restarts"`
	// RetryAt is when the next attempt is due; nil if none is scheduled.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// LastCause is why the last session ended; nil if none has ended.
	LastCause *supervisor.Cause `json:"lastCause,omitempty"`
	// Session describes the current session, as far as it is known while the server is
	// connecting; nil while the server has no session.
	Session *SessionInfo `json:"session,omitempty"`
	// WantsStandby is ServerSpec.Standby: a ready server without Standby lacks one.
	WantsStandby bool `json:"wantsStandby,omitempty"`
	// Standby describes the session that is ready to take over; nil without one.
	Standby *SessionInfo `json:"standby,omitempty"`
	// Catalog counts what the server offers.
	Catalog CatalogInfo `json:"catalog"`
	// Calls counts the calls of this registration.
	Calls CallCounts `json:"calls"`
	// Totals counts what has happened to this registration since it began.
	Totals Totals `json:"totals"`
	// History holds the last incarnations that ended, at most HistoryLimit, oldest first.
	History []Incarnation `json:"history,omitempty"`
}

// HistoryLimit is how many ended incarnations a status holds.
const HistoryLimit = 10

// CatalogInfo counts what a ready server offers.
type CatalogInfo struct {
	// Tools, Resources, Templates and Prompts count the entries that the client lists.
	Tools     int `json:"tools"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	// Hidden is how many tools the server lists that ServerSpec.Tools hides. They are
	// not counted in Tools.
	Hidden int `json:"hidden,omitempty"`
	// Tokens estimates how many tokens the tools cost a language model that is given all
	// of them: the sum of [Tool.TokenEstimate].
	Tokens int `json:"tokens,omitempty"`
	// Warnings says which lists or entries were left out, and why.
	Warnings []Warning `json:"warnings,omitempty"`
}

// CallCounts counts the calls of a registration, over all its incarnations.
type CallCounts struct {
	// InFlight is how many calls the server works on now.
	InFlight int64 `json:"inFlight"`
	// Queued is how many calls wait behind Limits.MaxInFlight now.
	Queued int64 `json:"queued,omitempty"`
	// Total counts the calls that were admitted.
	Total int64 `json:"total"`
	// Failed counts calls that ended in an [Error]. A result with IsError is the tool's
	// own and does not count.
	Failed int64 `json:"failed"`
}

// Incarnation is one process or connection of a server that has ended.
type Incarnation struct {
	// Epoch is its number, from 1.
	Epoch uint64 `json:"epoch"`
	// PID is its process id, 0 for servers that are no process.
	PID int `json:"pid,omitempty"`
	// Started is when it was started, Ended when its end was noticed.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Served is whether it had become ready.
	Served bool `json:"served"`
	// Cause is why it ended.
	Cause *supervisor.Cause `json:"cause,omitempty"`
}

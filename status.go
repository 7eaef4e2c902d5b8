package mcpvisor

import (
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ServerStatus describes one registered server at one moment. A
// registration lasts from Register to Unregister; within it, an incarnation is one
// process or connection of the server. The status is a copy that the caller may keep, change and marshal, Session.Capabilities excepted. It
// holds no secrets. In JSON, durations are nanoseconds.
type ServerStatus struct {
	// Name is the server's name in its client.
	Name string `json:"name"`
	// State is the state of its lifecycle, Since when it was entered.
	State supervisor.State `json:"state"`
	Since time.Time        `json:"since"`
	// DownSince is since when the server has not been ready; nil while it is, and while it is asleep, resting, or
	// stopped by an operator. Attempts that fail do
	// not change it. Of a server that was never ready it is when the registration began.
	DownSince *time.Time `json:"downSince,omitempty"`
	// Gen numbers the registrations of a client. A name that is registered again gets
	// a new one.
	Gen uint64 `json:"gen"`
	// Registered is when this registration began. Calls, Totals and History begin then.
	Registered time.Time `json:"registered,omitzero"`
	// Epoch numbers the incarnations of this registration, from 1.
	Epoch uint64 `json:"epoch"`
	// Transport is that of ServerSpec.TransportKind: "stdio", "http", "memory", "custom", or "ws"
	// for a WebSocket in a configuration file.
	Transport string `json:"transport"`
	// Target is the result of ServerSpec.Target: what the server runs or where it is, such as "npx
	// @scope/server" or a URL.
	Target string `json:"target"`
	// Origin says where the server was configured, as in ".mcp.json:12"; may be empty. See
	// ServerSpec.Origin.
	Origin string `json:"origin,omitempty"`
	// Policy describes the retry policy, as in "retry 3×, 500ms doubling".
	Policy string `json:"policy"`
	// Attempt counts the attempts of the policy that are spent. It is reset to 0 once a session
	// has been ready for StableAfter.
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
	// WantsStandby is ServerSpec.Standby. If it is set and Standby is nil, the server lacks its
	// standby.
	WantsStandby bool `json:"wantsStandby,omitempty"`
	// Standby describes the session that is ready to take over; nil without one.
	Standby *SessionInfo `json:"standby,omitempty"`
	// WaitsFor names what a server in the state "waiting" comes after that was not ready when it began to wait.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Copies are the process ids of the copies that run beside it (relay.Methods.CopyServer); 0 for one that is no process.
	Copies []int `json:"copies,omitempty"`
	// Catalog counts what the server offers.
	Catalog CatalogInfo `json:"catalog"`
	// Calls counts the calls of this registration.
	Calls CallCounts `json:"calls"`
	// Totals counts what has happened to this registration since it began.
	Totals Totals `json:"totals"`
	// History holds the last incarnations that ended, at most 10, oldest first.
	History []Incarnation `json:"history,omitempty"`
}

// CatalogInfo counts what a ready server offers.
type CatalogInfo struct {
	// Tools, Resources, Templates and Prompts count the entries that the client lists.
	Tools     int `json:"tools"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	// Hidden counts the tools of the server that ServerSpec.Tools hides. Tools does not count
	// them.
	Hidden int `json:"hidden"`
	// Tokens estimates how many tokens the tools cost a language model that is given all
	// of them: the sum of [Tool.TokenEstimate].
	Tokens int `json:"tokens"`
	// Warnings says which lists or entries were left out, and why.
	Warnings []Warning `json:"warnings,omitempty"`
}

// CallCounts counts the calls of a registration, over all its incarnations.
type CallCounts struct {
	// InFlight is how many calls the server works on now.
	InFlight int64 `json:"inFlight"`
	// Queued is how many calls wait behind Limits.MaxInFlight now.
	Queued int64 `json:"queued"`
	// Total counts the calls that got a place among Limits.MaxInFlight, those in flight
	// included. Calls that ended in the queue do not count.
	Total int64 `json:"total"`
	// Failed counts calls that ended in an [Error]. A result with IsError is the tool's
	// own and does not count.
	Failed int64 `json:"failed"`
}

// Incarnation is one process or connection of a server that has ended.
type Incarnation struct {
	// Epoch is its number, from 1.
	Epoch uint64 `json:"epoch"`
	// PID is its process id; 0 if the server is not a process.
	PID int `json:"pid,omitempty"`
	// Started is when it was started, Ended when its end was noticed.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Served reports whether it became ready.
	Served bool `json:"served"`
	// Cause says why it ended.
	Cause *supervisor.Cause `json:"cause,omitempty"`
}

// SessionInfo describes the session of one incarnation.
type SessionInfo struct {
	// ProtocolVersion is the negotiated version, as in "2025-11-25".
	ProtocolVersion string `json:"protocolVersion"`
	// Era is EraLegacy or EraModern.
	Era Era `json:"era"`
	// BothEras: the session is of EraModern, and the server says that it speaks EraLegacy, too.
	BothEras bool `json:"bothEras,omitempty"`
	// ServerName and ServerVersion are those that the server declares.
	ServerName    string `json:"serverName,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	// Capabilities are those that the server declared. They are shared: do not change them.
	Capabilities *mcp.ServerCapabilities `json:"capabilities,omitempty"`
	// Instructions is the server's advice to a language model.
	Instructions string `json:"instructions,omitempty"`
	// Deprecated names the deprecated transport or version that the session uses, and
	// what to do; empty otherwise.
	Deprecated string `json:"deprecated,omitempty"`
	// Node is the node of a fleet that runs the server; empty outside of a fleet.
	Node string `json:"node,omitempty"`
	// PID is the process id of a stdio server; 0 otherwise.
	PID int `json:"pid,omitempty"`
	// Discarded counts messages and output that could not be used.
	Discarded Discarded `json:"discarded"`
	// StrayOutput is the first text that a stdio server wrote to its stdout in place of
	// JSON-RPC; zero if there was none.
	StrayOutput StrayOutput `json:"strayOutput,omitzero"`
	// Stderr holds the first and last lines that a server wrote to stderr, until it is
	// ready; nil afterwards. LastCause.Stderr has those of the last session.
	Stderr []string `json:"stderr,omitempty"`
}

// Discarded counts what one session received and could not use.
type Discarded struct {
	// Malformed counts lines that are not one JSON-RPC message: banners, log lines, partial
	// lines. Lines with several messages count, too, although these messages are handled.
	Malformed uint64 `json:"malformed"`
	// Oversize counts messages longer than Limits.MaxMessageBytes.
	Oversize uint64 `json:"oversize"`
	// Unmatched counts responses and reports of progress that belong to no pending request:
	// late, repeated or invented ones.
	Unmatched uint64 `json:"unmatched"`
	// Dropped counts messages that came faster than they could be handled: notifications and
	// requests of the server, and large messages without room in Limits.MaxBufferBytes.
	Dropped uint64 `json:"dropped"`
}

// StrayOutput is text on the stdout of a stdio server where JSON-RPC is required.
type StrayOutput struct {
	// Text is its beginning: at most 200 bytes, without control characters and secrets.
	Text string `json:"text"`
	// Reason says what the text looks like and what to do, as in "it asks a question".
	Reason string `json:"reason"`
}

// Warning says what is missing from the catalog of a server, and why: a list that
// failed, an entry that could not be read, a limit that was reached. The server is
// ready anyway.
type Warning struct {
	// List is the list that the warning is about: "tools", "resources",
	// "resourceTemplates" or "prompts". It is empty if the warning is about none of them.
	List string `json:"list,omitempty"`
	// Text is one line. It may quote what the server sent, without control characters
	// and shortened.
	Text string `json:"text"`
	// Guarded: it is the finding of a CatalogGuard; see [Finding]. List may be "instructions", too.
	Guarded bool `json:"guarded,omitempty"`
}

// String returns "List: Text", or Text alone where List is empty.
func (w Warning) String() string {
	if w.List == "" {
		return w.Text
	}
	return w.List + ": " + w.Text
}

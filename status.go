package mcpvisor

import (
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// StatusSchema names the shape of [ServerStatus] in JSON. Fields are only
// ever added to it.
const StatusSchema = "status/v3"

// ServerStatus is what is known about one registered server at one moment. It
// is a copy: keep it, change it, marshal it. It holds no secrets.
type ServerStatus struct {
	Name  string           `json:"name"`
	State supervisor.State `json:"state"`
	// Since is when State was entered.
	Since time.Time `json:"since"`
	// Gen numbers registrations in this client; a name registered anew gets a new one.
	Gen uint64 `json:"gen"`
	// Epoch numbers the incarnations of this registration, from 1.
	Epoch uint64 `json:"epoch"`
	// Transport is "stdio", "http" or "memory".
	Transport string `json:"transport"`
	// Target is the command or the URL, without arguments or secrets.
	Target string `json:"target"`
	Policy string `json:"policy"`
	// Attempt is how many tries of the retry budget are spent; 0 once a session
	// has been stable.
	Attempt int `json:"attempt"`
	// MaxAttempts is the budget: 0 none, -1 unlimited.
	MaxAttempts int `json:"maxAttempts"`
	// Restarts counts every incarnation after the first.
	Restarts int `json:"restarts"`
	// RetryAt is when the next try is due; nil if none is planned.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// LastCause is why the last session ended; nil if none has.
	LastCause *supervisor.Cause `json:"lastCause,omitempty"`
	// Session describes the current session, as far as it is known while the
	// server is connecting; nil while there is none.
	Session *SessionInfo `json:"session,omitempty"`
	// Standby describes the session that is ready to take over; nil if there is
	// none.
	Standby *SessionInfo `json:"standby,omitempty"`
	Catalog CatalogInfo  `json:"catalog"`
	Calls   CallCounts   `json:"calls"`
	// History holds the last incarnations that ended, oldest first, at most
	// HistoryLimit of them.
	History []Incarnation `json:"history,omitempty"`
}

// HistoryLimit is how many ended incarnations a status remembers.
const HistoryLimit = 10

// SessionInfo describes an open session.
type SessionInfo struct {
	// ProtocolVersion is the negotiated version, as in "2025-11-25".
	ProtocolVersion string `json:"protocolVersion"`
	// Era is EraLegacy or EraModern.
	Era Era `json:"era"`
	// ServerName and ServerVersion are what the server calls itself.
	ServerName    string `json:"serverName,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	// Capabilities is what the server declared. Shared: do not change it.
	Capabilities *mcp.ServerCapabilities `json:"capabilities,omitempty"`
	// Instructions is the server's advice to the model.
	Instructions string `json:"instructions,omitempty"`
	// Deprecated says what about the session the specification has given up, and
	// what to do; empty if nothing is.
	Deprecated string `json:"deprecated,omitempty"`
	// PID is the process id of a stdio server; 0 otherwise.
	PID int `json:"pid,omitempty"`
	// Discarded counts what the server sent that was no JSON-RPC, or answered nothing.
	Discarded Discarded `json:"discarded,omitzero"`
	// StrayOutput is what a stdio server wrote to its stdout first that was no
	// JSON-RPC; zero if there was nothing.
	StrayOutput StrayOutput `json:"strayOutput,omitzero"`
	// AbandonedRequests is how many requests the RoundTripper of HTTP.Client still holds
	// although their contexts have ended, those of earlier sessions included. One
	// that is not an *http.Transport may ignore the context of a request; its
	// goroutine is then left behind. At 256 it gets no more requests.
	AbandonedRequests int `json:"abandonedRequests,omitempty"`
	// Stderr holds the first and the last lines that a server has written to stderr
	// so far, while it is not ready; nil when it is. See also Cause.Stderr.
	Stderr []string `json:"stderr,omitempty"`
}

// StrayOutput is text on the stdout of a server where a message should stand.
type StrayOutput struct {
	// Text is its beginning, at most 200 bytes, without control characters and
	// secrets.
	Text string `json:"text"`
	// Reason is what the text looks like, and what to do, as in "it asks a question".
	Reason string `json:"reason"`
}

// Discarded counts what was skipped on one session.
type Discarded struct {
	// Malformed is lines that are not JSON-RPC: banners, log lines, half lines.
	Malformed uint64 `json:"malformed,omitempty"`
	// Oversize is messages beyond Limits.Line.
	Oversize uint64 `json:"oversize,omitempty"`
	// Unmatched is answers to no call that is waiting: late, doubled or invented.
	Unmatched uint64 `json:"unmatched,omitempty"`
	// Dropped is notifications, and requests of the server's, thrown away because
	// they came faster than they could be handled.
	Dropped uint64 `json:"dropped,omitempty"`
}

// CatalogInfo counts what a ready server offers.
type CatalogInfo struct {
	Tools     int `json:"tools"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	// Hidden is how many tools the server lists that [ServerSpec].Tools hides. They
	// are not among Tools.
	Hidden int `json:"hidden,omitempty"`
	// Warnings is what discovery left out and why.
	Warnings []string `json:"warnings,omitempty"`
}

// CallCounts counts calls over the whole registration.
type CallCounts struct {
	InFlight int64 `json:"inFlight"`
	// Queued counts those that wait for their turn; see Limits.InFlight.
	Queued int64 `json:"queued,omitempty"`
	Total  int64 `json:"total"`
	// Failed counts calls that ended in an error of ours or of the protocol. A
	// tool's own isError is a result and does not count.
	Failed int64 `json:"failed"`
}

// Incarnation is one ended life of a server.
type Incarnation struct {
	Epoch uint64 `json:"epoch"`
	PID   int    `json:"pid,omitempty"`
	// Started is when it was dialled, Ended when its end was noticed.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Served is whether it had become ready.
	Served bool              `json:"served"`
	Cause  *supervisor.Cause `json:"cause,omitempty"`
}

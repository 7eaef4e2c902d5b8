package mcpvisor

import "github.com/modelcontextprotocol/go-sdk/mcp"

// SessionInfo describes the session of one incarnation.
type SessionInfo struct {
	// ProtocolVersion is the negotiated version, as in "2025-11-25".
	ProtocolVersion string `json:"protocolVersion"`
	// Era is EraLegacy or EraModern.
	Era Era `json:"era"`
	// ServerName and ServerVersion are what the server calls itself.
	ServerName    string `json:"serverName,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	// Capabilities is what the server declared. It is shared: do not change it.
	Capabilities *mcp.ServerCapabilities `json:"capabilities,omitempty"`
	// Instructions is the server's advice to a language model.
	Instructions string `json:"instructions,omitempty"`
	// Deprecated names the deprecated transport or version that the session uses, and
	// what to do; empty otherwise.
	Deprecated string `json:"deprecated,omitempty"`
	// PID is the process id of a stdio server; 0 otherwise.
	PID int `json:"pid,omitempty"`
	// Discarded counts messages and output that could not be used.
	Discarded Discarded `json:"discarded,omitzero"`
	// StrayOutput is the first text that a stdio server wrote to its stdout in place of
	// JSON-RPC; zero if there was none.
	StrayOutput StrayOutput `json:"strayOutput,omitzero"`
	// AbandonedRequests counts requests that the RoundTripper of HTTP.Client still holds
	// although their contexts have ended, those of earlier sessions included. Only a
	// RoundTripper that is no *http.Transport and ignores contexts causes them. At 256
	// it gets no further requests: calls fail with ErrUnavailable, and nothing is sent,
	// until it returns from some.
	AbandonedRequests int `json:"abandonedRequests,omitempty"`
	// Stderr holds the first and last lines that a server wrote to stderr, until it is
	// ready; nil afterwards. LastCause.Stderr has those of the last session.
	Stderr []string `json:"stderr,omitempty"`
}

// Discarded counts what one session received and could not use.
type Discarded struct {
	// Malformed counts lines that are not one JSON-RPC message: banners, log lines, partial
	// lines, lines with several messages, which are handled all the same.
	Malformed uint64 `json:"malformed,omitempty"`
	// Oversize counts messages longer than Limits.MaxMessageBytes.
	Oversize uint64 `json:"oversize,omitempty"`
	// Unmatched counts responses to no pending request: late, repeated or invented ones.
	Unmatched uint64 `json:"unmatched,omitempty"`
	// Dropped counts notifications and requests of the server that came faster than
	// they could be handled.
	Dropped uint64 `json:"dropped,omitempty"`
}

// StrayOutput is text on the stdout of a stdio server where JSON-RPC is required.
type StrayOutput struct {
	// Text is its beginning: at most 200 bytes, without control characters and secrets.
	Text string `json:"text"`
	// Reason says what the text looks like and what to do, as in "it asks a question".
	Reason string `json:"reason"`
}

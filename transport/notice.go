package transport

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
)

// Notice is what a server tells without being asked, as far as it concerns the
// whole session: progress belongs to one request, and what asks for an answer
// is a request.
type Notice struct {
	Kind NoticeKind
	// Lists is set for ListChanged.
	Lists catalog.Lists
	// URI is set for ResourceUpdated.
	URI string
	// Log is set for LogMessage.
	Log *mcpvisor.LogMessage
	// Honored is set for Acknowledged: the resources that the server watches.
	Honored []string
	// Stream is set for Acknowledged: the id of the request that asked for it, see
	// [Stream.Sent]; 0 if the server does not say.
	Stream int64
}

// NoticeKind tells the notices apart.
type NoticeKind uint8

// The notices of MCP, utilities and server features.
const (
	// ListChanged: notifications/{tools,resources,prompts}/list_changed.
	ListChanged NoticeKind = iota + 1
	// ResourceUpdated: notifications/resources/updated.
	ResourceUpdated
	// LogMessage: notifications/message.
	LogMessage
	// Acknowledged: notifications/subscriptions/acknowledged (2026-07-28), the
	// first message on a stream that was asked for with subscriptions/listen.
	Acknowledged
	// Gap: for a while the server could tell nothing, and now it can again. No
	// message of the server's; a stream of its notifications was lost.
	Gap
)

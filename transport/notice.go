package transport

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
)

// Notice is a notification of a server that concerns the session as a whole, or a gap in
// these notifications. Progress notifications belong to a request and are not notices.
type Notice struct {
	Kind NoticeKind
	// Lists is set for ListChanged.
	Lists catalog.Lists
	// URI is set for ResourceUpdated.
	URI string
	// Log is set for LogMessage.
	Log *mcpvisor.LogMessage
	// Honored is set for Acknowledged: the URIs of the resources that the server watches.
	Honored []string
	// Stream is set for Acknowledged: the id of the listen request, see [Stream.Sent]; 0 if
	// the server does not name it.
	Stream int64
}

// NoticeKind is the kind of a notice.
type NoticeKind uint8

// The notices of MCP, utilities and server features.
const (
	// ListChanged: notifications/{tools,resources,prompts}/list_changed.
	ListChanged NoticeKind = iota + 1
	// ResourceUpdated: notifications/resources/updated.
	ResourceUpdated
	// LogMessage: notifications/message.
	LogMessage
	// Acknowledged: notifications/subscriptions/acknowledged (2026-07-28), the first
	// message on a stream that was opened with subscriptions/listen.
	Acknowledged
	// Gap: notifications may have been lost, because the stream that carries them broke and
	// was opened again. The session makes this notice itself.
	Gap
)

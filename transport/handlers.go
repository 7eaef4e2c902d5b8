package transport

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handlers are the functions of the host that answer requests of servers. If a handler is
// nil, its capability is not declared and its requests are rejected. All servers share the
// handlers, and many goroutines call them; server is the name of the requesting server.
//
// The context of a handler ends when the server cancels the request, when the call that the
// request is known to belong to fails, and when the session ends. No request waits for a
// handler that ignores this.
type Handlers struct {
	// Sample answers sampling/createMessage. Requests with tools come only with
	// SampleTools.
	Sample func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	// SampleTools declares that Sample handles tools.
	SampleTools bool
	// ElicitForm answers elicitation/create with a form, ElicitURL with a URL.
	ElicitForm func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	ElicitURL  func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// Elicited gets the ids of notifications/elicitation/complete.
	Elicited func(ctx context.Context, server, elicitationID string)
	// Roots answers roots/list. Legacy servers are notified of its changes.
	Roots *Roots
}
